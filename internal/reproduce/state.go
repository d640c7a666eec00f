package reproduce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
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
	// NoValue: the arm took part, and has no value of the metric.
	NoValue State = "no value"
	// ArmMissing: a result of the experiment exists, without the arm.
	ArmMissing State = "arm missing"
	// NoResult: the experiment has no result in the folder.
	NoResult State = "no result"
	// NoAnswer: the source file has a reason instead of an experiment.
	NoAnswer State = "no answer"
	// Empty: the document has no value there.
	Empty State = "empty"
)

// Filled is a published value and what became of it.
type Filled struct {
	Published, Unit string
	State           State
}

// fill says what became of a published value, from a row of our own numbers.
func fill(a Answer, m *Measured) State {
	switch {
	case a.Reason != "":
		return NoAnswer
	case m.Missing != "":
		return NoResult
	}
	x, standIn := m.find(a)
	if x == nil {
		return ArmMissing
	}
	return x.state(a.Arm, standIn)
}

// state orders what can be wrong with an arm's value: a refused comparison, then no value, then a stand-in.
func (x *MeasuredArm) state(as Arm, standIn bool) State {
	c := x.Comparison
	switch {
	case x.Refused != "" || as == Cost && c != nil && !decided(c):
		return Refused
	case x.Value == nil || as == Cost && c == nil && x.Text == "":
		return NoValue
	case standIn || x.StandIn != "":
		return StandIn
	}
	return Answered
}

// decided reports whether a comparison has a cost with an interval that no guard refused, and is not inconclusive.
func decided(c *result.Comparison) bool {
	return c.Cost != nil && c.CostLow != nil && c.CostHigh != nil && c.Verdict != stats.Invalid && c.Verdict != stats.Inconclusive
}

// find returns the arm that answers, or one in its place; nil if there is none. In the place of a TEE is an arm without a TEE: the one of the
// named environment, or where no arm has that name the first that is no baseline.
func (m *Measured) find(a Answer) (x *MeasuredArm, standIn bool) {
	for i := range m.Arms {
		if m.Arms[i].answers(a) {
			return &m.Arms[i], false
		}
	}
	if a.Arm == Plain || a.Arm == Cost && a.TEE == "" {
		return nil, false
	}
	named := slices.ContainsFunc(m.Arms, func(x MeasuredArm) bool { return x.Label == a.Env })
	for i := range m.Arms {
		x := &m.Arms[i]
		if x.TEE != "" || x.Baseline && (!named || a.Arm == Cost) || named && x.Label != a.Env {
			continue
		}
		return x, true
	}
	return nil, false
}

// keepOwn leaves the arms that answer a row, without stand-ins that a row before it has shown, and says which arms did not run. The first
// row also keeps the arms that answer no row. before and after are what the other rows ask of the arms.
func (m *Measured) keepOwn(of, before, after []Answer) {
	var found [3][]*MeasuredArm
	for i, list := range [...][]Answer{of, before, after} {
		for _, a := range list {
			x, _ := m.find(a)
			found[i] = append(found[i], x)
		}
	}
	own, shown, later := found[0], found[1], found[2]
	var why, above string
	for i, x := range own {
		a := &of[i]
		if x != nil && (x.Label == a.Env || x.answers(*a)) {
			continue
		}
		if name := cmp.Or(a.Env, a.TEE, string(a.Arm)); !strings.Contains(why+",", " "+name+",") {
			why += ", no arm " + name
		}
		if x != nil && slices.Contains(shown, x) {
			own[i], above = nil, "; its stand-in "+x.Column()+" is above"
		}
	}
	var kept []MeasuredArm
	for i := range m.Arms {
		if x := &m.Arms[i]; slices.Contains(own, x) || before == nil && !slices.Contains(later, x) {
			kept = append(kept, *x)
		}
	}
	m.Arms = kept
	if why == "" {
		return
	}
	why = "not run: " + why[2:] + above
	switch {
	case kept == nil:
		m.Missing = why
	case m.Shortened != "":
		m.Shortened += "; " + why
	default:
		m.Shortened = why
	}
}

// answers reports whether the arm is the one that a value is of.
func (x *MeasuredArm) answers(a Answer) bool {
	if a.Env != "" && x.Label != a.Env {
		return false
	}
	switch a.Arm {
	case Plain:
		return x.TEE == "" && (x.Baseline || a.Env != "")
	case Cost: // without a kind of TEE it is that of the named environment, whatever that is
		return !x.Baseline && (a.TEE == "" || x.TEE == a.TEE)
	}
	return x.TEE == string(a.Arm)
}

// text is the arm's value, with its cost or why that is refused.
func (x *MeasuredArm) text(unit string) string {
	var value string
	switch {
	case x.Text != "":
		value = x.Text
	case x.Value != nil:
		value = metric.Value(*x.Value, unit)
	case x.Refused != "":
		return x.Refused
	default:
		return cmp.Or(x.Reason, "no value")
	}
	switch {
	case x.Refused != "":
		return fmt.Sprintf("%s (%s)", value, x.Refused)
	case x.Comparison == nil:
		return value
	case x.StandIn != "":
		return fmt.Sprintf("%s (stand-in, %s)", value, x.costText())
	}
	return fmt.Sprintf("%s (%s)", value, x.costText())
}

// costText is the arm's cost with its interval and grade, or why there is none.
func (x *MeasuredArm) costText() string {
	c := x.Comparison
	switch {
	case c.Cost == nil:
		return "no cost: " + x.Sentence
	case c.CostLow == nil || c.CostHigh == nil:
		return metric.Times(*c.Cost) + " without an interval"
	case c.Verdict == stats.Inconclusive:
		return metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh) + ", inconclusive"
	}
	return fmt.Sprintf("%s, grade %s", metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh), c.Grade)
}
