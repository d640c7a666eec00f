package sources

import (
	"testing"

	"github.com/teescope/teescope/internal/docstest"
)

// TestDocs compares the section of docs/metrics.md about each source with its description.
func TestDocs(t *testing.T) {
	for i, s := range All {
		t.Run(s.Name, func(t *testing.T) {
			var others []string
			for _, next := range All[i+1:] {
				others = append(others, "## "+next.Name)
			}
			docstest.Check(t, "../../../docs/metrics.md", docstest.Source(s), append(others, "## The engine"), *update)
		})
	}
}
