package reproduce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

// Results are finished documents, by experiment.
type Results struct {
	of    map[string][]*result.Experiment
	files map[string]string // names of the documents, by their ID
	// Differs says in what a result's case differs from the experiment of a name ("requests=200 instead of 5000"); nil: nothing is known.
	Differs func(experiment string, e *result.Experiment, kase *result.Case) string
	// Cases returns the number of cases of an experiment, of which a result may have fewer; nil or 0: those of the result.
	Cases func(experiment string) int
}

// NewResults orders documents by experiment. files are their names, by ID. An experiment whose cases have several primary metrics divides
// them among documents with names of their own: partOf returns the experiment of such a name, "" for all others; nil: there are none.
func NewResults(docs []*result.Experiment, files map[string]string, partOf func(name string) string) *Results {
	r := &Results{of: map[string][]*result.Experiment{}, files: files}
	for _, e := range docs {
		r.of[e.Name] = append(r.of[e.Name], e)
		if partOf == nil {
			continue
		}
		if whole := partOf(e.Name); whole != "" && whole != e.Name {
			r.of[whole] = append(r.of[whole], e)
		}
	}
	for _, of := range r.of {
		slices.SortFunc(of, func(a, b *result.Experiment) int { return b.StartedAt.Compare(a.StartedAt) }) // the newest first
	}
	return r
}

// longestPrefix returns the longest of the names that a result's name begins with.
func longestPrefix(name string, names []string) (longest string) {
	for _, n := range names {
		if len(n) > len(longest) && strings.HasPrefix(name+"-", n+"-") {
			longest = n
		}
	}
	return longest
}

// Measured is a row of our own numbers: one metric of one case, in each arm of each result that has it.
type Measured struct {
	Row    string // of the published table
	Metric string // its name for people
	Unit   string
	Arms   []MeasuredArm
	// Missing says why there is none, where Arms is empty.
	Missing string
	// Shortened says in what the runs differ from the experiment, and which results the arms are from where there are several.
	Shortened string
}

// MeasuredArm is one arm's value, and its cost against the baseline of its result.
type MeasuredArm struct {
	Label string
	// TEE is the kind of TEE in which the arm ran, "" for none; StandIn says what an arm is instead of what it is named after.
	TEE, StandIn string
	Value        *float64
	Baseline     bool
	// Comparison is nil for a baseline, and for counters.
	Comparison *result.Comparison
	// Sentence is the comparison's headline.
	Sentence string
	// Text is shown in place of value and cost, where an answer is made of several values.
	Text   string
	Reason string // why Value is nil
	// Refused says why the value answers nothing although it may be there: a guard refused its comparison, or not all of its cases are decided.
	Refused string
	File    string
}

// Column names the arm among those of all results: its label, and its kind of TEE.
func (x *MeasuredArm) Column() string {
	if x.TEE == "" {
		return x.Label
	}
	return fmt.Sprintf("%s (%s)", x.Label, x.TEE)
}

// Lookup returns what the results have for an answer.
func (r *Results) Lookup(row string, a Answer) Measured {
	out := Measured{Row: row, Metric: metric.Words(a.Metric)}
	counter, isCounter := parseCounter(a.Metric)
	if isCounter {
		out.Metric = counter.String()
	}
	docs := r.of[a.Experiment]
	if len(docs) == 0 {
		out.Missing = fmt.Sprintf("no result yet: `teescope bench run %s`", a.Experiment)
		return out
	}
	for _, e := range docs {
		kase := findCase(e, a.Case)
		d := e.Desc(a.Metric)
		if kase == nil && a.Case != AllCases || d == nil && !isCounter {
			continue
		}
		id := ""
		if kase != nil {
			id = kase.ID
			if r.Differs != nil && out.Shortened == "" {
				out.Shortened = r.Differs(a.Experiment, e, kase)
			}
		}
		if d != nil {
			out.Metric, out.Unit = e.Label(a.Metric)+a.composition(), d.Unit
		}
		for i := range e.Environments {
			arm := r.arm(e, &e.Environments[i], id, a.Metric)
			if slices.ContainsFunc(out.Arms, func(x MeasuredArm) bool { return x.Column() == arm.Column() }) {
				continue // a newer result has the arm
			}
			switch {
			case isCounter:
				arm.count(e, id, counter)
			case a.Case == AllCases:
				all := len(e.Cases)
				if r.Cases != nil {
					all = max(all, r.Cases(a.Experiment))
				}
				arm.average(e, a.Metric, all)
			case a.Relative != "":
				arm.divide(e, kase, a)
			}
			out.Arms = append(out.Arms, arm)
		}
	}
	if out.Arms == nil {
		out.Missing = fmt.Sprintf("the results of %s have no case %q with %s", a.Experiment, a.Case, a.Metric)
	}
	out.nameFiles()
	return out
}

// composition says in words how the answer is made of several values; "" if it is one.
func (a Answer) composition() string {
	switch {
	case a.Case == AllCases:
		return ", mean of the cost over all cases"
	case a.Relative != "" && a.Per != "":
		return ", against " + a.Relative + ", divided by " + a.Per
	case a.Relative != "":
		return ", against " + a.Relative
	}
	return ""
}

// nameFiles says which arm is from which result, where a row has arms of several.
func (m *Measured) nameFiles() {
	var files, parts []string
	for i := range m.Arms {
		if f := m.Arms[i].File; !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	if len(files) < 2 {
		return
	}
	for _, f := range files {
		var of []string
		for i := range m.Arms {
			if m.Arms[i].File == f {
				of = append(of, m.Arms[i].Column())
			}
		}
		parts = append(parts, fmt.Sprintf("%s from %s", strings.Join(of, ", "), f))
	}
	if m.Shortened != "" {
		parts = append([]string{m.Shortened}, parts...)
	}
	m.Shortened = strings.Join(parts, "; ")
}

// arm reads one arm's value and comparison.
func (r *Results) arm(e *result.Experiment, v *result.Environment, kase, name string) MeasuredArm {
	m := MeasuredArm{Label: v.ID, Baseline: v.Role == result.Baseline, StandIn: v.StandIn(), File: r.files[e.ID]}
	if t := v.TEE; (t.Active || t.Declared) && t.Type != "none" && t.Type != "unknown" && m.StandIn == "" {
		m.TEE = t.Type
	}
	m.Value, _, m.Reason = report.Median(e, v.ID, kase, name)
	m.Refused = refusal(e, v.ID, kase, name)
	if c := comparison(e, v.ID, kase, name); c != nil {
		m.Comparison, m.Sentence = c, verdict.Sentence(e, c)
		if m.Value == nil {
			m.Value = c.TreatMedian
		}
	}
	return m
}

// comparison returns the one of an arm with the result's first environment, or nil.
func comparison(e *result.Experiment, env, kase, name string) *result.Comparison {
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; c.Baseline == e.Environments[0].ID && c.Treatment == env && c.Case == kase && c.Metric == name {
			return c
		}
	}
	return nil
}

// refusal says why nothing is concluded from an arm's runs of a case: a guard refused the comparison of the metric, or the primary one.
func refusal(e *result.Experiment, env, kase, name string) string {
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if c.Baseline == e.Environments[0].ID && c.Treatment == env && c.Case == kase && (c.Primary || c.Metric == name) && c.Verdict == stats.Invalid {
			if len(c.Reasons) == 0 {
				return "refused: " + verdict.Sentence(e, c)
			}
			reason, _, _ := strings.Cut(c.Reasons[0], ": ") // the rest are the numbers of a guard, too long for a cell
			return "refused: " + strings.TrimSuffix(reason, ".")
		}
	}
	return ""
}

// average sets the value to the geometric mean of the arm's cost over all cases. It is refused unless each of all
// the experiment's cases is decided.
func (x *MeasuredArm) average(e *result.Experiment, name string, all int) {
	x.Value, x.Comparison, x.Sentence, x.Refused, x.Reason = nil, nil, "", "", "a baseline has no cost"
	if x.Label == e.Environments[0].ID {
		return
	}
	a := report.AverageCost(e, e.Environments[0].ID, x.Label, name)
	if a.Decided == 0 || a.Decided < all {
		x.Refused = fmt.Sprintf("refused: %d of %s decided", a.Decided, metric.Plural(all, "case"))
		x.Reason = "no mean"
		return
	}
	x.Value, x.Text = &a.Mean, fmt.Sprintf("%s, mean of %d of %s", metric.Times(a.Mean), a.Decided, metric.Plural(all, "case"))
}

// divide sets the value to that of the arm over that of the relative case.
func (x *MeasuredArm) divide(e *result.Experiment, kase *result.Case, a Answer) {
	x.Comparison, x.Sentence = nil, ""
	base := findCase(e, a.Relative)
	if base == nil {
		x.Value, x.Reason = nil, "the result has no case "+a.Relative
		return
	}
	x.Refused = cmp.Or(x.Refused, refusal(e, x.Label, base.ID, a.Metric))
	b, _, why := report.Median(e, x.Label, base.ID, a.Metric)
	switch {
	case x.Value == nil:
	case b == nil || *b == 0:
		x.Value, x.Reason = nil, cmp.Or(why, "the value of "+a.Relative+" is 0")
	default:
		ratio := *x.Value / *b
		if x.Text = metric.Times(ratio); a.Per != "" {
			n, err := metric.ParseNumber(kase.Params[a.Per])
			if err != nil || n <= 0 {
				x.Text, x.Value, x.Reason = "", nil, fmt.Sprintf("%s=%s is not a number of workers", a.Per, kase.Params[a.Per])
				return
			}
			ratio /= n
			x.Text = metric.Percent(ratio)
		}
		x.Value = &ratio
	}
}

// AllCases is the case of an answer that is the mean over all cases.
const AllCases = "*"

// findCase returns the case of a result whose parameters are those that a source file names ("rw=randread bs=4KiB"). A result with
// one case only may have been narrowed to it on the command line.
func findCase(e *result.Experiment, want string) *result.Case {
	for i := range e.Cases {
		c := &e.Cases[i]
		if !slices.ContainsFunc(strings.Fields(want), func(kv string) bool {
			k, v, _ := strings.Cut(kv, "=")
			return c.Params[k] != v
		}) {
			return c
		}
	}
	return nil
}
