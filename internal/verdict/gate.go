package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// The exit statuses of a gate.
const (
	Passed     = 0
	Regression = 1
	Undecided  = 2
	NotValid   = 3
)

// Policy is the effect of an inconclusive outcome on a build.
type Policy string

// The policies. Under every policy the text says that the outcome was inconclusive.
const (
	Report Policy = ""     // status 2
	Pass   Policy = "pass" // status 0
	Fail   Policy = "fail" // status 1
)

// GateOptions are the options of a conclusion, including the gate's Margin and Calibration, and the policy for an
// inconclusive outcome.
type GateOptions struct {
	Options
	Inconclusive Policy
}

// Result is the outcome of a gate.
type Result struct {
	Status int
	Text   string
}

// Gate decides whether a change may pass. It fails (Regression) only if the whole interval of a primary metric lies
// beyond the margin, also after Holm's correction for the number of cases and treatments, and no guard or second
// opinion objects. It passes only if every primary metric is shown to be no worse than the margin: the upper end of
// its 90 % interval, a one-sided test at 5 %, lies below. Anything between is Undecided; anything that a guard
// refuses is NotValid.
//
// A missing metric, an unfinished experiment, and arms that differ in nothing, or in anything but the one declared
// subject, are NotValid. Separate results are never trusted alone. The gate is Undecided unless a calibration of
// their host and job has a noise floor below the margin; then both ends of the interval are first moved by that
// floor.
//
// The experiment is not changed.
func Gate(e *result.Experiment, o GateOptions) Result {
	own := *e
	own.Comparisons, own.Guards = nil, slices.Clone(e.Guards)
	g := gate{guardRun: conclude(&own, o.Options), inconclusive: o.Inconclusive}
	g.refusals()
	if len(g.invalid) == 0 {
		g.judge()
	}
	return g.result()
}

// gate is a decision in progress.
type gate struct {
	*guardRun
	inconclusive Policy
	// The reasons why the gate is invalid, fails or is undecided; and what is fine.
	invalid, worse, open, fine []string
}

// refusals collects the reasons why the experiment is unfit for a gate.
func (g *gate) refusals() {
	e := g.e
	refuse := func(format string, args ...any) { g.invalid = append(g.invalid, fmt.Sprintf(format, args...)) }
	switch {
	case len(e.Environments) < 2:
		refuse("there is one arm: nothing to compare")
		return
	case e.EndedAt == nil:
		refuse("the experiment has not ended; continue it with --resume")
	}
	if len(g.contests) == 0 {
		refuse("there is no case to compare")
	}
	for _, s := range e.Design.Order {
		// A planned run that is missing may have been removed to change the outcome.
		// One that was left out belongs to a case that has no value, which is refused in judge.
		if !e.Barren(s.Case, s.Env) && !slices.ContainsFunc(e.Runs, func(r result.Run) bool { return r.Pair == s.Pair && r.Case == s.Case && r.Env == s.Env }) {
			refuse("the planned run of pair %d, case %s, in %s is missing", s.Pair, s.Case, s.Env)
		}
	}
	for _, c := range e.Cases {
		for _, env := range e.Environments {
			runs := g.runs(c.ID, env.ID)
			for _, r := range runs {
				// A crashed run is a lost pair. A run that reported other metrics but not this one is a fault of the
				// measurement.
				m := r.Metric(e.Design.Primary)
				if (m == nil || m.Value == nil) && !unsteady(r) && (r.Status != result.Failed || len(r.Metrics) > 0) {
					refuse("run %s has no %s: %s", r.ID, e.Design.Primary, reason(r, m))
				}
			}
			if len(runs) == 0 {
				refuse("case %s has no run in %s", c.ID, env.ID)
			}
		}
	}
	for _, k := range g.contests {
		if k.cas == &e.Cases[0] {
			g.subject(k, refuse)
		}
	}
	for _, gd := range e.Guards {
		if gd.Level == result.Refuse {
			refuse("%s: %s; %s", gd.ID, gd.Message, gd.Help)
		}
	}
}

// subject checks that the arms differ in the declared subject and in nothing else.
func (g *gate) subject(k *armComparison, refuse func(string, ...any)) {
	subject := g.e.Design.Subject
	switch {
	case g.o.Diff == nil:
		refuse("the environments of %s and %s were not compared, so other differences are unknown", k.base.ID, k.treat.ID)
		return
	case missing(k.base, "hardware") != noReason || missing(k.treat, "hardware") != noReason:
		refuse("the hardware of %s and %s was not read from inside, so other differences are unknown", k.base.ID, k.treat.ID)
		return
	case strings.Contains(subject, "+"):
		refuse("the arms are declared to differ in more than one thing (%s)", subject)
		return
	}
	if dims := otherDimensions(subject, k.changed); len(dims) > 0 {
		refuse("%s and %s differ in more than the subject %q: %s", k.base.ID, k.treat.ID, subject, list(dims, k.changed))
	}
	if g.e.Design.Calibration || g.e.Design.Kind == result.Unpaired {
		return // equal on purpose; or separate results, which may differ in the program alone
	}
	if !slices.ContainsFunc(k.changed, func(d result.Difference) bool { return dimension(d.Field) != "" }) {
		refuse("%s and %s do not differ in %s: there is nothing to decide", k.base.ID, k.treat.ID, pick(subject == "", "anything", "the subject "+subject))
	}
}

// judge decides over the primary metrics together.
func (g *gate) judge() {
	var at []int
	var ps []float64
	for i := range g.e.Comparisons {
		if c := &g.e.Comparisons[i]; c.Primary && c.Baseline == g.e.Environments[0].ID {
			at, ps = append(at, i), append(ps, g.raw[i].PMargin)
		}
	}
	if len(at) == 0 {
		g.invalid = append(g.invalid, fmt.Sprintf("the primary metric %q was not compared", g.e.Design.Primary))
		return
	}
	for n, p := range stats.Holm(ps) {
		g.one(at[n], p, len(at))
	}
}

// one decides over the comparison at i, of m; p is corrected for all of them.
func (g *gate) one(i int, p float64, m int) {
	c, s, doubted := &g.e.Comparisons[i], g.raw[i], g.doubted[i]
	text := fmt.Sprintf("%s, grade %s, %s", c.Headline, c.Grade, metric.Plural(c.Pairs, c.Replicate()))
	for _, more := range append(slices.Clone(c.Details), c.Open) {
		if more != "" {
			text += "\n  " + more
		}
	}
	alpha := 1 - g.o.Confidence
	limit, slack := 1+c.Margin, 1.0
	if g.e.Design.Kind == result.Unpaired {
		floor := c.NoiseFloor
		switch {
		case c.Grade != result.GradeA && c.Grade != result.GradeB:
			g.open = append(g.open, text+"\n  separate results of different hosts decide nothing: run both builds on one host, interleaved")
			return
		case floor == nil:
			g.open = append(g.open, text+"\n  the host may have drifted between separate results: calibrate this workload on this host, or better, run both arms in one experiment")
			return
		case *floor >= c.Margin:
			g.open = append(g.open, fmt.Sprintf("%s\n  the drift of this host (%s, from its calibration) is not below the margin of %s", text, metric.Percent(*floor), metric.Percent(c.Margin)))
			return
		}
		slack = 1 + *floor
	}
	_, low, _ := s.Cost(better(g.e.Desc(c.Metric)))
	high := s.EqHigh
	if better(g.e.Desc(c.Metric)) > 0 {
		high = 1 / s.EqLow
	}
	switch {
	case !doubted && c.Verdict == stats.Cost && c.Material && low/slack > limit:
		if p < alpha {
			g.worse = append(g.worse, text)
			return
		}
		g.open = append(g.open, fmt.Sprintf("%s\n  the cost is beyond the margin, but not significant after Holm's correction for %d comparisons (P = %s); measure more pairs", text, m, metric.Digits(p)))
	case !doubted && high*slack <= limit:
		g.fine = append(g.fine, text)
	default:
		g.open = append(g.open, text)
	}
}

// result sums up: an invalid experiment outweighs a regression, and a regression an open question.
func (g *gate) result() Result {
	var r Result
	var lines []string
	switch {
	case len(g.invalid) > 0:
		r.Status, lines = NotValid, append([]string{"invalid: this experiment decides nothing"}, g.invalid...)
	case len(g.worse) > 0:
		r.Status, lines = Regression, append([]string{"regression: the whole interval is beyond the margin"}, slices.Concat(g.worse, g.open, g.fine)...)
	case len(g.open) > 0:
		r.Status, lines = Undecided, append([]string{"inconclusive: neither a regression nor its absence was shown"}, slices.Concat(g.open, g.fine)...)
		switch g.inconclusive {
		case Pass:
			r.Status, lines[0] = Passed, lines[0]+"; passed by policy"
		case Fail:
			r.Status, lines[0] = Regression, lines[0]+"; failed by policy"
		}
	default:
		lines = append([]string{"ok: no cost beyond the margin"}, g.fine...)
	}
	if r.Status != NotValid {
		for _, gd := range g.e.Guards {
			if gd.Level == result.Warn {
				lines = append(lines, gd.ID+": "+gd.Message)
			}
		}
	}
	r.Text = strings.Join(lines, "\n") + "\n"
	return r
}
