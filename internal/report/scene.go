package report

import (
	"math"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

// A scene is a drawing as a list of marks, written by svg.go and raster.go. Plots are pure functions from a document
// and a width to a scene, so the report, the page, the SVG file and the PNG are equal. Lengths are in CSS pixels; y
// grows downwards.
type scene struct {
	w, h        float64
	title, desc string
	marks       []mark
}

type point struct{ x, y float64 }

// A mark is a polyline, a polygon, a circle (one point and a radius) or a line
// of text at one point.
type mark struct {
	at           []point
	closed       bool
	radius       float64
	fill, stroke ink
	width        float64
	dashed       bool
	text         string
	font         letter
	anchor       anchor
	// tip is shown while the pointer rests on the mark.
	tip string
}

// letter is a size in pixels and a weight.
type letter struct {
	size float64
	bold bool
}

var (
	plain   = letter{size: 13}
	small   = letter{size: 11.5}
	strong  = letter{size: 13, bold: true}
	heading = letter{size: 16, bold: true}
)

type anchor uint8

const (
	start anchor = iota
	middle
	end
)

func (s *scene) line(x1, y1, x2, y2, width float64, i ink) *mark {
	return s.add(mark{at: []point{{x1, y1}, {x2, y2}}, stroke: i, width: width})
}

func (s *scene) path(at []point, width float64, i ink) *mark {
	return s.add(mark{at: at, stroke: i, width: width})
}

func (s *scene) rect(x, y, w, h float64, fill ink) *mark {
	return s.add(mark{at: []point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, closed: true, fill: fill})
}

func (s *scene) words(x, y float64, a anchor, f letter, i ink, text string) *mark {
	return s.add(mark{at: []point{{x, y}}, text: text, font: f, anchor: a, fill: i})
}

func (s *scene) add(m mark) *mark {
	s.marks = append(s.marks, m)
	return &s.marks[len(s.marks)-1]
}

// shape tells series and verdicts apart without colour.
type shape uint8

const (
	disc shape = iota
	square
	diamond
	triangle
	inverted
	ring
	cross
	plus
)

// shapes are those of series, in the order of the colours.
var shapes = [...]shape{disc, square, triangle, diamond, inverted, ring, plus, cross}

// symbol draws a shape of about radius r around a point.
func (s *scene) symbol(k shape, x, y, r float64, i ink, tip string) {
	m := mark{closed: true, fill: i, tip: tip}
	switch k {
	case disc:
		m.at, m.radius = []point{{x, y}}, r
	case ring:
		m.at, m.radius, m.fill, m.stroke, m.width = []point{{x, y}}, r-0.5, surface, i, 2
	case square:
		a := r * 0.88
		m.at = []point{{x - a, y - a}, {x + a, y - a}, {x + a, y + a}, {x - a, y + a}}
	case diamond:
		a := r * 1.25
		m.at = []point{{x, y - a}, {x + a, y}, {x, y + a}, {x - a, y}}
	case triangle:
		m.at = []point{{x, y - 1.2*r}, {x + 1.15*r, y + 0.85*r}, {x - 1.15*r, y + 0.85*r}}
	case inverted:
		m.at = []point{{x, y + 1.2*r}, {x + 1.15*r, y - 0.85*r}, {x - 1.15*r, y - 0.85*r}}
	case cross, plus:
		dx, dy := r*0.85, r*0.85
		if k == plus {
			dx, dy = r, 0
		}
		s.add(mark{at: []point{{x - dx, y - dy}, {x + dx, y + dy}}, stroke: i, width: 2, tip: tip})
		m = mark{at: []point{{x - dy, y + dx}, {x + dy, y - dx}}, stroke: i, width: 2, tip: tip}
	}
	s.add(m)
}

// entry is a line of a legend.
type entry struct {
	shape shape
	ink   ink
	text  string
}

// legend draws entries from left to right, on as many lines as they need, and returns the y below
// it.
func (s *scene) legend(x, y float64, entries []entry) float64 {
	at, left := x, x
	for _, e := range entries {
		w := 22 + width(e.text, small) + 14
		if at > left && at+w-14 > s.w {
			at, y = left, y+18
		}
		s.symbol(e.shape, at+7, y+8, 4.5, e.ink, "")
		s.words(at+18, y+12, start, small, dim, e.text)
		at += w
	}
	return y + 26
}

// faces are the fonts used to measure text, and to draw it in a PNG. The reader's browser has another font, so width
// adds a reserve.
var faces = sync.OnceValue(func() (f [2]*opentype.Font) {
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF} {
		font, err := opentype.Parse(ttf)
		if err != nil {
			panic("the font that is compiled in: " + err.Error())
		}
		f[i] = font
	}
	return f
})

func (f letter) face(scale float64) font.Face {
	parsed := faces()[0]
	if f.bold {
		parsed = faces()[1]
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: f.size * scale, DPI: 72})
	if err != nil {
		panic("the font that is compiled in: " + err.Error())
	}
	return face
}

// reserve is the factor by which the widest common system font (DejaVu Sans) is wider.
const reserve = 1.12

var measures = sync.OnceValue(func() map[letter]font.Face {
	m := map[letter]font.Face{}
	for _, f := range []letter{plain, small, strong, heading} {
		m[f] = f.face(1)
	}
	return m
})

var measuring sync.Mutex // a font.Face has a buffer and serves one user at a time

// width returns an upper estimate of the width of a text.
func width(text string, f letter) float64 {
	measuring.Lock()
	defer measuring.Unlock()
	return reserve * float64(font.MeasureString(measures()[f], text)) / 64
}

// fit cuts a text to a width, with an ellipsis where it was cut.
func fit(text string, f letter, room float64) string {
	if width(text, f) <= room {
		return text
	}
	r := []rune(text)
	for len(r) > 0 && width(string(r)+"…", f) > room {
		r = r[:len(r)-1]
	}
	return strings.TrimRight(string(r), " ,") + "…"
}

// wrap breaks a text at its spaces into lines of a width.
func wrap(text string, f letter, room float64) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch longer := strings.TrimSpace(line + " " + word); {
		case line != "" && width(longer, f) > room:
			lines, line = append(lines, line), word
		default:
			line = longer
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// finite reports whether no value is NaN or infinite.
func finite(v ...float64) bool {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
