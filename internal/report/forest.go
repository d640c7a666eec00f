package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// mostRows is the row limit of a forest plot and of the table of counters.
const mostRows = 40

// forest draws all cost ratios with their intervals on one logarithmic axis,
// around 1 and the margin. Published bands are grey.
func forest(e *result.Experiment) (Plot, bool) {
	all := forestRows(e)
	rows := all[:min(len(all), mostRows)]
	if !slices.ContainsFunc(rows, func(c *result.Comparison) bool { return c.Cost != nil && finite(*c.Cost) && *c.Cost > 0 }) {
		return Plot{}, false
	}
	var alt []string
	for _, c := range rows {
		alt = append(alt, fmt.Sprintf("%s: %s, %s", forestLabel(e, c), interval(e, c).Text, verdictCell(c).Text))
	}
	title := "Cost ratio of each comparison, with its interval"
	if len(all) > len(rows) {
		title += fmt.Sprintf(", the first %d of %d", len(rows), len(all))
	}
	return Plot{
		Name: "cost-ratios", Title: title, Alt: strings.Join(alt, ". "),
		draw: func(w float64) *scene { return drawForest(e, rows, w) },
	}, true
}

// forestRows puts primary metrics first, in the order of the document.
func forestRows(e *result.Experiment) []*result.Comparison {
	rows := primaries(e)
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; !c.Primary && c.Cost != nil {
			rows = append(rows, c)
		}
	}
	return rows
}

// forestLabel names what the rows differ in.
func forestLabel(e *result.Experiment, c *result.Comparison) string {
	s := e.Label(c.Metric)
	if len(CaseIDs(e)) > 1 && c.Case != "" {
		s += ", " + c.Case
	}
	if many := slices.ContainsFunc(e.Comparisons, func(o result.Comparison) bool {
		return o.Treatment != c.Treatment || o.Baseline != c.Baseline
	}); many {
		s += ", " + orDefault(c.Treatment, "unnamed")
		if len(e.Environments) > 0 && c.Baseline != e.Environments[0].ID {
			s += " against " + orDefault(c.Baseline, "unnamed")
		}
	}
	return s
}

func drawForest(e *result.Experiment, rows []*result.Comparison, w float64) *scene {
	s := &scene{w: w}
	phone := w < 600
	labels, figures, results := 0.0, 0.0, 0.0
	rowH := 30.0
	if phone {
		rowH = 62
	} else {
		label, verdict := 0.0, 0.0
		for _, c := range rows {
			label = max(label, width(forestLabel(e, c), strong))
			verdict = max(verdict, width(appearanceOf(c).mark+" "+verdictCell(c).Text, plain))
			if r := interval(e, c); r.Reason == "" {
				figures = max(figures, width(r.Text, plain))
			}
		}
		labels, results = min(max(label+16, 120), 250), figures+verdict+24
		if label+16 > labels {
			rowH = 40 // labels take two lines
		}
	}
	margin := 0.0
	var all []float64
	points := []float64{}
	for _, c := range rows {
		margin = max(margin, c.Margin)
		if c.Cost != nil && finite(*c.Cost) && *c.Cost > 0 {
			points = append(points, *c.Cost)
		}
	}
	lowest, highest := slices.Min(points), slices.Max(points)
	for _, c := range rows {
		if lo, hi, ok := costInterval(c); ok { // a very wide interval ends in an arrow
			all = append(all, max(lo, min(lowest, 1)/2), min(hi, max(highest, 1)*2))
		}
	}
	behind := make([][]result.Reference, len(rows)) // far ones are only listed
	banded := false
	for i, c := range rows {
		for _, r := range bandsBehind(e, c) {
			least, most := min(lowest, 1)/3, max(highest, 1)*3
			if r.Low > most || r.High < least {
				continue
			}
			behind[i], banded = append(behind[i], r), true
			all = append(all, max(r.Low, least), min(r.High, most))
		}
	}
	edge := 14.0
	a := ratioAxis(append(all, points...), margin, labels+edge, w-results-edge)
	top := 8.0
	entries := []entry{}
	for _, c := range rows {
		l := appearanceOf(c)
		x := entry{l.shape, l.ink, verdictWord(c)}
		if !slices.Contains(entries, x) {
			entries = append(entries, x)
		}
	}
	if margin > 0 {
		entries = append(entries, entry{square, sunken, "margin ±" + metric.Percent(margin)})
	}
	if banded {
		entries = append(entries, entry{square, line, "published"})
	}
	top = s.legend(0, top, entries) + 2
	one := min(max(a.at(1), width("better ←", small)+8), w-width("→ worse", small)-8)
	s.words(one-8, top+8, end, small, dim, "better ←")
	s.words(one+8, top+8, start, small, dim, "→ worse")
	top += 18
	bottom := top + rowH*float64(len(rows))
	if margin > 0 {
		s.rect(a.at(1/(1+margin)), top, a.at(1+margin)-a.at(1/(1+margin)), bottom-top, sunken)
	}
	ticks := a.ticks(max(2, int((a.to-a.from)/62)))
	s.gridX(a, top, bottom, ticks, ratioLabels(a), "cost ratio (logarithmic)")
	s.line(a.at(1), top-4, a.at(1), bottom, 1.5, lineBold)
	for i, c := range rows {
		y := top + rowH*(float64(i)+0.5)
		res := interval(e, c).Text
		l := appearanceOf(c)
		if phone {
			y = top + rowH*float64(i) + 47
			s.rect(0, top+rowH*float64(i)+1, w, 36, surface)
			s.words(0, top+rowH*float64(i)+16, start, weight(c), text, fit(forestLabel(e, c), weight(c), w))
			s.words(0, top+rowH*float64(i)+32, start, small, text, fit(res+"  "+l.mark+" "+verdictCell(c).Text, small, w))
		} else {
			if i > 0 {
				s.line(0, y-rowH/2, w, y-rowH/2, 1, sunken)
			}
			lines := wrap(forestLabel(e, c), weight(c), labels-8)
			for k, l := range lines[:min(len(lines), 2)] {
				s.words(0, y+4.5+17*(float64(k)-float64(min(len(lines), 2)-1)/2), start, weight(c), text, fit(l, weight(c), labels-8))
			}
			if c.Cost != nil {
				s.words(w-results+4, y+4.5, start, plain, text, res)
			}
			s.words(w, y+4.5, end, plain, l.ink, l.mark+" "+verdictCell(c).Text)
		}
		if c.Cost == nil || !finite(*c.Cost) || *c.Cost <= 0 {
			why := fit("no ratio: "+noRatio(c), small, w-a.from-100)
			s.rect(a.from-2, y-10, width(why, small)+6, 20, surface)
			s.words(a.from, y+4.5, start, small, dim, why)
			continue
		}
		drawBands(s, behind[i], a, y)
		drawInterval(s, c, a, y, l)
		s.symbol(l.shape, a.at(*c.Cost), y, 5.5, l.ink, forestLabel(e, c)+": "+res)
	}
	s.h = bottom + 40
	return s
}

func weight(c *result.Comparison) letter {
	if c.Primary {
		return strong
	}
	return plain
}

// drawInterval draws an interval, with an arrow where it leaves the axis.
func drawInterval(s *scene, c *result.Comparison, a axis, y float64, l appearance) {
	lo, hi, ok := costInterval(c)
	if !ok || lo <= 0 {
		return
	}
	at := a.at(*c.Cost)
	for _, limit := range []float64{lo, hi} {
		x, off := a.in(limit)
		switch {
		case abs(x-at) <= 8: // the symbol hides it
		case off:
			inward := 6.0
			if x > at {
				inward = -6
			}
			s.line(at, y, x, y, 2, l.ink)
			s.path([]point{{x + inward, y - 4}, {x, y}, {x + inward, y + 4}}, 2, l.ink)
		default:
			s.line(at, y, x, y, 2, l.ink)
			s.line(x, y-4, x, y+4, 2, l.ink)
		}
	}
}

// drawBands draws published ratios behind the measured one.
func drawBands(s *scene, bands []result.Reference, a axis, y float64) {
	for _, r := range bands {
		x1, _ := a.in(r.Low)
		x2, _ := a.in(r.High)
		m := s.rect(min(x1, x2-3), y-10, math.Max(x2-x1, 3), 20, line)
		m.tip = fmt.Sprintf("published: %s, %s, %s (%s)", figureOf(r), r.Workload, r.Citation, orDefault(r.Caveat, "no caveat recorded"))
	}
}
