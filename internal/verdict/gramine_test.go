package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestGramineRedis has the numbers that a field report measured of Redis under gramine-direct 1.9post (1 connection, pipeline
// 1, on 2 CPUs without SGX): 138 k and 98.3 k requests per second; 2.26 and 5.48 system calls per request, of these 3.23
// clock_gettime that only Gramine makes, as it has no vDSO on a CPU with LA57; 6.01 and 9.3 us of CPU time. The static worker's
// getppid took 1,450 ns there, as it is trapped, and the dynamic one's 75 ns, against 102 ns natively; neither reaches the kernel.
// The report of that time named the price of trapped calls as the cause, which redis, a dynamic program, does not pay.
func TestGramineRedis(t *testing.T) {
	const clock = syscalls + `{syscall="clock_gettime"}`
	for form, call := range map[string]result.CallCost{
		"static":  {Seconds: 1.45e-6, Low: 1.435e-6, High: 1.5e-6, Form: "static"},
		"dynamic": {Seconds: 75e-9, Low: 73e-9, High: 77e-9, Form: "dynamic"},
		"unknown": {},
	} {
		t.Run(form, func(t *testing.T) {
			l := newLab("seconds", "seconds", "lower", "native", "gramine-direct").add("default", "native", 10, 1, 0.001).add("default", "gramine-direct", 10, 138/98.3, 0.001)
			rest := map[string]float64{syscalls + `{syscall="read"}`: 1.13, syscalls + `{syscall="write"}`: 1.13}
			l.counted("native", 6.01e-6, rest)
			rest[clock] = 5.48 - 2.26
			l.counted("gramine-direct", 9.3e-6, rest)
			l.UnitCosts = &result.UnitCosts{Units: []result.UnitCost{{Event: "syscall", Seconds: 102e-9, Low: 100e-9, High: 105e-9}}}
			if call.Seconds > 0 {
				l.Environment("native").Call = &result.CallCost{Seconds: 102e-9, Low: 100e-9, High: 105e-9, Seen: 1, Form: call.Form}
				l.Environment("gramine-direct").Call = &call
			}
			l.conclude(Options{Diff: differ, Catalog: catalog})
			if slices.ContainsFunc(l.Attribution, func(a result.Attribution) bool { return a.Counter == result.Dearer }) {
				t.Errorf("%s: calls that are counted are explained by the price of calls that are not", form)
			}
			i := slices.IndexFunc(l.Attribution, func(a result.Attribution) bool { return a.Counter == clock })
			if i < 0 || *l.Attribution[i].Base != 0 || l.Attribution[i].Share == nil {
				t.Fatalf("%s: what only one arm does has no row: %+v", form, l.Attribution)
			}
			if a := &l.Attribution[i]; a.Delta < 3.2 || a.Delta > 3.25 || i != 0 {
				t.Errorf("%s: row %d is %+v, want 3.22 more, first", form, i, a)
			}
			// At the price of a call that does nothing, the clock calls are at least a tenth of the difference: too little for a sentence, so
			// there is none, and not a false one.
			if a := &l.Attribution[i]; *a.Share < 0.09 || *a.Share > 0.11 || a.Cause == "" {
				t.Errorf("%s: share %v, cause %q", form, *a.Share, a.Cause)
			}
			if said := l.Comparisons[0].Cause; said != "" && !strings.Contains(said, "asking the kernel for the time") {
				t.Errorf("%s: said %q", form, said)
			}
		})
	}
}
