package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

var lockContention = &findings.Rule{
	Name:  "lock_contention",
	Title: "Lock contention",
	Doc: "The threads of a process spend at least 20 % of their active time (on a CPU, or waiting for a lock, a disk or a CPU) asleep in a futex, waiting for a lock of glibc or Rust; " +
		"on average at least a tenth of a thread waits, while the process uses at least a tenth of a core. This must hold over each window and over its newest half " +
		"minute, by samples of all threads. At 20 %, by Amdahl's law, more threads make the program at most five times as fast. A high rate of futex calls is the second sign. Without it, a lock is probably held for a long time rather than contended, for example if workers take turns to accept connections. Confidence is then low. If runnable threads wait for a CPU at least as long as they run, the finding names the processes that use the CPUs, because a lock is held longer while its holder has no CPU. The finding names the lock with the longest waits, if the source `waits` knows the lock's variable or the function that takes the lock. If the processes of one name run in several units, each unit that meets the limits has its own finding. Locks of Java and Go sleep in other ways and are not covered.",
	Needs: []string{sampledWait, sampledCPU},
	Thresholds: []findings.Threshold{
		{Name: "share", Doc: "share of lock waits in the active time of a process", Unit: "ratio", Default: 0.20},
		{Name: "waiting", Doc: "threads that wait for locks, on average", Unit: "", Default: 0.1},
		{Name: "cpu", Doc: "CPU time of the process, below which it is idle", Unit: "cores", Default: 0.1},
		{Name: "futexes", Doc: "futex calls of the process, below which confidence is low", Unit: "1/s", Default: 100},
	},
	Remedy:    causes.LockContention.Remedy,
	Reference: "https://man7.org/linux/man-pages/man2/futex.2.html and Ulrich Drepper: Futexes Are Tricky, https://www.akkadia.org/drepper/futex.pdf",
	Run:       findLockContention,
}

func findLockContention(ctx context.Context, p *findings.Pass) error {
	return waitingFor{
		state: "lock", what: "lock waits", whatFor: "locks",
		judge: func(ctx context.Context, e *waiting, f *findings.Finding) bool {
			cpu := e.add(ctx, "its CPU time, by samples"+e.mean, "cores", e.cpu(window(p)))
			futexes := e.add(ctx, e.ofAll("futex calls")+e.mean, "1/s", query.SumRate(ofProcess("tee_syscalls_total", e.labels, `syscall=~"futex|futex_wait|futex_waitv"`), window(p)))
			e.add(ctx, e.ofAll("voluntary context switches")+e.mean, "1/s", query.SumRate(ofProcess("tee_context_switches_total", e.labels, `kind="voluntary"`), window(p)))
			f.Confidence = findings.Medium
			if !(futexes >= p.Limit("futexes", f.Subject)) {
				f.Confidence = findings.Low
			}
			accepted := cpu >= p.Limit("cpu", f.Subject)
			if accepted {
				if e.unit == "" { // which unit waits for a lock is not known
					e.nameWaitedFor(ctx, f, e.labels, byLock)
				}
				e.blameForHolder(ctx, f, cpu)
			}
			return accepted
		},
	}.find(ctx, p)
}

// ofAll names a number that is not known by unit.
func (e *waiting) ofAll(what string) string {
	if e.unit == "" {
		return "its " + what
	}
	return what + " of all processes of " + e.labels["process"]
}

// blameForHolder adds who uses the CPUs while the threads that could run, such as the holder of the lock, wait for one.
func (e *waiting) blameForHolder(ctx context.Context, f *findings.Finding, cpu float64) {
	queued := e.add(ctx, "threads that wait for a CPU"+e.mean, "", e.waits("cpu")(window(e.pass)))
	if e.err != nil || !(queued >= cpu) {
		return
	}
	c, lead := e.rivals(ctx, f)
	if len(lead) == 0 || c.Own >= equalUse*lead[0].Value {
		return
	}
	f.Takers = lead
	f.Title = fmt.Sprintf("%s, and its runnable threads wait for a CPU: %s.", strings.TrimSuffix(f.Title, "."), rivals.UsagePhrase(lead, "uses"))
}
