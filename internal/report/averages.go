package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Average is the geometric mean of an arm's cost over the cases of a result. It has no interval: the cases are chosen, not drawn, so their
// spread says how different they are and not how uncertain the mean is.
type Average struct {
	Baseline, Treatment string
	// Mean is over Cases, from the Lowest cost to the Highest; all 0 where no case has a cost.
	Mean, Lowest, Highest float64
	Cases                 int
	// Decided are the cases whose verdict is neither inconclusive nor refused. Lacking are the names of the cases without a cost.
	Decided int
	Lacking []string
	StandIn bool
}

// AverageCost returns the average of one arm against another, of a metric.
func AverageCost(e *result.Experiment, baseline, treatment, name string) Average {
	a := Average{Baseline: baseline, Treatment: treatment, Lowest: math.Inf(1)}
	sum := 0.0
	for _, kase := range CaseIDs(e) {
		i := slices.IndexFunc(e.Comparisons, func(c result.Comparison) bool {
			return c.Baseline == baseline && c.Treatment == treatment && c.Case == kase && c.Metric == name
		})
		if i < 0 || !usable(&e.Comparisons[i]) || refusedCase(e, &e.Comparisons[i]) {
			a.Lacking = append(a.Lacking, orDefault(kase, "unnamed"))
			continue
		}
		c := &e.Comparisons[i]
		a.Cases++
		a.StandIn = a.StandIn || isStandIn(c)
		if c.Verdict != stats.Inconclusive && c.CostLow != nil && c.CostHigh != nil {
			a.Decided++
		}
		sum += math.Log(*c.Cost)
		a.Lowest, a.Highest = min(a.Lowest, *c.Cost), max(a.Highest, *c.Cost)
	}
	if a.Lowest = min(a.Lowest, a.Highest); a.Cases > 0 {
		a.Mean = math.Exp(sum / float64(a.Cases))
	}
	return a
}

// usable reports whether a comparison has a cost that is more than a bound.
func usable(c *result.Comparison) bool {
	return c.Verdict != stats.Invalid && c.Cost != nil && finite(*c.Cost) && *c.Cost > 0 && c.Bound != result.AtMost && c.Bound != result.AtLeast
}

// refusedCase reports whether a guard refused the primary comparison of the same runs.
func refusedCase(e *result.Experiment, c *result.Comparison) bool {
	return slices.ContainsFunc(primaries(e), func(p *result.Comparison) bool {
		return p.Baseline == c.Baseline && p.Treatment == c.Treatment && p.Case == c.Case && p.Verdict == stats.Invalid
	})
}

// averages are those of the primary metric against the baseline; none of a result with one case, or without a cost that counts.
func averages(e *result.Experiment) []Average {
	if len(CaseIDs(e)) < 2 {
		return nil
	}
	var out []Average
	for i := range e.Environments {
		id := e.Environments[i].ID
		if slices.ContainsFunc(primaries(e), func(c *result.Comparison) bool { return c.Baseline == baseline(e) && c.Treatment == id }) {
			out = append(out, AverageCost(e, baseline(e), id, primary(e)))
		}
	}
	if !slices.ContainsFunc(out, func(a Average) bool { return a.Cases > 0 }) {
		return nil
	}
	return out
}

// cell is the mean, or why there is none: a mean over some of the cases would depend on which these are.
func (a Average) cell() Cell {
	if n := len(a.Lacking); n > 0 {
		return Missing(fmt.Sprintf("%d of %s without a cost that counts: %s", n, metric.Plural(a.Cases+n, "case"), strings.Join(a.Lacking[:min(n, 3)], "; ")))
	}
	text := metric.Times(a.Mean)
	if a.StandIn {
		text = "stand-in " + text
	}
	return Cell{Text: text, Raw: fmt.Sprint(a.Mean), Number: true}
}

// span is the lowest and the highest cost of a case.
func (a Average) span() string { return metric.Times(a.Lowest) + " to " + metric.Times(a.Highest) }

// averageTable lists the averages.
func averageTable(e *result.Experiment) *Table {
	t := newTable("Average cost over all cases: "+e.Label(primary(e)), "environment", "geometric mean", "lowest to highest case", "decided cases")
	for _, a := range averages(e) {
		span := Missing("no case has a cost that counts")
		if a.Cases > 0 {
			span = Cell{Text: a.span(), Number: true}
		}
		t.add(Text(a.Treatment, "unnamed"), a.cell(), span, Cell{Text: fmt.Sprintf("%d of %d", a.Decided, a.Cases+len(a.Lacking)), Number: true})
	}
	return t.align()
}

// averageBars draws them: a bar from 1x to the mean of each arm, with a line from the lowest to the highest case, on one logarithmic axis.
func averageBars(e *result.Experiment) (Plot, bool) {
	all := averages(e)
	var alt []string
	for _, a := range all {
		alt = append(alt, a.words())
	}
	if !slices.ContainsFunc(all, func(a Average) bool { return len(a.Lacking) == 0 }) {
		return Plot{}, false
	}
	return Plot{Name: "average-costs", Title: "Average cost against " + orDefault(baseline(e), "the baseline") + " over all cases: " + e.Label(primary(e)), Alt: strings.Join(alt, ". "),
		draw: func(w float64) *scene { return drawAverages(e, all, w) }}, true
}

// words are the bar for a reader who does not see it.
func (a Average) words() string {
	c := a.cell()
	if c.Reason != "" {
		return orDefault(a.Treatment, "unnamed") + ": missing, " + c.Reason
	}
	return fmt.Sprintf("%s: %s, cases from %s", orDefault(a.Treatment, "unnamed"), c.Text, a.span())
}

func drawAverages(e *result.Experiment, all []Average, w float64) *scene {
	s := &scene{w: w}
	const row, bar, right = 34.0, 18.0, 150.0
	left, above := 150.0, 0.0
	if w < 600 {
		left, above = 0, 20
	}
	ends := []float64{1}
	for _, a := range all {
		if len(a.Lacking) == 0 {
			ends = append(ends, a.Lowest, a.Highest)
		}
	}
	top := 10.0
	bottom := top + (row+above)*float64(len(all))
	axis := ratioAxis(ends, 0, left+14, w-right-14)
	s.gridX(axis, top, bottom, axis.ticks(max(2, int((axis.to-axis.from)/62))), ratioLabels(axis), "cost against "+orDefault(baseline(e), "the baseline")+" (logarithmic); a line from the lowest to the highest case")
	s.line(axis.at(1), top, axis.at(1), bottom, 1.5, lineBold)
	for i, a := range all {
		y := top + (row+above)*float64(i) + above + row/2
		name := orDefault(a.Treatment, "unnamed")
		if above > 0 {
			s.words(0, y-row/2-3, start, strong, text, fit(name, strong, w))
		} else {
			s.words(0, y+4.5, start, strong, text, fit(name, strong, left-8))
		}
		if len(a.Lacking) > 0 {
			s.words(axis.at(1)+8, y+4.5, start, small, dim, fit(a.words(), small, w-axis.at(1)-8))
			continue
		}
		_, ink := armLook(e, a.Treatment)
		if a.StandIn {
			ink = dim
		}
		from, to := axis.at(1), axis.at(a.Mean)
		s.rect(min(from, to), y-bar/2, max(abs(to-from), 2), bar, ink).tip = a.words()
		s.line(axis.at(a.Lowest), y, axis.at(a.Highest), y, 2, text)
		s.words(w-right+8, y+4.5, start, plain, text, fit(a.cell().Text, plain, right-8))
	}
	s.h = bottom + 40
	return s
}
