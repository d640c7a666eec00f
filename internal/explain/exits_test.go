package explain

import "testing"

// TestExitAdvice: the advice is about the most frequent reason, and of a confidential guest about its most frequent call that
// has a remedy. Without one, it is the cause's alone.
func TestExitAdvice(t *testing.T) {
	remedies := map[string]string{"hlt": "Poll.", "io": "Use vhost.", "vmgexit": "See the calls.", "npf": "Use huge pages."}
	l := &Ledger{Catalog: &Catalog{Causes: []*Cause{
		{Name: "exits", Remedy: "Look.", ByReason: func(reason string) string { return remedies[reason] }}, {Name: "plain", Remedy: "Look."},
	}}}
	for _, c := range []struct {
		cause string
		parts []string
		want  string
	}{
		{"exits", []string{"hlt", "npf"}, "Poll. Look."},
		{"exits", []string{"npf", "vmgexit", "call: io"}, "Use huge pages. Look."},
		{"exits", []string{"vmgexit", "npf", "call: msr", "call: io"}, "Use vhost. Look."},
		{"exits", []string{"vmgexit", "call: msr"}, "See the calls. Look."},
		{"exits", []string{"vmgexit"}, "See the calls. Look."},
		{"exits", []string{"smi"}, "Look."},
		{"exits", nil, ""},
		{"plain", []string{"hlt"}, ""},
		{"unknown", []string{"hlt"}, ""},
	} {
		t.Run(c.cause, func(t *testing.T) {
			var parts []Row
			for _, p := range c.parts {
				parts = append(parts, Row{Title: p})
			}
			if got := l.exitAdvice(c.cause, parts); got != c.want {
				t.Errorf("%s of %v: %q, want %q", c.cause, c.parts, got, c.want)
			}
		})
	}
}
