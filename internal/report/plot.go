package report

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

// Plot is a drawing of a document, to be written as SVG or PNG or set into a page.
type Plot struct {
	// Name is a file name without its ending.
	Name string
	// Title is the question it answers, Alt a description in words.
	Title, Alt string
	draw       func(width float64) *scene
}

// The widths of plots: for a screen or paper, and for a phone.
const (
	wide   = 880
	narrow = 358
)

// SVG returns the plot as a stand-alone file.
func (p Plot) SVG() []byte { return p.framed().svg(p.Name, light) }

// PNG returns the plot as an image of twice its size in pixels.
func (p Plot) PNG() ([]byte, error) { return p.framed().png() }

// framed adds a title and a border of space, which a page provides itself.
func (p Plot) framed() *scene {
	const pad, head = 20, 48
	s := p.scene(wide)
	for i := range s.marks {
		for k := range s.marks[i].at {
			s.marks[i].at[k].x += pad
			s.marks[i].at[k].y += head
		}
	}
	s.words(pad, 30, start, heading, text, fit(p.Title, heading, s.w))
	s.w, s.h = s.w+2*pad, s.h+head+pad/2
	return s
}

// Wide and Narrow are the plot for a page that declares LightColours and
// DarkColours; the page shows one of them.
func (p Plot) Wide() template.HTML {
	return template.HTML(p.scene(wide).svg(p.Name+"-wide", nil)) //nolint:gosec // the drawing escapes all text
}

// Narrow is for screens below 720 px.
func (p Plot) Narrow() template.HTML {
	return template.HTML(p.scene(narrow).svg(p.Name+"-narrow", nil)) //nolint:gosec // the drawing escapes all text
}

func (p Plot) scene(w float64) *scene {
	s := p.draw(w)
	s.w, s.title, s.desc = w, p.Title, p.Alt
	return s
}

// Plots returns all drawings of a document, in the order of the page.
func Plots(doc Document) []Plot {
	var out []Plot
	for i, e := range doc.Experiments {
		prefix := ""
		if len(doc.Experiments) > 1 {
			prefix = fmt.Sprintf("%d-", i+1)
		}
		by := plotsOf(e, prefix, View{})
		for _, section := range sections {
			out = append(out, by[section]...)
		}
	}
	return out
}

// sections lists the sections with plots, in the order of the page.
var sections = []string{"costs", "start", "scaling", "runs", "ladder", "counters"}

// View is the reader's choice. Empty fields leave the choice to the report: the most informative cases, and the
// primary metric.
type View struct{ Case, Metric string }

// Drawing is a plot for a page that declares the colours by their role, as custom
// properties.
type Drawing struct {
	// Section of the result that it belongs to: costs, start, scaling, runs, ladder or counters.
	Section string `json:"section"`
	Name    string `json:"name"`
	// Title is the question that it answers, Alt what can be seen, in words.
	Title string `json:"title"`
	Alt   string `json:"alt"`
	// Wide and Narrow are the SVG for screens of 720 px and more, and for smaller ones.
	Wide   string `json:"wide"`
	Narrow string `json:"narrow"`
}

// Drawings returns all plots of a result, as its page shows them.
func Drawings(e *result.Experiment, v View) []Drawing {
	out := []Drawing{}
	by := plotsOf(e, "", v)
	for _, section := range sections {
		for _, p := range by[section] {
			out = append(out, Drawing{Section: section, Name: p.Name, Title: p.Title, Alt: p.Alt, Wide: string(p.Wide()), Narrow: string(p.Narrow())})
		}
	}
	return out
}

// plotsOf draws an experiment; plots without content are left out.
func plotsOf(e *result.Experiment, prefix string, v View) map[string][]Plot {
	kase, cases := orDefault(v.Case, tellingCase(e)), []string{v.Case}
	if v.Case == "" {
		cases = plottedCases(e)
	}
	out := map[string][]Plot{}
	add := func(section string, p Plot, ok bool) {
		if ok {
			p.Name = prefix + p.Name
			out[section] = append(out[section], p)
		}
	}
	p, ok := forest(e)
	add("costs", p, ok)
	p, ok = averageBars(e)
	add("costs", p, ok)
	p, ok = providers(e, orDefault(v.Metric, primary(e)))
	add("costs", p, ok)
	p, ok = starts(e)
	add("start", p, ok)
	for i, s := range sweeps(e) {
		p, ok = scaling(e, s, i)
		add("scaling", p, ok)
	}
	for _, kase := range cases {
		p, ok = distribution(e, kase, orDefault(v.Metric, primary(e)))
		add("runs", p, ok)
	}
	p, ok = runOrder(e)
	add("runs", p, ok)
	p, ok = ladder(e, kase)
	add("ladder", p, ok)
	p, ok = counterBars(e, kase)
	add("counters", p, ok)
	return out
}

// plottedCases returns the cases whose distribution is drawn: all if there are few, otherwise the one with the
// largest cost.
func plottedCases(e *result.Experiment) []string {
	ids := CaseIDs(e)
	if len(ids) > 3 {
		return []string{tellingCase(e)}
	}
	return ids
}

// slug turns a text into a file name.
func slug(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, s), "-")
}

// inCase names the case if there are several.
func inCase(e *result.Experiment, kase string) string {
	if len(CaseIDs(e)) > 1 && kase != "" {
		return ", " + kase
	}
	return ""
}
