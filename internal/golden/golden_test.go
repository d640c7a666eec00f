package golden_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/golden"
)

// recorder is a test that only notes whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// TestWrite: a new file and a changed one are written and fail the test; one that is the same does neither.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "kept")
	for _, step := range []struct {
		name, content string
		fails         bool
	}{{"new", "a", true}, {"same", "a", false}, {"changed", "b", true}} {
		t.Run(step.name, func(t *testing.T) {
			r := &recorder{TB: t}
			golden.Write(r, path, []byte(step.content))
			if got, err := os.ReadFile(path); err != nil || string(got) != step.content || r.failed != step.fails {
				t.Errorf("%s: %q, %v, failed %v", step.name, got, err, r.failed)
			}
		})
	}
}
