package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// relative are the headlines of joined results: what compares two things inside each result, compared between the results. The
// machine is in both terms of such a ratio and cancels, as far as it makes both faster or slower alike; of all numbers of results
// from several machines these say the most.
func relative(e *result.Experiment) []Conclusion {
	if e.Design.Kind != result.Unpaired || len(e.Environments) == 0 || e.Environments[0].Joined == nil {
		return nil
	}
	var out []Conclusion
	for _, kase := range CaseIDs(e) {
		out = append(out, ratiosOfRuns(e, kase)...)
		out = append(out, ratiosOfArms(e, kase)...)
	}
	return out
}

// ratiosOfRuns compares the metrics that compare two things of one run, such as a channel with TLS: an environment of another
// result with the one of the same name in the first, or with the first.
func ratiosOfRuns(e *result.Experiment, kase string) (out []Conclusion) {
	first := &e.Environments[0]
	for _, d := range secondaryMetrics(e) {
		if d.Unit != "ratio" || !strings.Contains(d.Name, "_over_") {
			continue
		}
		for i := range e.Environments {
			v := &e.Environments[i]
			if v.Joined == nil || v.Joined.ID == first.Joined.ID {
				continue
			}
			base := first
			if same := joinedFrom(e, first.Joined.ID, v.Joined.Env); same != nil {
				base = same
			}
			out = append(out, relation(e, e.Label(d.Name), kase, [2]string{base.ID, v.ID}, [2][]float64{costsOf(e, base.ID, kase, d), costsOf(e, v.ID, kase, d)},
				"unpaired runs", "both are of the same run", refusal(e, kase, base, v)))
		}
	}
	return out
}

// ratiosOfArms compares the ratios of two arms that several results have, pair by pair.
func ratiosOfArms(e *result.Experiment, kase string) (out []Conclusion) {
	d := e.Desc(primary(e))
	if d == nil || d.Better != "lower" && d.Better != "higher" {
		return nil
	}
	first := &e.Environments[0]
	for i := range e.Environments {
		t := &e.Environments[i]
		if t.Joined == nil || t.Joined.ID == first.Joined.ID {
			continue
		}
		base, over, there := joinedFrom(e, t.Joined.ID, first.Joined.Env), t.Joined.Env, joinedFrom(e, first.Joined.ID, t.Joined.Env)
		if base == nil || base == t || there == nil {
			continue
		}
		what := fmt.Sprintf("%s over %s (%s)", over, first.Joined.Env, e.Label(d.Name))
		refused := refusal(e, kase, there, base, t)
		for _, j := range []*result.Joined{t.Joined, first.Joined} {
			if j.Kind != result.Interleaved {
				refused = fmt.Sprintf("the arms of %s did not run in interleaved pairs, so drift of the machine does not cancel", j.Name)
			}
		}
		out = append(out, relation(e, what, kase, [2]string{first.Joined.Name, t.Joined.Name},
			[2][]float64{pairRatios(e, first.ID, there.ID, kase, *d), pairRatios(e, base.ID, t.ID, kase, *d)}, "pairs", "both are of the same pair", refused))
	}
	return out
}

// joinedFrom finds an environment of a joined document by the result that it is from and its name there.
func joinedFrom(e *result.Experiment, from, env string) *result.Environment {
	for i := range e.Environments {
		if j := e.Environments[i].Joined; j != nil && j.ID == from && j.Env == env {
			return &e.Environments[i]
		}
	}
	return nil
}

// costsOf are the values of a ratio's runs, above 1 where the first thing is worse.
func costsOf(e *result.Experiment, env, kase string, d result.MetricDesc) []float64 {
	good, _ := readings(e, env, kase, d.Name)
	v := values(good)
	for i := range v {
		if d.Better == "higher" {
			v[i] = 1 / v[i]
		}
	}
	return v
}

// pairRatios are the cost ratios of the pairs of two arms of one result.
func pairRatios(e *result.Experiment, base, treat, kase string, d result.MetricDesc) (out []float64) {
	below := map[int]float64{}
	for _, r := range firstOf(readings(e, base, kase, d.Name)) {
		below[r.run.Pair] = r.value
	}
	for _, r := range firstOf(readings(e, treat, kase, d.Name)) {
		b, ok := below[r.run.Pair]
		switch {
		case !ok:
		case d.Better == "higher":
			out = append(out, b/r.value)
		default:
			out = append(out, r.value/b)
		}
	}
	return out
}

func firstOf(good, _ []reading) []reading { return good }

// refusal says why no exact ratio comes from what these environments measured in a case: a guard refused it, or an arm was at a
// limit, here or in the results' own conclusions. "" if nothing speaks against it.
func refusal(e *result.Experiment, kase string, envs ...*result.Environment) string {
	why := func(c *result.Comparison, treatment string) string {
		switch {
		case c.Case != kase || !c.Primary:
		case c.Verdict == stats.Invalid:
			return treatment + ": " + noRatio(c)
		case c.Bound == result.AtMost || c.Bound == result.AtLeast:
			return fmt.Sprintf("%s against %s was at a limit, so their ratio is only a bound", treatment, orDefault(c.Baseline, "its baseline"))
		}
		return ""
	}
	for _, v := range envs {
		for _, c := range primaries(e) {
			if c.Treatment != v.ID {
				continue
			}
			if s := why(c, v.ID); s != "" {
				return s
			}
		}
		for i := range v.Joined.Own {
			if s := why(&v.Joined.Own[i], v.ID); s != "" {
				return s + " (in its own result)"
			}
		}
	}
	return ""
}

// relation states what a ratio is in one place, of what it is in another; the first of two is the other.
func relation(e *result.Experiment, what, kase string, places [2]string, ratios [2][]float64, unit, cancels, refused string) Conclusion {
	s := stats.Unpaired(ratios[0], ratios[1], stats.Options{Margin: e.Design.Margin, Better: -1, Seed: e.Design.Seed})
	if refused != "" {
		s.Verdict, s.Ratio, s.Reasons = stats.Invalid, math.NaN(), []string{refused}
	}
	c := result.Comparison{Verdict: s.Verdict, Grade: e.Design.Grade, PairsNeeded: s.Needed, Low: &s.Low}
	if unit != "pairs" {
		c.Estimator = s.Estimator
	}
	a := appearanceOf(&c)
	out := Conclusion{Kind: kind(&c), Word: verdictWord(&c), Mark: a.mark, Means: a.means, Number: "cost",
		Facts: []Fact{{unit, fmt.Sprintf("%d against %d", len(ratios[1]), len(ratios[0]))}, {"grade", gradeText(c.Grade)}, {"what cancels", "the machine: " + cancels}}}
	what += " on " + orDefault(e.Workload.Name, "an unnamed workload") + inCase(e, kase)
	if !finite(s.Ratio, s.Low, s.High) {
		out.Headline = fmt.Sprintf("%s is not compared between %s and %s.", what, places[1], places[0])
		out.Big = Missing(strings.Join(s.Reasons, "; "))
		return out
	}
	out.Headline = fmt.Sprintf("%s: the cost in %s is %s that in %s.", what, places[1], metric.TimesOf(s.Ratio, s.Low, s.High), places[0])
	out.Details = []string{fmt.Sprintf("The cost in %s is %s.", places[1], metric.Times(s.TreatMedian)), fmt.Sprintf("The cost in %s is %s.", places[0], metric.Times(s.BaseMedian))}
	if metric.FactorsDiffer(s.Ratio, s.TreatMedian/s.BaseMedian) {
		out.Details = append(out.Details, fmt.Sprintf("The ratio of these two medians is %s. The headline's ratio is estimated from the %s (Hodges-Lehmann), so it can differ.", metric.Times(s.TreatMedian/s.BaseMedian), unit))
	}
	out.Big = Cell{Text: metric.Times(s.Ratio), Raw: fmt.Sprint(s.Ratio), Number: true}
	out.Facts = append([]Fact{{metric.Percent(s.Confidence) + " interval", metric.Times(s.Low) + " to " + metric.Times(s.High)}}, out.Facts...)
	if s.Verdict == stats.Inconclusive {
		out.Doubts = s.Reasons
		if open := c.Deciding(); open != "" {
			out.Next = append(out.Next, soFar(open, s.Pairs))
		}
	}
	return out
}
