package anomaly

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/store/storetest"
)

func TestBox(t *testing.T) {
	for name, tt := range map[string]struct {
		x    []float64
		want Box
	}{
		"one":  {[]float64{3}, Box{N: 1, Min: 3, Low: 3, Q1: 3, Median: 3, Q3: 3, High: 3, Max: 3, Mean: 3, Outliers: []float64{}}},
		"two":  {[]float64{1, 3}, Box{N: 2, Min: 1, Low: 1, Q1: 1.5, Median: 2, Q3: 2.5, High: 3, Max: 3, Mean: 2, Outliers: []float64{}}},
		"five": {[]float64{5, 1, 4, 2, 3}, Box{N: 5, Min: 1, Low: 1, Q1: 2, Median: 3, Q3: 4, High: 5, Max: 5, Mean: 3, Outliers: []float64{}}},
		// The box is 2 wide, so whiskers reach 3 from it.
		"outliers, the farthest first": {[]float64{1, 2, 3, 4, 5, 12, -9, 3, 3}, Box{N: 9, Min: -9, Low: 1, Q1: 2, Median: 3, Q3: 4, High: 5, Max: 12, Mean: 24. / 9, Outliers: []float64{-9, 12}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := box(slices.Clone(tt.x))
			got.Mean = float64(int(got.Mean*1e9+0.5)) / 1e9
			tt.want.Mean = float64(int(tt.want.Mean*1e9+0.5)) / 1e9
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(tt.want)
			if string(a) != string(b) {
				t.Errorf("%s: got %s, want %s", name, a, b)
			}
		})
	}
	many := make([]float64, 1000)
	for i := range 100 {
		many[i] = float64(1 + i)
	}
	if b := box(many); len(b.Outliers) != maxOutliers || b.Outliers[0] != 100 || b.Outliers[49] != 51 {
		t.Errorf("%d outliers, %v", len(b.Outliers), b.Outliers)
	}
}

func TestBoxes(t *testing.T) {
	st := storetest.Load(t, `load 5s
  load{p="a"} 1x60 3x60
  load{p="b"} _x61 7x59
  odd Inf Inf Inf Inf Inf Inf Inf Inf Inf Inf Inf Inf Inf`)
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	got, err := Boxes(t.Context(), st, `load`, at(0), at(600), 2)
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v", got, err)
	}
	for i, want := range []struct {
		p      string
		from   int64
		n      int
		median float64
	}{{"a", 0, 60, 1}, {"a", 300, 60, 3}, {"b", 300, 60, 7}} {
		t.Run(want.p, func(t *testing.T) {
			b := got[i]
			if b.Labels["p"] != want.p || !b.Window.From.Equal(at(want.from)) || !b.Window.To.Equal(at(want.from+300)) || b.N != want.n || b.Median != want.median {
				t.Errorf("box %d is %+v, want %+v", i, b, want)
			}
		})
	}
	if got, err := Boxes(t.Context(), st, `odd`, at(0), at(60), 1); err != nil || len(got) != 0 {
		t.Errorf("infinite values: %v, %v", got, err)
	}
	for name, tt := range map[string]struct {
		query    string
		from, to int64
		windows  int
		want     string
	}{
		"no window":     {"load", 0, 600, 0, "want 1 to 48"},
		"many windows":  {"load", 0, 600, 49, "want 1 to 48"},
		"short windows": {"load", 0, 20, 10, "5s or longer"},
		"reversed":      {"load", 600, 0, 1, "5s or longer"},
		"broken":        {"sum(", 0, 600, 1, "query sum(: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Boxes(t.Context(), st, tt.query, at(tt.from), at(tt.to), tt.windows); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
		})
	}
	var load strings.Builder
	load.WriteString("load 5s\n")
	for i := range maxSeries + 1 {
		fmt.Fprintf(&load, "  load{p=\"%d\"} 1x20\n", i)
	}
	if _, err := Boxes(t.Context(), storetest.Load(t, load.String()), "load", at(0), at(100), 1); err == nil || !strings.Contains(err.Error(), "gives 101 series") {
		t.Errorf("many series: %v", err)
	}
}
