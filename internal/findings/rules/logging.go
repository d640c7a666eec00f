package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// syncCalls wait until data is on the device. writeCalls can wait for a device too, on a full log or too many dirty
// pages. Writes to sockets never do, so writeCalls count only while a thread waits for a disk.
const (
	syncCalls  = "fsync|fdatasync|sync_file_range|msync|syncfs|sync"
	writeCalls = "write|pwrite64|writev|pwritev|pwritev2|io_uring_enter"
)

var logging = &findings.Rule{
	Name:  "logging",
	Title: "Logging is the bottleneck",
	Topic: diskSaturated,
	Role:  findings.RoleEffect,
	Doc: "A process spends at least 20 % of its active time (on a CPU, or waiting for a lock, a disk or a CPU) writing to disk, and on average at least a tenth of a thread does so. Two times count as writing to disk: the time in fsync and similar calls, on the CPU or waiting, and the time in which write and similar calls wait for a disk. This must hold over each window and over its newest half minute, by samples of " +
		"all threads. The CPU time of write itself is left out, because in a server most of it is for sockets. " +
		"At least 10 synchronising calls a second mean that each request or message waits for the device (commit logs, audit logs, a logger that flushes every line). Fewer such calls mean that the process writes faster than the disk can.",
	Needs: []string{sampledWait, sampledCPU},
	Thresholds: []findings.Threshold{
		{Name: "share", Doc: "share of writing to disk in the active time of a process", Unit: "ratio", Default: 0.20},
		{Name: "writing", Doc: "threads that write to disk, on average", Unit: "", Default: 0.1},
		{Name: "syncs", Doc: "synchronising calls; at this rate the finding names them as the reason", Unit: "1/s", Default: 10},
	},
	Remedy:    causes.Logging.Remedy,
	Reference: "https://man7.org/linux/man-pages/man2/fsync.2.html",
	Run:       findLogging,
}

func findLogging(ctx context.Context, p *findings.Pass) error {
	calls := fmt.Sprintf("call=~%q", syncCalls+"|"+writeCalls)
	points, err := p.Query(ctx, "sum by (job, instance, process) ("+query.Scope{Over: window(p)}.Rate(sampledWait, `state="disk"`, `process!="other"`, calls)+") > 0", p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		waits := func(w string) string {
			return query.SumRate(ofProcess(sampledWait, pt.Labels, `state="disk"`, calls), w)
		}
		syncs := func(w string) string {
			return query.SumRate(ofProcess(sampledCPU, pt.Labels, `mode="kernel"`, fmt.Sprintf("call=~%q", syncCalls)), w)
		}
		writing := func(w string) string { return fmt.Sprintf("(%s + (%s or vector(0)))", waits(w), syncs(w)) }
		if pt.Value < p.Least("writing")/2 {
			continue // waiting is the larger part, so the rest cannot reach the limit
		}
		subject, err := named(ctx, p, process, sampledWait, pt.Labels["instance"])
		if err != nil {
			return err
		}
		e, mean := evidence{pass: p}, ", mean of the last "+window(p)
		share, around := e.sampled(ctx, fmt.Sprintf("share of writing to disk in the active time of %s%s", process, mean),
			writing, func(w string) string { return active(pt.Labels, w) }, "cpu|wait", pt.Labels)
		now := e.add(ctx, "share of writing to disk, mean of the last "+newest(p), "ratio", writing(newest(p))+" / "+active(pt.Labels, newest(p)))
		busy := e.add(ctx, "threads that write to disk"+mean, "", writing(window(p)))
		rate := e.add(ctx, fmt.Sprintf("calls of %s that force data to disk (fsync, msync, sync and others)%s", process, mean), "1/s", query.SumRate(ofProcess("tee_syscalls_total", pt.Labels, fmt.Sprintf("syscall=~%q", syncCalls)), window(p)))
		e.add(ctx, "its write calls, including those to sockets"+mean, "1/s", query.SumRate(ofProcess("tee_syscalls_total", pt.Labels, fmt.Sprintf("syscall=~%q", writeCalls)), window(p)))
		e.add(ctx, "share of time in which a task of the machine waited for I/O"+mean, "ratio",
			atMostOne(query.Rate(onMachine("node_pressure_io_waiting_seconds_total", pt.Labels), window(p))))
		if e.err != nil {
			return e.err
		}
		if !(min(share, now) >= p.Limit("share", subject)) || busy < p.Limit("writing", subject) {
			continue
		}
		f := findings.Finding{
			Machine:    query.MachineOf(pt.Labels),
			Subject:    subject,
			Life:       lifeOf(pt.Labels),
			Title:      fmt.Sprintf("%s spends %s of its active time writing to disk.", subject, metric.Percent(share)),
			Severity:   findings.Warning,
			Confidence: findings.Medium,
			Share:      around,
			ShareOf:    findings.ActiveTime,
			Cost:       fmt.Sprintf("On average, %s threads write to disk at any moment.", metric.Count(busy)),
		}
		switch {
		case rate >= p.Limit("syncs", subject):
			f.Cost = fmt.Sprintf("Each of its %s synchronising calls a second blocks a thread for %s on average.", metric.Count(rate), metric.Value(busy/rate, "seconds"))
		case rate >= 0:
			f.Remedy = p.Rule.Remedy + " The process makes few synchronising calls: it writes faster than the disk can."
		}
		if e.nameWaitedFor(ctx, &f, pt.Labels, byFile(calls)); e.err != nil {
			return e.err
		}
		f.Evidence = e.list
		p.Report(f)
	}
	return nil
}
