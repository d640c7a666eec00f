package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// mostPanels is the number of cases that the bars by provider show; with more, those of the distributions.
const mostPanels = 8

// providers draws the arms as bars in a group for each provider, and one panel for each case. It is there when the arms are of
// several providers. Each panel has its own scale, from 0.
func providers(e *result.Experiment, name string) (Plot, bool) {
	if len(groupsOf(e)) < 2 {
		return Plot{}, false
	}
	cases := CaseIDs(e)
	if len(cases) > mostPanels {
		cases = plottedCases(e)
	}
	var panels []barPanel
	var alt []string
	for _, kase := range cases {
		p := barPanelOf(e, kase, name)
		if p.most > 0 {
			panels, alt = append(panels, p), append(alt, p.words())
		}
	}
	if len(panels) == 0 {
		return Plot{}, false
	}
	title := e.Label(name) + " by provider"
	if d := e.Desc(name); d != nil && (d.Better == "higher" || d.Better == "lower") {
		title += ", " + d.Better + " is better"
	}
	return Plot{Name: "providers", Title: title, Alt: strings.Join(alt, " "), draw: func(w float64) *scene { return drawProviders(e, panels, w) }}, true
}

// providerGroup are the arms of a provider.
type providerGroup struct {
	name string
	envs []*result.Environment
}

// groupsOf returns the arms by provider, in the order of the arms. A result that is joined with others and whose cloud is not known
// is a group of its own.
func groupsOf(e *result.Experiment) []providerGroup {
	var out []providerGroup
	for i := range e.Environments {
		v := &e.Environments[i]
		name := "no known provider"
		switch {
		case v.Cloud != nil && v.Cloud.Provider != "":
			name = v.Cloud.Provider
		case v.Joined != nil:
			name = v.Joined.Name
		}
		at := slices.IndexFunc(out, func(g providerGroup) bool { return g.name == name })
		if at < 0 {
			at, out = len(out), append(out, providerGroup{name: name})
		}
		out[at].envs = append(out[at].envs, v)
	}
	return out
}

// barPanel are the bars of one case.
type barPanel struct {
	kase   string // "" where there is only one
	groups []barGroup
	most   float64
}

type barGroup struct {
	name string
	bars []providerBar
}

// providerBar is an arm: its median, its lowest and highest run, and the best value that it can reach.
type providerBar struct {
	env         string
	median      *float64
	low, high   float64
	ceiling     float64 // 0 where none is known
	source      string  // of the ceiling
	value, text string  // the median; with the ceiling, or the reason why there is none
}

func barPanelOf(e *result.Experiment, kase, name string) barPanel {
	p := barPanel{}
	if len(CaseIDs(e)) > 1 {
		p.kase = orDefault(kase, "unnamed case")
	}
	unit := unitOf(e, name)
	for _, g := range groupsOf(e) {
		bars := barGroup{name: g.name}
		for _, v := range g.envs {
			b := providerBar{env: orDefault(v.ID, "unnamed")}
			m, _, why := Median(e, v.ID, kase, name)
			if m == nil || *m < 0 {
				b.text = "missing: " + orDefault(why, "its median is below 0")
				bars.bars = append(bars.bars, b)
				continue
			}
			runs := values(firstOf(readings(e, v.ID, kase, name)))
			b.median, b.low, b.high = m, max(0, slices.Min(runs)), slices.Max(runs)
			b.value = metric.Value(*m, unit)
			b.text = b.value
			lower := false
			if d := e.Desc(name); d != nil {
				lower = d.Better == "lower"
			}
			for _, c := range e.Design.Ceilings {
				if c.Metric == name && (c.Env == "" || c.Env == v.ID) && c.Value > 0 && finite(c.Value) && (b.ceiling == 0 || (c.Value < b.ceiling) != lower) {
					b.ceiling, b.source = c.Value, c.Source // of several the nearest
				}
			}
			if b.ceiling > 0 {
				b.text = joined(b.value, map[bool]string{false: " of at most ", true: " of at least "}[lower], metric.Value(b.ceiling, unit))
			}
			p.most = max(p.most, b.high)
			bars.bars = append(bars.bars, b)
		}
		p.groups = append(p.groups, bars)
	}
	return p
}

// words are the panel for a reader who does not see it.
func (p barPanel) words() string {
	var all []string
	for _, g := range p.groups {
		var bars []string
		for _, b := range g.bars {
			bars = append(bars, b.env+" "+b.text)
		}
		all = append(all, g.name+": "+strings.Join(bars, ", "))
	}
	out := strings.Join(all, "; ") + "."
	if p.kase != "" {
		out = p.kase + ": " + out
	}
	return out
}

func drawProviders(e *result.Experiment, panels []barPanel, w float64) *scene {
	s := &scene{w: w}
	const bar, line, gap = 16.0, 20.0, 12.0
	names, left, room := 110.0, 290.0, 190.0
	onPhone := w < 600
	if onPhone {
		names, left, room = 0, 0, 150
	}
	y := 4.0
	for _, l := range wrap("Medians, with a line from the lowest to the highest run, and a mark at a known limit.", small, w) {
		s.words(0, y+10, start, small, dim, l)
		y += 18
	}
	y += 4
	for _, p := range panels {
		if p.kase != "" {
			s.words(0, y+13, start, strong, text, fit(p.kase, strong, w))
			y += 24
		}
		scale := (w - left - room) / p.most
		for _, g := range p.groups {
			if onPhone {
				s.words(0, y+12, start, strong, dim, fit(g.name, strong, w))
				y += line
			} else {
				s.words(0, y+bar-3.5, start, plain, dim, fit(g.name, plain, names-10))
			}
			for _, b := range g.bars {
				if onPhone {
					s.words(0, y+12, start, small, text, fit(b.env, small, w))
					y += 17
				} else {
					s.words(names, y+bar-3.5, start, plain, text, fit(b.env, plain, left-names-10))
				}
				if b.median == nil {
					s.words(left+4, y+bar-3.5, start, small, dim, fit(b.text, small, w-left-4))
					y += line
					continue
				}
				_, ink := armLook(e, b.env)
				tip := fmt.Sprintf("%s, %s: %s", g.name, b.env, b.text)
				s.rect(left, y, math.Max(*b.median*scale, 1), bar, ink).tip = tip
				reach := left + b.high*scale
				s.line(left+b.low*scale, y+bar/2, reach, y+bar/2, 1.5, lineBold)
				if at := left + b.ceiling*scale; b.ceiling > 0 && at <= w-room {
					s.line(at, y-2, at, y+bar+2, 1.5, text).tip = orDefault(b.source, "a ceiling")
					reach = max(reach, at)
				}
				s.words(reach+6, y+bar-3.5, start, small, text, fit(b.text, small, w-reach-6))
				y += line
			}
			y += gap
		}
	}
	s.h = y
	return s
}
