package reproduce

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

// State says what became of a published value.
type State string

// The states.
const (
	// Answered: a result has the value, from the same kind of arm.
	Answered State = "answered"
	// StandIn: a result has the value, from an arm that stands in for the published TEE, such as gVisor.
	StandIn State = "stand-in"
	// Refused: a guard refused the comparison, or it is inconclusive.
	Refused State = "refused"
	// NoResult: the experiment has no result in the folder.
	NoResult State = "no result"
	// NoAnswer: the source file has a reason instead of an experiment.
	NoAnswer State = "no answer"
	// Empty: the document has no value there.
	Empty State = "empty"
)

// Results are finished documents, by experiment.
type Results struct {
	of    map[string][]*result.Experiment
	files map[string]string // names of the documents, by their ID
	// Differs says in what a result's case differs from the experiment of a name ("requests=200 instead of 5000"); nil: nothing is known.
	Differs func(experiment string, e *result.Experiment, kase *result.Case) string
}

// NewResults orders documents by experiment. files are their names, by ID. An experiment whose cases were divided among several
// documents gives them names of its own with a suffix; experiments are all names, so the suffix of one is not another.
func NewResults(docs []*result.Experiment, files map[string]string, experiments []string) *Results {
	r := &Results{of: map[string][]*result.Experiment{}, files: files}
	for _, e := range docs {
		r.of[e.Name] = append(r.of[e.Name], e)
	}
	for _, e := range docs {
		if name := longestPrefix(e.Name, experiments); name != "" && name != e.Name && len(r.of[name]) == 0 {
			r.of[name] = append(r.of[name], e)
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
	// Shortened says in what the runs differ from the experiment.
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
	// Text is shown in place of value and cost, where an answer is made of several cases.
	Text   string
	Reason string // why Value is nil
	File   string
}

// Lookup returns what the results have for an answer.
func (r *Results) Lookup(row string, a Answer) Measured {
	out := Measured{Row: row, Metric: metric.Words(a.Metric)}
	docs := r.of[a.Experiment]
	if len(docs) == 0 {
		out.Missing = fmt.Sprintf("no result yet: `teescope bench run %s`", a.Experiment)
		return out
	}
	for _, e := range docs {
		kase := findCase(e, a.Case)
		d := e.Desc(a.Metric)
		c, isCounter := parseCounter(a.Metric)
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
		if out.Metric = c.String(); d != nil {
			out.Metric, out.Unit = e.Label(a.Metric), d.Unit
		}
		for i := range e.Environments {
			v := &e.Environments[i]
			if slices.ContainsFunc(out.Arms, func(x MeasuredArm) bool { return x.Label == v.ID }) {
				continue // a newer result has the arm
			}
			arm := r.arm(e, v, id, a.Metric)
			switch {
			case isCounter:
				arm.count(e, id, c)
			case a.Case == AllCases:
				arm.average(e, a.Metric)
			case a.Relative != "":
				arm.divide(e, kase, a)
			}
			out.Arms = append(out.Arms, arm)
		}
	}
	if out.Arms == nil {
		out.Missing = fmt.Sprintf("the results of %s have no case %q with %s", a.Experiment, a.Case, a.Metric)
	}
	return out
}

// arm reads one arm's value and comparison.
func (r *Results) arm(e *result.Experiment, v *result.Environment, kase, name string) MeasuredArm {
	m := MeasuredArm{Label: v.ID, Baseline: v.Role == result.Baseline, StandIn: v.StandIn(), File: r.files[e.ID]}
	if t := v.TEE; (t.Active || t.Declared) && t.Type != "none" && t.Type != "unknown" && m.StandIn == "" {
		m.TEE = t.Type
	}
	m.Value, _, m.Reason = report.Median(e, v.ID, kase, name)
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; c.Treatment == v.ID && c.Case == kase && c.Metric == name {
			m.Comparison, m.Sentence = c, verdict.Sentence(e, c)
			if m.Value == nil {
				m.Value = c.TreatMedian
			}
			break
		}
	}
	return m
}

// average sets the text to the geometric mean of the arm's cost over all cases.
func (x *MeasuredArm) average(e *result.Experiment, name string) {
	x.Value, x.Sentence, x.Reason = nil, "", "a baseline has no cost"
	var costs []float64
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if c.Treatment != x.Label || c.Metric != name {
			continue
		}
		x.Comparison, x.Reason = c, "no case has a cost"
		if c.Cost != nil && *c.Cost > 0 && c.Verdict != stats.Invalid {
			costs = append(costs, math.Log(*c.Cost))
		}
	}
	if len(costs) > 0 {
		sum := 0.0
		for _, l := range costs {
			sum += l
		}
		x.Text = fmt.Sprintf("%s, mean of %s", metric.Times(math.Exp(sum/float64(len(costs)))), metric.Plural(len(costs), "case"))
	}
}

// divide sets the text to the arm's value over that of the relative case.
func (x *MeasuredArm) divide(e *result.Experiment, kase *result.Case, a Answer) {
	x.Sentence = ""
	base := findCase(e, a.Relative)
	if base == nil {
		x.Value, x.Reason = nil, "the result has no case "+a.Relative
		return
	}
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
				x.Text, x.Value, x.Reason = "", nil, fmt.Sprintf("%s=%s is no number of workers", a.Per, kase.Params[a.Per])
				return
			}
			x.Text = metric.Percent(ratio / n)
		}
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

// Filled is a published value with its answer.
type Filled struct {
	Published, Unit string
	State           State
	// Text is our answer in few words, or the reason for none.
	Text string
}

// fill answers a published value from a row of our own numbers.
func fill(a Answer, m *Measured) (State, string) {
	switch {
	case a.Reason != "":
		return NoAnswer, a.Reason.Text()
	case m.Missing != "":
		return NoResult, m.Missing
	}
	var stand *MeasuredArm
	for i := range m.Arms {
		x := &m.Arms[i]
		named := a.Env == "" || x.Label == a.Env
		switch {
		case named && a.Arm == Plain && x.TEE == "" && (x.Baseline || a.Env != ""):
			return x.valueText(m.Unit)
		case named && a.Arm == Cost && x.TEE != "" && !x.Baseline:
			return x.costText()
		case named && x.TEE == string(a.Arm):
			return x.valueText(m.Unit)
		case stand == nil && !x.Baseline && x.TEE == "":
			stand = x
		}
	}
	if stand == nil || a.Arm == Plain {
		return NoResult, "no such arm took part"
	}
	return StandIn, fmt.Sprintf("no TEE took part; %s: %s", stand.Label, stand.text(m.Unit))
}

// text is the arm's value, with its cost.
func (x *MeasuredArm) text(unit string) string {
	_, value := x.valueText(unit)
	if x.Comparison == nil || x.Text != "" {
		return value
	}
	_, cost := x.costText()
	if x.StandIn != "" {
		cost = "stand-in, " + cost
	}
	return value + " (" + cost + ")"
}

// valueText is the arm's value.
func (x *MeasuredArm) valueText(unit string) (State, string) {
	if x.Text != "" {
		return Answered, x.Text
	}
	if x.Value == nil {
		return Refused, x.Reason
	}
	return Answered, metric.Value(*x.Value, unit)
}

// costText is the arm's cost with its interval and grade, or why there is none.
func (x *MeasuredArm) costText() (State, string) {
	c := x.Comparison
	switch {
	case x.Text != "":
		return Answered, x.Text
	case c == nil:
		return Refused, "its result has no comparison"
	case c.Cost == nil || c.Verdict == stats.Invalid:
		return Refused, "refused: " + x.Sentence
	case c.CostLow == nil || c.CostHigh == nil:
		return Refused, metric.Times(*c.Cost) + " without an interval"
	case c.Verdict == stats.Inconclusive:
		return Refused, metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh) + ", inconclusive"
	}
	return Answered, fmt.Sprintf("%s, grade %s", metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh), c.Grade)
}
