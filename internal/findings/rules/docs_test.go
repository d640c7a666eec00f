package rules

import (
	"testing"

	"github.com/teescope/teescope/internal/docstest"
	"github.com/teescope/teescope/internal/metric"
)

// TestDocs compares the section of docs/rules.md about each rule with its description.
func TestDocs(t *testing.T) {
	for i, r := range All {
		t.Run(r.Name, func(t *testing.T) {
			want := docstest.Rule(r)
			var others []string
			for _, next := range All[i+1:] {
				others = append(others, "## "+next.Title)
			}
			if len(others) > 0 {
				want += "\n"
			}
			docstest.Check(t, "../../../docs/rules.md", want, others, *update)
		})
	}
}

// TestDefaultsCanBeWritten: every threshold's default reads as it is printed.
func TestDefaultsCanBeWritten(t *testing.T) {
	for _, r := range All {
		t.Run(r.Name, func(t *testing.T) {
			for _, th := range r.Thresholds {
				text := metric.FormatAmount(th.Default, th.Unit)
				if got, err := metric.ParseAmount(text, th.Unit); err != nil || got != th.Default {
					t.Errorf("threshold %s: %q is %v, %v; want %v", th.Name, text, got, err, th.Default)
				}
			}
		})
	}
}
