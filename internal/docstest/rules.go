package docstest

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

// Rule returns the section of docs/rules.md about a rule.
func Rule(r *findings.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n`%s`. %s\n\n", r.Title, r.Name, r.Doc)
	if len(r.Needs) > 0 {
		fmt.Fprintf(&b, "Needs `%s`.\n\n", strings.Join(r.Needs, "`, `"))
	}
	for i, th := range r.Thresholds {
		if i == 0 {
			b.WriteString("| threshold | default | what |\n|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", th.Name, metric.FormatAmount(th.Default, th.Unit), Cell(th.Doc))
	}
	if len(r.Thresholds) > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "What to do: %s\n\nReference: %s\n", r.Remedy, r.Reference)
	return b.String()
}
