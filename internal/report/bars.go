package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// mostCounters is the number of counters in a plot; the table has all.
const mostCounters = 12

// counterBars draws the counters of all arms, the most changed first. Each counter has its own scale, since their
// magnitudes are unrelated.
func counterBars(e *result.Experiment, kase string) (Plot, bool) {
	rows := slices.DeleteFunc(counters(e, kase), func(c counted) bool {
		return !slices.ContainsFunc(c.arms, func(a arm) bool { return a.value != nil && *a.value > 0 })
	})
	rows = rows[:min(len(rows), mostCounters)]
	if len(rows) == 0 {
		return Plot{}, false
	}
	var alt []string
	for _, r := range rows {
		var arms []string
		for i, a := range r.arms {
			arms = append(arms, e.Environments[i].ID+" "+r.text(a))
		}
		alt = append(alt, r.name()+" per "+r.per+": "+strings.Join(arms, ", "))
	}
	return Plot{
		Name: "counters", Title: "Counters per " + rows[0].per + inCase(e, kase), Alt: strings.Join(alt, ". "),
		draw: func(w float64) *scene { return drawCounters(e, rows, w) },
	}, true
}

// limit marks a partial count: an upper limit of the workload's events if the whole machine was counted, a lower
// limit if events were missed.
func (c counted) limit() string {
	if c.scope == "machine" {
		return "≤ "
	}
	return "≥ "
}

func (c counted) text(a arm) string {
	if a.value == nil {
		return "missing: " + a.reason
	}
	if a.trust == result.Partial {
		return c.limit() + metric.Value(*a.value, "")
	}
	return metric.Value(*a.value, "")
}

func drawCounters(e *result.Experiment, rows []counted, w float64) *scene {
	s := &scene{w: w}
	var entries []entry
	for i := range e.Environments {
		_, ink := armLook(e, e.Environments[i].ID)
		entries = append(entries, entry{square, ink, armTitle(&e.Environments[i])})
	}
	top := s.legend(0, 4, entries) + 2
	onPhone := w < 600
	left := 250.0
	if onPhone {
		left = 0
	}
	const bar, gap = 14.0, 14.0
	room := 90.0
	y := top
	for _, r := range rows {
		most := 0.0
		for _, a := range r.arms {
			if a.value != nil {
				most = max(most, *a.value)
			}
		}
		height := bar * float64(len(r.arms))
		name := r.name()
		if r.per != rows[0].per {
			name += " per " + r.per
		}
		if onPhone {
			s.words(0, y+12, start, strong, text, fit(name, strong, w))
			y += 18
		} else {
			lines := wrap(name, plain, left-12)
			for i, l := range lines[:min(len(lines), 2)] {
				s.words(0, y+height/2+4.5+16*(float64(i)-float64(min(len(lines), 2)-1)/2), start, plain, text, fit(l, plain, left-12))
			}
		}
		for i, a := range r.arms {
			_, ink := armLook(e, e.Environments[i].ID)
			at := y + bar*float64(i)
			if a.value == nil {
				s.words(left+4, at+bar-3, start, small, dim, fit(r.text(a), small, w-left-4))
				continue
			}
			length := 0.0
			if most > 0 {
				length = (w - left - room) * *a.value / most
			}
			b := s.rect(left, at+1, max(length, 1), bar-2, ink)
			b.tip = fmt.Sprintf("%s, %s: %s", e.Environments[i].ID, name, r.text(a))
			if a.trust == result.Partial { // an outline: there may be more than was counted
				b.fill, b.stroke, b.width = surface, ink, 2
			}
			s.words(left+max(length, 1)+6, at+bar-3, start, small, text, r.text(a))
		}
		y += height + gap
	}
	s.h = y
	return s
}
