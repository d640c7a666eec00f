package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/cause"
)

// syncCalls wait until data is on the device; writeCalls can wait for a device, too,
// when they meet a full log or too many dirty pages. Those that write to sockets
// never do, so of writeCalls only the time in which a thread waits for a disk counts.
const (
	syncCalls  = "fsync|fdatasync|sync_file_range|msync|syncfs|sync"
	writeCalls = "write|pwrite64|writev|pwritev|pwritev2|io_uring_enter"
)

var logging = &analysis.Rule{
	Name:  "logging",
	Title: "Logging is the bottleneck",
	Doc: "A process spends at least 20 % of the time in which it has work in writing to disk: in fsync and its kin, on the CPU or waiting, and waiting for a disk " +
		"inside write and its kin; on average at least a tenth of a thread is busy with it. Over either window and over its newest half minute, by samples of " +
		"what all threads do. The CPU time of write itself is left out, since most of it is sockets in a server. " +
		"At least 10 synchronising calls a second say that each request or message waits for the device (commit logs, audit logs, a logger that " +
		"flushes every line); fewer, that more is written than the disk takes.",
	Needs: []string{sampledWait, sampledCPU},
	Thresholds: []analysis.Threshold{
		{Name: "share", Doc: "share of writing to disk in the time in which a process has work", Unit: "ratio", Default: 0.20},
		{Name: "writing", Doc: "threads that are busy with it, on average", Unit: "", Default: 0.1},
		{Name: "syncs", Doc: "synchronising calls from which on they are the cause that is named", Unit: "1/s", Default: 10},
	},
	Remedy:    cause.Logging.Remedy,
	Reference: "https://man7.org/linux/man-pages/man2/fsync.2.html",
	Run:       findLogging,
}

func findLogging(ctx context.Context, p *analysis.Pass) error {
	calls := fmt.Sprintf("call=~%q", syncCalls+"|"+writeCalls)
	points, err := p.Query(ctx, fmt.Sprintf(`sum by (job, instance, process) (rate(%s{state="disk",process!="other",%s}[%s])) > 0`, sampledWait, calls, window(p)), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		waits := func(w string) string { return sumRate(ofProcess(sampledWait, pt.Labels, `state="disk"`, calls), w) }
		syncs := func(w string) string {
			return sumRate(ofProcess(sampledCPU, pt.Labels, `mode="kernel"`, fmt.Sprintf("call=~%q", syncCalls)), w)
		}
		writing := func(w string) string { return fmt.Sprintf("(%s + (%s or vector(0)))", waits(w), syncs(w)) }
		if pt.Value < p.Least("writing")/2 {
			continue // waiting is most of it: the rest cannot make up for so little
		}
		subject, err := named(ctx, p, process, sampledWait, pt.Labels["instance"])
		if err != nil {
			return err
		}
		e, mean := evidence{pass: p}, ", mean of the last "+window(p)
		share, around := e.sampled(ctx, fmt.Sprintf("share of writing to disk in the time in which %s has work%s", process, mean),
			writing, func(w string) string { return active(pt.Labels, w) }, "cpu|wait", pt.Labels)
		now := e.add(ctx, "share of writing to disk, mean of the last "+newest(p), "ratio", writing(newest(p))+" / "+active(pt.Labels, newest(p)))
		busy := e.add(ctx, "threads busy with it"+mean, "", writing(window(p)))
		rate := e.add(ctx, "its synchronising calls"+mean, "1/s", sumRate(ofProcess("tee_syscalls_total", pt.Labels, fmt.Sprintf("syscall=~%q", syncCalls)), window(p)))
		e.add(ctx, "its writing calls, those to sockets among them"+mean, "1/s", sumRate(ofProcess("tee_syscalls_total", pt.Labels, fmt.Sprintf("syscall=~%q", writeCalls)), window(p)))
		e.add(ctx, "share of time in which a task of the machine waited for I/O"+mean, "ratio",
			fmt.Sprintf("rate(%s[%s])", onMachine("node_pressure_io_waiting_seconds_total", pt.Labels), window(p)))
		if e.err != nil {
			return e.err
		}
		if !(min(share, now) >= p.Limit("share", subject)) || busy < p.Limit("writing", subject) {
			continue
		}
		f := analysis.Finding{
			Subject:    subject,
			Title:      fmt.Sprintf("%s spends %s of the time in which it has work writing to disk.", subject, percent(share)),
			Severity:   analysis.Warning,
			Confidence: analysis.Medium,
			Evidence:   e.list,
			Share:      around,
			Cost:       fmt.Sprintf("%s of its threads are held up by it at any moment, on average.", count(busy)),
		}
		switch {
		case rate >= p.Limit("syncs", subject):
			f.Cost = fmt.Sprintf("Each of its %s synchronising calls a second holds a thread up for %s ms, on average.", count(rate), count(busy/rate*1000))
		case rate >= 0:
			f.Remedy = "It hardly synchronises: more is written than the disk takes. " + p.Rule.Remedy
		}
		p.Report(f)
	}
	return nil
}
