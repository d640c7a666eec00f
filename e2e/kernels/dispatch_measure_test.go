//go:build measure

package kernels

import (
	"regexp"
	"testing"
	"time"
)

// TestDispatch prints what a system call costs more, in instructions of the guest, with an empty program at each kind of
// hook and with ours, and how long attaching takes: the emulated processor's clock advances by a nanosecond with each
// instruction, so the numbers of calls are the same each time. They leave out caches, branches and pipelines.
func TestDispatch(t *testing.T) {
	for _, name := range []string{singleKernel, "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			g := &Guest{Kernel: fetch(t, named(t, name)), QEMU: []string{"-icount", "shift=0,sleep=off"}}
			g.Steps = []Step{{Name: "cost", Limit: 40 * time.Minute, Script: "bpf.test -test.run '^$' -test.bench 'Dispatch$|Cost$/^sys_enter$' -test.benchtime 5x"}}
			r := boot(t, g)
			out := r.Steps["cost"]
			lines := regexp.MustCompile(`(?m)^Benchmark(Dispatch|Cost)/.*$`).FindAllString(out.Text, -1)
			if out.Status != 0 || len(lines) == 0 {
				t.Fatalf("the benchmarks ended with status %d", out.Status)
			}
			for _, l := range lines {
				t.Log(l)
			}
		})
	}
}
