package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

// ladder draws what each layer adds: a bar from the cost of the layer below to its own, on one
// logarithmic axis, so equal lengths are equal factors.
func ladder(e *result.Experiment, kase string) (Plot, bool) {
	rungs := rungsOf(e, kase)
	if len(rungs) < 2 {
		return Plot{}, false
	}
	var alt []string
	for _, r := range rungs {
		alt = append(alt, armsText(r.c)+": "+interval(e, r.c).Text)
	}
	return Plot{
		Name: "ladder", Title: "What each layer adds: " + e.Label(primary(e)) + inCase(e, kase), Alt: strings.Join(alt, ". "),
		draw: func(w float64) *scene { return drawLadder(e, rungs, w) },
	}, true
}

// rung is a comparison with the place where its bar begins and ends.
type rung struct {
	c        *result.Comparison
	from, to float64
	total    bool
}

// rungsOf chains the steps: one against the baseline begins at 1, one against another layer begins where that layer
// ends. If the steps are between neighbours, the comparison of the top with the baseline comes last.
func rungsOf(e *result.Experiment, kase string) []rung {
	var steps []*result.Comparison
	for _, c := range primaries(e) {
		if c.Rung > 0 && c.Case == kase && c.Cost != nil && finite(*c.Cost) && *c.Cost > 0 {
			steps = append(steps, c)
		}
	}
	slices.SortStableFunc(steps, func(a, b *result.Comparison) int { return a.Rung - b.Rung })
	ends := map[string]float64{baseline(e): 1}
	var out []rung
	for _, c := range steps {
		from, ok := ends[c.Baseline]
		if !ok {
			return nil // a step is missing: a chain cannot be drawn
		}
		if c.Baseline == baseline(e) {
			from = 1
		}
		ends[c.Treatment] = from * *c.Cost
		out = append(out, rung{c: c, from: from, to: from * *c.Cost})
	}
	for _, c := range primaries(e) {
		chained := slices.ContainsFunc(out, func(r rung) bool { return r.c == c })
		if c.Case == kase && c.Rung == 0 && !chained && len(out) > 0 && c.Baseline == baseline(e) && c.Treatment == out[len(out)-1].c.Treatment && c.Cost != nil && finite(*c.Cost) && *c.Cost > 0 {
			out = append(out, rung{c: c, from: 1, to: *c.Cost, total: true})
		}
	}
	return out
}

func drawLadder(e *result.Experiment, rungs []rung, w float64) *scene {
	s := &scene{w: w}
	onPhone := w < 600
	left, right, rowH := 270.0, 180.0, 40.0
	if onPhone {
		left, right, rowH = 0, 0, 66
	}
	var all []float64
	for _, r := range rungs {
		all = append(all, r.from, r.to)
		if lo, hi, ok := costInterval(r.c); ok && lo > 0 {
			all = append(all, r.from*lo, r.from*hi)
		}
	}
	top := 10.0
	bottom := top + rowH*float64(len(rungs))
	a := ratioAxis(all, 0, left+14, w-right-14)
	s.gridX(a, top, bottom, a.ticks(max(2, int((a.to-a.from)/62))), ratioLabels(a), "cost against "+baseline(e)+" (logarithmic)")
	s.line(a.at(1), top, a.at(1), bottom, 1.5, lineBold)
	for i, r := range rungs {
		_, ink := armLook(e, r.c.Treatment)
		y := top + rowH*float64(i) + rowH/2
		name := "+ " + orDefault(r.c.Treatment, "unnamed")
		sub := "on " + orDefault(r.c.Baseline, "unnamed")
		if r.c.Baseline == baseline(e) && !r.total && i > 0 {
			sub = "against " + baseline(e)
			name = orDefault(r.c.Treatment, "unnamed")
		}
		if r.total {
			name, sub, ink = "all together", r.c.Treatment+" against "+r.c.Baseline, dim
		}
		res := interval(e, r.c).Text
		if onPhone {
			rowTop := top + rowH*float64(i)
			y = rowTop + 50
			s.rect(0, rowTop+1, w, 36, surface)
			s.words(0, rowTop+16, start, strong, text, fit(name+" "+sub, strong, w))
			s.words(0, rowTop+32, start, small, text, res+"  "+verdictWord(r.c))
		} else {
			s.words(0, y-2, start, strong, text, fit(name, strong, left-8))
			s.words(0, y+13, start, small, dim, fit(sub, small, left-8))
			s.words(w-right+8, y-2, start, plain, text, res)
			l := appearanceOf(r.c)
			s.words(w-right+8, y+13, start, small, l.ink, l.mark+" "+verdictWord(r.c))
		}
		x1, x2 := a.at(r.from), a.at(r.to)
		bar := s.rect(min(x1, x2), y-9, max(abs(x2-x1), 2), 18, ink)
		bar.tip = fmt.Sprintf("%s: %s", armsText(r.c), res)
		if lo, hi, ok := costInterval(r.c); ok && lo > 0 {
			s.line(a.at(r.from*lo), y, a.at(r.from*hi), y, 2, text)
			s.line(a.at(r.from*lo), y-5, a.at(r.from*lo), y+5, 2, text)
			s.line(a.at(r.from*hi), y-5, a.at(r.from*hi), y+5, 2, text)
		}
		if i+1 < len(rungs) && !rungs[i+1].total && rungs[i+1].from == r.to {
			s.line(x2, y+9, x2, y+rowH-9, 1, lineBold).dashed = true
		}
	}
	s.h = bottom + 40
	return s
}

func abs(v float64) float64 { return max(v, -v) }
