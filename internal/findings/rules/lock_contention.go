package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

var lockContention = &findings.Rule{
	Name:  "lock_contention",
	Title: "Lock contention",
	Doc: "The threads of a process spend at least 20 % of the time in which they have work asleep in a futex, waiting for a lock of glibc or Rust; " +
		"on average at least a tenth of a thread waits, while the process uses at least a tenth of a core. Over either window and over its newest half " +
		"minute, by samples of all threads. At a fifth, by Amdahl's law, any number of threads makes the program at most five times as fast. The rate " +
		"of futex calls is the second sign: without it a lock is held for long rather than contended, as when workers take turns to accept connections, " +
		"and confidence is low. Locks of Java and Go sleep in other ways and are not covered.",
	Needs: []string{sampledWait, sampledCPU},
	Thresholds: []findings.Threshold{
		{Name: "share", Doc: "share of lock waits in the time in which a process has work", Unit: "ratio", Default: 0.20},
		{Name: "waiting", Doc: "threads that wait for locks, on average", Unit: "", Default: 0.1},
		{Name: "cpu", Doc: "CPU time of the process, below which it is idle", Unit: "cores", Default: 0.1},
		{Name: "futexes", Doc: "futex calls of the process, below which confidence is low", Unit: "1/s", Default: 100},
	},
	Remedy:    causes.LockContention.Remedy,
	Reference: "https://man7.org/linux/man-pages/man2/futex.2.html and Ulrich Drepper: Futexes Are Tricky, https://www.akkadia.org/drepper/futex.pdf",
	Run:       findLockContention,
}

func findLockContention(ctx context.Context, p *findings.Pass) error {
	points, err := p.Query(ctx, held(p, func(w string) string {
		return fmt.Sprintf(`sum by (job, instance, process) (rate(%s{state="lock",process!="other"}[%s]))`, sampledWait, w)
	}, p.Least("waiting")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		subject, err := named(ctx, p, process, sampledWait, pt.Labels["instance"])
		if err != nil {
			return err
		}
		locked := func(w string) string { return sumRate(ofProcess(sampledWait, pt.Labels, `state="lock"`), w) }
		e, mean := evidence{pass: p}, ", mean of the last "+window(p)
		share, around := e.sampled(ctx, fmt.Sprintf("share of lock waits in the time in which %s has work%s", process, mean),
			locked, func(w string) string { return active(pt.Labels, w) }, "cpu|wait", pt.Labels)
		now := e.add(ctx, "share of lock waits, mean of the last "+newest(p), "ratio", locked(newest(p))+" / "+active(pt.Labels, newest(p)))
		waiting := e.add(ctx, "threads that wait for locks"+mean, "", locked(window(p)))
		cpu := e.add(ctx, "its CPU time, by samples"+mean, "cores", sumRate(ofProcess(sampledCPU, pt.Labels), window(p)))
		futexes := e.add(ctx, "its futex calls"+mean, "1/s", sumRate(ofProcess("tee_syscalls_total", pt.Labels, `syscall=~"futex|futex_wait|futex_waitv"`), window(p)))
		e.add(ctx, "its voluntary context switches"+mean, "1/s", sumRate(ofProcess("tee_context_switches_total", pt.Labels, `kind="voluntary"`), window(p)))
		if e.err != nil {
			return e.err
		}
		if !(min(share, now) >= p.Limit("share", subject)) || waiting < p.Limit("waiting", subject) || !(cpu >= p.Limit("cpu", subject)) {
			continue
		}
		f := findings.Finding{
			Subject:    subject,
			Title:      fmt.Sprintf("%s waits for locks during %s of the time in which it has work.", subject, metric.Percent(share)),
			Severity:   findings.Warning,
			Confidence: findings.Medium,
			Evidence:   e.list,
			Share:      around,
			Cost:       fmt.Sprintf("On average %s of its threads wait at any moment.", metric.Count(waiting)),
		}
		if !(futexes >= p.Limit("futexes", subject)) {
			f.Confidence = findings.Low
		}
		p.Report(f)
	}
	return nil
}
