package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/store/storetest"
)

// BenchmarkUnusual is one evaluation over the rates of 200 processes with three days of history: once with no change,
// and once with more changed series than are examined closely.
func BenchmarkUnusual(b *testing.B) {
	for _, changed := range []int{0, 20} {
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			var load strings.Builder
			load.WriteString("load 30s\n  tee_process_cpu_seconds_total{process=\"p\"} 0+1x8700\n")
			for _, r := range usualRates {
				for p := range 200 {
					level, now := 5000, 5000+p // not equal, so the farthest are always the same
					if p < changed {
						now = 80_000 + p
					}
					fmt.Fprintf(&load, "  %s{process=\"p%d\",instance=\"vm\"} %dx8600 %dx60\n", r.series, p, level, now)
				}
			}
			st := storetest.Load(b, load.String())
			o := findings.DefaultOptions()
			at := time.Unix(8650*30, 0)
			o.Now, o.Started = func() time.Time { return at }, time.Unix(0, 0)
			e := findings.New([]*findings.Rule{unusual}, st, o)
			b.ReportAllocs()
			for b.Loop() {
				e.Evaluate(b.Context())
			}
			if n := len(e.Records()); (n > 0) != (changed > 0) {
				b.Fatalf("%d findings: %+v", n, e.Rules())
			}
		})
	}
}
