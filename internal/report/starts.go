package report

import (
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// startParts are the metrics that make up a program's start, in the order of time. Building the program is not
// included.
var startParts = []string{"load_seconds", "ready_seconds", "listen_seconds", "first_handshake_seconds", "first_answer_seconds", "first_message_seconds"}

// startOf is the start of one arm, in parts.
type startOf struct {
	env   string
	parts []startPart
	all   float64
}

type startPart struct {
	name    string
	seconds float64
	ink     ink
}

// starts draws how the arms start: one bar each, in parts. Values are medians over all cases, because a start does
// not depend on what follows. They are medians of each part, as the title says: their sum is not the median of the
// whole, which the tables have.
func starts(e *result.Experiment) (Plot, bool) {
	var rows []startOf
	var alt []string
	for i := range e.Environments {
		s := startOf{env: e.Environments[i].ID}
		for _, name := range startParts {
			m, _, _ := Median(e, s.env, "", name)
			if m == nil || *m < 0 {
				continue
			}
			s.parts = append(s.parts, startPart{metric.Words(strings.TrimSuffix(name, "_seconds")), *m, series(len(s.parts))})
			s.all += *m
		}
		if len(s.parts) < 2 {
			continue
		}
		var said []string
		for _, p := range s.parts {
			said = append(said, p.name+" "+metric.Value(p.seconds, "seconds"))
		}
		rows, alt = append(rows, s), append(alt, s.env+": "+strings.Join(said, ", "))
	}
	if len(rows) == 0 {
		return Plot{}, false
	}
	return Plot{Name: "start", Title: "From the start of the process to the first answer: medians of the parts", Alt: strings.Join(alt, ". "),
		draw: func(w float64) *scene { return drawStarts(rows, w) }}, true
}

func drawStarts(rows []startOf, w float64) *scene {
	s := &scene{w: w}
	longest, widest := 0.0, rows[0]
	for _, r := range rows {
		longest = max(longest, r.all)
		if len(r.parts) > len(widest.parts) {
			widest = r
		}
	}
	var entries []entry
	for _, p := range widest.parts {
		entries = append(entries, entry{square, p.ink, p.name})
	}
	top := s.legend(0, 4, entries) + 6
	const rowH, bar, room = 34.0, 18.0, 80.0
	left := 150.0
	if w < 600 {
		left = 0
	}
	for i, r := range rows {
		y := top + rowH*float64(i)
		if left == 0 {
			y = top + (rowH+16)*float64(i) + 16
			s.words(0, y-4, start, strong, text, fit(orDefault(r.env, "unnamed"), strong, w))
		} else {
			s.words(0, y+bar-4, start, strong, text, fit(orDefault(r.env, "unnamed"), strong, left-10))
		}
		x := left
		for _, p := range r.parts {
			length := 0.0
			if longest > 0 {
				length = (w - left - room) * p.seconds / longest
			}
			s.rect(x, y, max(length, 1), bar, p.ink).tip = r.env + ", " + p.name + ": " + metric.Value(p.seconds, "seconds")
			x += max(length, 1)
		}
		s.words(x+6, y+bar-4, start, small, text, metric.Value(r.all, "seconds"))
		s.h = y + rowH
	}
	return s
}
