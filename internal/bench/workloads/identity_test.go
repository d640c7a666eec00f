package workloads

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/result"
)

// TestEdited: results as they were made have the identity of their parameters, and none after a parameter was changed by hand.
func TestEdited(t *testing.T) {
	paths, err := filepath.Glob("../../../e2e/browser/testdata/results/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no results: %v", err)
	}
	l := bench.Lists{Workloads: All}
	changed := 0
	for _, path := range paths {
		e, err := result.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Edited(e); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		w, err := l.Workload(e.Workload.Name)
		if err != nil {
			t.Fatal(err)
		}
		c := &e.Cases[0]
		for _, d := range w.Params {
			was := c.Params[d.Name]
			c.Params[d.Name] = was + "0"
			if err := l.Edited(e); (err == nil) != d.Subject || err != nil && !strings.Contains(err.Error(), c.ID) {
				t.Errorf("%s: another value of %s: %v", path, d.Name, err)
			}
			c.Params[d.Name] = was
			changed++
		}
		e.Workload.Version++
		if err := l.Edited(e); err != nil {
			t.Errorf("%s: another version of the workload: %v", path, err)
		}
	}
	if changed == 0 {
		t.Error("no result has a parameter")
	}
}
