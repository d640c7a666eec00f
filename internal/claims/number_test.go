package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConventions: a number is read as its table means it, or the table is refused with the line. None is wrong by a
// factor of 1000. The tables are after public reports of tools that took a decimal comma for a mark between thousands.
func TestConventions(t *testing.T) {
	files, err := filepath.Glob("testdata/numbers/*.csv")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		refused string // or the cells of the last column
		cells   []float64
	}{
		"good":          {cells: []float64{0.512, 1.075}},
		"comma":         {refused: `line 7: column latency: "0,512"`},
		"one-zero":      {refused: `line 8: column latency: "0,001"`},
		"zero-comma":    {refused: `line 8: column latency: "0,256"`},
		"fraction":      {refused: `line 8: column rate: "2523,00"`},
		"points":        {refused: `line 7: column rate: "1.234,5"`},
		"nbsp":          {cells: []float64{12346, 6173}},
		"unicode-minus": {cells: []float64{0.125, -0.032}},
		"plusminus":     {cells: []float64{10.1e-3, 20.2e-3}},
	}
	if len(files) != len(want) {
		t.Errorf("%d tables, want %d", len(files), len(want))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		table, err := Parse(data)
		w := want[name]
		switch {
		case w.refused != "" && (err == nil || !strings.HasPrefix(err.Error(), w.refused) || !strings.Contains(err.Error(), "point")):
			t.Errorf("%s: error is %v, want %s", name, err, w.refused)
		case w.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case w.refused == "":
			for i, r := range table.rows {
				if c := r.cells[len(r.cells)-1]; !same(c.num.v*c.unit.scale, w.cells[i]) {
					t.Errorf("%s: line %d is %v, want %v", name, r.line, c.num.v*c.unit.scale, w.cells[i])
				}
			}
			if r := table.Check(); len(r.Findings) > 0 {
				t.Errorf("%s: %+v", name, r.Findings)
			}
		}
	}
}
