package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// fontFamily needs no file: it names the fonts of the reader's system.
const fontFamily = `system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`

// svg writes the scene. With a theme the file is stand-alone: it has literal colours and a background. Without one,
// the surrounding page declares the colours as custom properties. id makes the references to title and description
// unique.
func (s *scene) svg(id string, t theme) []byte {
	colour := func(i ink) string { return "var(--" + string(i) + ")" }
	if t != nil {
		colour = t.hex
	}
	var b strings.Builder
	w, h := number(s.w), number(math.Ceil(s.h))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d"`, w, h, w, h, id, id)
	fmt.Fprintf(&b, ` font-family="%s">`, html.EscapeString(fontFamily))
	fmt.Fprintf(&b, "<title id=\"%s-t\">%s</title><desc id=\"%s-d\">%s</desc>\n", id, html.EscapeString(s.title), id, html.EscapeString(s.desc))
	if t != nil {
		fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="%s"/>`, colour(surface))
	}
	for i := range s.marks {
		s.marks[i].svg(&b, colour)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (m *mark) svg(b *strings.Builder, colour func(ink) string) {
	name, style := "", ""
	switch {
	case m.text != "":
		name = "text"
		style = fmt.Sprintf(` x="%s" y="%s" font-size="%s" fill="%s"`, number(m.at[0].x), number(m.at[0].y), number(m.font.size), colour(m.fill))
		if m.anchor != start {
			style += fmt.Sprintf(` text-anchor="%s"`, [...]string{"start", "middle", "end"}[m.anchor])
		}
		if m.font.bold {
			style += ` font-weight="600"`
		}
	case m.radius > 0:
		name = "circle"
		style = fmt.Sprintf(` cx="%s" cy="%s" r="%s"`, number(m.at[0].x), number(m.at[0].y), number(m.radius)) + m.paint(colour)
	default:
		name = "path"
		var d strings.Builder
		for i, p := range m.at {
			d.WriteString(map[bool]string{true: "M", false: "L"}[i == 0] + number(p.x) + " " + number(p.y))
		}
		if m.closed {
			d.WriteString("Z")
		}
		style = fmt.Sprintf(` d="%s"`, d.String()) + m.paint(colour)
	}
	switch {
	case m.text != "" && m.tip == "":
		fmt.Fprintf(b, "<text%s>%s</text>\n", style, html.EscapeString(m.text))
	case m.text != "":
		fmt.Fprintf(b, "<text%s>%s<title>%s</title></text>\n", style, html.EscapeString(m.text), html.EscapeString(m.tip))
	case m.tip != "":
		fmt.Fprintf(b, "<%s%s><title>%s</title></%s>\n", name, style, html.EscapeString(m.tip), name)
	default:
		fmt.Fprintf(b, "<%s%s/>\n", name, style)
	}
}

func (m *mark) paint(colour func(ink) string) string {
	s := ` fill="none"`
	if m.fill != none {
		s = fmt.Sprintf(` fill="%s"`, colour(m.fill))
	}
	if m.stroke != none {
		s += fmt.Sprintf(` stroke="%s" stroke-width="%s"`, colour(m.stroke), number(m.width))
		if m.dashed {
			s += ` stroke-dasharray="5 4"`
		}
	}
	return s
}

// number prints a length to a tenth of a pixel.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}
