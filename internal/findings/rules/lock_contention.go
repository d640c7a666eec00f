package rules

import (
	"context"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
)

var lockContention = &findings.Rule{
	Name:  "lock_contention",
	Title: "Lock contention",
	Doc: "The threads of a process spend at least 20 % of their active time (on a CPU, or waiting for a lock, a disk or a CPU) asleep in a futex, waiting for a lock of glibc or Rust; " +
		"on average at least a tenth of a thread waits, while the process uses at least a tenth of a core. Over either window and over its newest half " +
		"minute, by samples of all threads. At a fifth, by Amdahl's law, any number of threads makes the program at most five times as fast. The rate " +
		"of futex calls is the second sign: without it a lock is held for long rather than contended, as when workers take turns to accept connections, " +
		"and confidence is low. Locks of Java and Go sleep in other ways and are not covered.",
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
	return findWaiting(ctx, p, "lock", "lock waits", "locks", func(e *waiting, f *findings.Finding) bool {
		cpu := e.add(ctx, "its CPU time, by samples"+e.mean, "cores", sumRate(ofProcess(sampledCPU, e.labels), window(p)))
		futexes := e.add(ctx, "its futex calls"+e.mean, "1/s", sumRate(ofProcess("tee_syscalls_total", e.labels, `syscall=~"futex|futex_wait|futex_waitv"`), window(p)))
		e.add(ctx, "its voluntary context switches"+e.mean, "1/s", sumRate(ofProcess("tee_context_switches_total", e.labels, `kind="voluntary"`), window(p)))
		f.Confidence = findings.Medium
		if !(futexes >= p.Limit("futexes", f.Subject)) {
			f.Confidence = findings.Low
		}
		return cpu >= p.Limit("cpu", f.Subject)
	})
}
