package formats

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/report"
)

func checkPlot(t *testing.T, doc string, p report.Plot) {
	t.Helper()
	if p.Title == "" || p.Alt == "" {
		t.Errorf("%s, %s: no title or no words for who cannot see it", doc, p.Name)
	}
	for form, svg := range map[string]string{"file": string(p.SVG()), "wide": string(p.Wide()), "narrow": string(p.Narrow())} {
		for _, bad := range []string{"NaN", "Inf", "e+", "%!"} {
			if strings.Contains(strings.ReplaceAll(svg, "Info", ""), bad) {
				t.Errorf("%s, %s, %s has %q", doc, p.Name, form, bad)
			}
		}
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s, %s, %s: %v", doc, p.Name, form, err)
			}
		}
	}
	img, err := p.PNG()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(img))
	if err != nil {
		t.Fatalf("%s, %s: %v", doc, p.Name, err)
	}
	if w := decoded.Bounds().Dx(); w != 1840 {
		t.Errorf("%s, %s is %d pixels wide", doc, p.Name, w)
	}
}
