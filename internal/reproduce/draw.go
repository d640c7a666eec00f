package reproduce

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"math"

	"github.com/teescope/teescope/internal/metric"
)

// bar is one value of a drawing.
type bar struct {
	series int
	value  float64
	text   string
}

// group is the bars of one row.
type group struct {
	name string
	bars []bar
}

// Drawing draws a figure's numbers beside ours, as bars in two panels with scales of their own. It is empty for a table, and where there is
// no published number.
func (pt *PageTable) Drawing() template.HTML {
	if pt.Kind != Figure {
		return ""
	}
	published, names := pt.publishedBars()
	if len(published) == 0 {
		return ""
	}
	ours := pt.ourBars()
	rows := 0
	for _, groups := range [][]group{published, ours} {
		n := 0
		for _, g := range groups {
			n += len(g.bars) + 1
		}
		rows = max(rows, n)
	}
	const width, panel, line = 900, 430, 16
	height := rows*line + 60
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s" font-family="sans-serif" font-size="11" fill="currentColor">`, width, height, template.HTMLEscapeString(pt.Title))
	drawPanel(&b, 0, panel, "published", published, names)
	if len(ours) > 0 {
		drawPanel(&b, width-panel, panel, "here", ours, pt.Labels)
	} else {
		why := "no result has it"
		if pt.Measured() {
			why = "see the table"
		}
		fmt.Fprintf(&b, `<text x="%d" y="14" font-weight="bold">here: %s</text>`, width-panel, why)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // composition of numbers and escaped names
}

// publishedBars are the numbers of the figure, and the names of its series.
func (pt *PageTable) publishedBars() (out []group, names []string) {
	for _, c := range pt.Columns {
		names = append(names, c.Name)
	}
	for i, row := range pt.Rows {
		g := group{name: row.Name}
		for c, cell := range pt.Cells[i] {
			if v, ok := value(cell.Published, cell.Unit); ok {
				g.bars = append(g.bars, bar{c, v, cell.Published})
			}
		}
		if len(g.bars) > 0 {
			out = append(out, g)
		}
	}
	return out, names
}

// ourBars are our own numbers by row.
func (pt *PageTable) ourBars() (out []group) {
	for _, m := range pt.Ours {
		g := group{name: m.Row}
		for series, label := range pt.Labels {
			for _, x := range m.Arms {
				if x.Column() == label && x.Value != nil && x.Refused == "" {
					g.bars = append(g.bars, bar{series, *x.Value, cmp.Or(x.Text, metric.Value(*x.Value, m.Unit))})
				}
			}
		}
		if len(g.bars) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// palette is of Okabe and Ito, whose colours are told apart by all kinds of sight.
var palette = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"}

func drawPanel(b *bytes.Buffer, x, width int, title string, groups []group, names []string) {
	const label, line = 110, 16
	most := 0.0
	for _, g := range groups {
		for _, v := range g.bars {
			most = math.Max(most, v.value)
		}
	}
	fmt.Fprintf(b, `<text x="%d" y="14" font-weight="bold">%s</text>`, x, title)
	at := x + 70
	for i, n := range names {
		fmt.Fprintf(b, `<rect x="%d" y="5" width="9" height="9" fill="%s"/><text x="%d" y="14">%s</text>`, at, palette[i%len(palette)], at+12, template.HTMLEscapeString(n))
		at += 20 + 7*len(n)
	}
	y := 34
	for _, g := range groups {
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`, x, y+10, template.HTMLEscapeString(g.name))
		for _, v := range g.bars {
			w := 0.0
			if most > 0 {
				w = math.Max(0, v.value/most) * float64(width-label-80)
			}
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="12" fill="%s"/><text x="%.1f" y="%d">%s</text>`,
				x+label, y, w, palette[v.series%len(palette)], float64(x+label)+w+4, y+10, template.HTMLEscapeString(v.text))
			y += line
		}
		y += line
	}
}
