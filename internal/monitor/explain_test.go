package monitor

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestBoxesAreOfPages: distributions of anybody's expression are evaluated within the limits of pages, and give what the rules' engine
// would.
func TestBoxesAreOfPages(t *testing.T) {
	m := watching(t)
	to := m.Host.Now()
	from := to.Add(-10 * time.Minute)
	if _, err := m.boxes(t.Context(), "max_over_time((max_over_time(vector(1)[6h:1s]))[6h:1s])", from, to, 1); err == nil || !strings.Contains(err.Error(), "the query would look at") {
		t.Errorf("a costly query: %v, want a refusal", err)
	}
	for _, expr := range []string{`{__name__=~".+"}`, `vector(time() % 60) > 20`} {
		t.Run(expr, func(t *testing.T) {
			for _, step := range []time.Duration{time.Second, 2345678 * time.Microsecond} {
				want, err := m.series.QueryRange(t.Context(), expr, from, to, step)
				if err != nil {
					t.Fatal(err)
				}
				got, err := asPage{m.served}.QueryRange(t.Context(), expr, from, to, step)
				if err != nil || len(got) == 0 || len(got) != len(want) {
					t.Fatalf("%s: %d series, %v; want %d", expr, len(got), err, len(want))
				}
				for i, w := range want {
					for k := range got[i].At {
						if !got[i].At[k].Equal(w.At[k]) {
							t.Fatalf("%s, series %d, value %d: at %v, want %v", expr, i, k, got[i].At[k], w.At[k])
						}
					}
					if !reflect.DeepEqual(got[i].Labels, w.Labels) || !reflect.DeepEqual(got[i].Values, w.Values) {
						t.Errorf("%s, series %d: %+v, want %+v", expr, i, got[i], w)
					}
				}
			}
		})
	}
}
