package workloads

import (
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
)

// TestBounds: a mistyped number is refused before anything is started, with the limit.
func TestBounds(t *testing.T) {
	needed := map[string]string{"gateway-load": "load=ab", "custom": "command=true"}
	for _, w := range All {
		tried := 0
		for _, d := range w.Params {
			size := strings.HasSuffix(d.Default, "iB") || d.Name == "working-set" || d.Name == "epc" || d.Name == "offset-increment" || w.Name == "fio" && d.Name == "size"
			_, err := strconv.Atoi(d.Default)
			// A rate or a scale may have any size: it is a number per second.
			if d.Text || d.Values != nil || err != nil && !size || d.Name == "rate" || d.Name == "scale" {
				continue
			}
			if w.Name == "gateway-load" && d.Name == "size" {
				continue // unused: the load generator's path determines the size
			}
			values := []string{"1000000000", "99999999999999999999"}
			if size {
				values = []string{"1000000000000000000", "1000000TiB"}
			}
			for _, v := range values {
				p, err := bench.Complete("workload", w.Params, settings(t, "", strings.TrimSpace(needed[w.Name]+"\n"+d.Name+"="+v)))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Job(p); err == nil || !strings.Contains(err.Error(), d.Name) || !strings.ContainsAny(err.Error(), "123456789") {
					t.Errorf("%s %s=%s: error is %v, want its limit", w.Name, d.Name, v, err)
				}
			}
			tried++
		}
		t.Logf("%s: %d parameters", w.Name, tried)
	}
	for name := range most {
		known := false
		for _, w := range All {
			for _, d := range w.Params {
				known = known || d.Name == name
			}
		}
		if !known {
			t.Errorf("no workload has a parameter %s", name)
		}
	}
}
