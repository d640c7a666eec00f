package explain_test

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
)

// TestRateInterval: an estimated rate is printed with its interval, and an exact one without.
func TestRateInterval(t *testing.T) {
	var out explain.Text
	out.Tree(explain.Tree{Per: "second", Rows: []explain.Row{
		{Title: "fsync", Rate: &explain.Amount{Value: 489, Low: 400, High: 600}},
		{Title: "write", Rate: &explain.Amount{Value: 489, Low: 489, High: 489}},
	}}, nil)
	for title, want := range map[string]string{"fsync": "489/s ±23 %", "write": "489/s"} {
		t.Run(title, func(t *testing.T) {
			i := strings.Index(out.String(), "\n"+title)
			line, _, _ := strings.Cut(out.String()[i+1:], "\n")
			if i < 0 || !strings.HasSuffix(strings.TrimSpace(line), want) {
				t.Errorf("%s: %q, want its rate as %s", title, line, want)
			}
		})
	}
}
