package report

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// png draws the scene with the light colours at twice its size.
func (s *scene) png() ([]byte, error) {
	const scale = 2
	r := raster{img: image.NewRGBA(image.Rect(0, 0, int(s.w*scale), int(math.Ceil(s.h)*scale))), scale: scale}
	draw.Draw(r.img, r.img.Bounds(), image.NewUniform(light.rgba(surface)), image.Point{}, draw.Src)
	for i := range s.marks {
		r.mark(&s.marks[i])
	}
	var b bytes.Buffer
	err := png.Encode(&b, r.img)
	return b.Bytes(), err
}

type raster struct {
	img   *image.RGBA
	scale float64
	faces map[letter]font.Face
}

func (r *raster) mark(m *mark) {
	if m.text != "" {
		r.text(m)
		return
	}
	outline := m.at
	if m.radius > 0 {
		outline = circle(m.at[0], m.radius)
	}
	if m.fill != none {
		r.fill([][]point{outline}, m.fill)
	}
	if m.stroke == none || len(outline) == 0 {
		return
	}
	if m.closed {
		outline = append(outline[:len(outline):len(outline)], outline[0])
	}
	var parts [][]point
	for i := 1; i < len(outline); i++ {
		for _, dash := range dashes(outline[i-1], outline[i], m.dashed) {
			parts = append(parts, stroke(dash[0], dash[1], m.width))
		}
		if m.width > 1 && !m.dashed {
			parts = append(parts, circle(outline[i], m.width/2)) // a round join
		}
	}
	r.fill(parts, m.stroke)
}

// fill paints the union of polygons. The rasterizer adds signed areas, so all
// must turn the same way.
func (r *raster) fill(polygons [][]point, i ink) {
	box := r.box(polygons)
	if box.Empty() {
		return
	}
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	for _, p := range polygons {
		if len(p) < 3 {
			continue
		}
		turned := area(p) < 0
		for k := range p {
			q := p[k]
			if turned {
				q = p[len(p)-1-k]
			}
			x, y := float32(q.x*r.scale)-float32(box.Min.X), float32(q.y*r.scale)-float32(box.Min.Y)
			if k == 0 {
				z.MoveTo(x, y)
			} else {
				z.LineTo(x, y)
			}
		}
		z.ClosePath()
	}
	z.Draw(r.img, box, image.NewUniform(light.rgba(i)), image.Point{})
}

// box returns the part of the image that polygons touch.
func (r *raster) box(polygons [][]point) image.Rectangle {
	var box image.Rectangle
	for _, p := range polygons {
		for _, q := range p {
			x, y := int(math.Floor(q.x*r.scale)), int(math.Floor(q.y*r.scale))
			box = box.Union(image.Rect(x-1, y-1, x+2, y+2))
		}
	}
	return box.Intersect(r.img.Bounds())
}

func (r *raster) text(m *mark) {
	if r.faces == nil {
		r.faces = map[letter]font.Face{}
	}
	face, ok := r.faces[m.font]
	if !ok {
		face = m.font.face(r.scale)
		r.faces[m.font] = face
	}
	x := m.at[0].x * r.scale
	w := float64(font.MeasureString(face, m.text)) / 64
	switch m.anchor {
	case middle:
		x -= w / 2
	case end:
		x -= w
	}
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(light.rgba(m.fill)), Face: face}
	d.Dot = fixed.Point26_6{X: fixed.Int26_6(x * 64), Y: fixed.Int26_6(m.at[0].y * r.scale * 64)}
	d.DrawString(m.text)
}

// stroke returns the rectangle around a segment.
func stroke(a, b point, width float64) []point {
	l := math.Hypot(b.x-a.x, b.y-a.y)
	if l == 0 {
		return nil
	}
	dx, dy := -(b.y-a.y)/l*width/2, (b.x-a.x)/l*width/2
	return []point{{a.x + dx, a.y + dy}, {b.x + dx, b.y + dy}, {b.x - dx, b.y - dy}, {a.x - dx, a.y - dy}}
}

// dashes cuts a segment into dashes of 5 with gaps of 4, or leaves it whole.
func dashes(a, b point, dashed bool) [][2]point {
	l := math.Hypot(b.x-a.x, b.y-a.y)
	if !dashed || l == 0 {
		return [][2]point{{a, b}}
	}
	at := func(d float64) point { return point{a.x + (b.x-a.x)*d/l, a.y + (b.y-a.y)*d/l} }
	var out [][2]point
	for d := 0.0; d < l; d += 9 {
		out = append(out, [2]point{at(d), at(min(d+5, l))})
	}
	return out
}

func circle(c point, radius float64) []point {
	const n = 32
	out := make([]point, n)
	for i := range out {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / n)
		out[i] = point{c.x + radius*cos, c.y + radius*sin}
	}
	return out
}

func area(p []point) float64 {
	sum := 0.0
	for i := range p {
		q := p[(i+1)%len(p)]
		sum += p[i].x*q.y - q.x*p[i].y
	}
	return sum / 2
}
