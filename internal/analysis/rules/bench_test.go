package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/store/storetest"
)

// BenchmarkEvaluate is one evaluation of all rules over 5,000 series of quiet
// processes at the default interval; it happens every 15 s.
func BenchmarkEvaluate(b *testing.B) {
	var load strings.Builder
	load.WriteString("load 5s\n")
	for p := range 250 {
		for c := range 16 {
			fmt.Fprintf(&load, "  tee_syscalls_total{process=\"p%d\",syscall=\"c%d\"} 0+%dx120\n", p, c, p+c)
		}
		for _, k := range []string{"voluntary", "involuntary"} {
			fmt.Fprintf(&load, "  tee_context_switches_total{process=\"p%d\",kind=%q} 0+%dx120\n", p, k, p)
		}
		for _, c := range []string{"no_page_found", "write"} {
			fmt.Fprintf(&load, "  tee_page_faults_total{process=\"p%d\",space=\"user\",cause=%q} 0+%dx120\n", p, c, p)
		}
	}
	st := storetest.Load(b, load.String())
	o := analysis.DefaultOptions()
	at := time.Unix(600, 0)
	o.Now, o.Started = func() time.Time { return at }, time.Unix(0, 0)
	e := analysis.New(All, st, o)
	b.ReportAllocs()
	for b.Loop() {
		e.Evaluate(b.Context())
	}
	if a := e.Rules()[0].Answer; a != analysis.Silent {
		b.Fatalf("%s is %s: %s", All[0].Name, a, e.Rules()[0].Reason)
	}
}
