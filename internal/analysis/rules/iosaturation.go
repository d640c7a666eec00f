package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/cause"
)

const (
	ioWaiting = "node_pressure_io_waiting_seconds_total"
	diskBusy  = "node_disk_io_time_seconds_total"
)

var ioSaturation = &analysis.Rule{
	Name:  "io_saturation",
	Title: "I/O saturation",
	Doc: "Some task waits for I/O at least 60 % of the time, by the kernel's pressure stall information, or a disk is busy at least 90 % of the time and takes " +
		"20 ms for a request, queueing included; over either window and over its newest half minute. Being busy alone says little of a device that works on many " +
		"requests at once (iostat(1)), so latency decides: 20 ms is more than the 13 ms that a hard disk of 7,200 turns a minute needs without a queue. " +
		"Where there is no pressure stall information only the second sign is looked for, and silence is no answer.",
	Thresholds: []analysis.Threshold{
		{Name: "waiting", Doc: "share of time in which a task waits for I/O", Unit: "ratio", Default: 0.60},
		{Name: "busy", Doc: "share of time in which a disk is busy", Unit: "ratio", Default: 0.90},
		{Name: "latency", Doc: "time of a request to a disk that is that busy, queueing included", Unit: "seconds", Default: 0.020},
	},
	Needs:     []string{diskBusy},
	Remedy:    cause.IOSaturation.Remedy,
	Reference: "https://docs.kernel.org/accounting/psi.html and https://man7.org/linux/man-pages/man1/iostat.1.html",
	Run:       findIOSaturation,
}

func findIOSaturation(ctx context.Context, p *analysis.Pass) error {
	waiting, err := p.Query(ctx, held(p, func(w string) string { return fmt.Sprintf("rate(%s[%s])", ioWaiting, w) }, p.Least("waiting")), p.To)
	if err != nil {
		return err
	}
	busy, err := p.Query(ctx, held(p, func(w string) string { return fmt.Sprintf("rate(%s[%s])", diskBusy, w) }, p.Least("busy")), p.To)
	if err != nil {
		return err
	}
	told := map[string]bool{} // subjects
	for _, pt := range slices.Concat(waiting, busy) {
		subject, err := named(ctx, p, "machine", diskBusy, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if told[subject] {
			continue
		}
		f, err := ioFinding(ctx, p, subject, pt.Labels)
		if err != nil {
			return err
		}
		if f.Title != "" {
			told[subject] = true
			p.Report(f)
		}
	}
	if len(told) > 0 {
		return nil
	}
	known, err := p.Query(ctx, fmt.Sprintf("count(count_over_time(%s[%s]) >= 2)", ioWaiting, window(p)), p.To)
	if err == nil && len(known) == 0 {
		err = errors.New("no disk is saturated, but without " + ioWaiting + " nobody can say whether tasks wait for I/O: the kernel has no pressure stall information, or no two readings of it")
	}
	return err
}

// ioFinding is about the machine whose labels are given; its title is "" when it says
// nothing. A disk is named where one is busy.
func ioFinding(ctx context.Context, p *analysis.Pass, subject string, labels map[string]string) (analysis.Finding, error) {
	e, mean := evidence{pass: p}, ", mean of the last "+window(p)
	waits := e.add(ctx, "share of time in which a task waited for I/O"+mean, "ratio", sumRate(onMachine(ioWaiting, labels), window(p)))
	waitsNow := e.add(ctx, "share of time in which a task waited for I/O, mean of the last "+newest(p), "ratio", sumRate(onMachine(ioWaiting, labels), newest(p)))
	f := analysis.Finding{Subject: subject, Severity: analysis.Warning}
	if min(waits, waitsNow) >= p.Limit("waiting", subject) {
		f.Title = fmt.Sprintf("Tasks of the %s wait for I/O %s of the time.", subject, percent(waits))
		f.Cost = fmt.Sprintf("For %s of the time at least one task does not get on.", percent(waits))
	}
	disks, err := p.Query(ctx, fmt.Sprintf("topk(1, rate(%s[%s]))", onMachine(diskBusy, labels), window(p)), p.To)
	if err != nil {
		return f, err
	}
	for _, d := range disks {
		name := d.Labels["device"]
		of := func(metric, w string) string {
			return sumRate(onMachine(metric, labels, fmt.Sprintf("device=%q", name)), w)
		}
		latency := func(w string) string {
			return fmt.Sprintf("(%s + %s) / (%s + %s)", of("node_disk_read_time_seconds_total", w), of("node_disk_write_time_seconds_total", w),
				of("node_disk_reads_completed_total", w), of("node_disk_writes_completed_total", w))
		}
		busy := e.add(ctx, fmt.Sprintf("share of time in which the disk %s was busy, mean of the last %s", name, window(p)), "ratio", of(diskBusy, window(p)))
		busyNow := e.add(ctx, fmt.Sprintf("share of time in which the disk %s was busy, mean of the last %s", name, newest(p)), "ratio", of(diskBusy, newest(p)))
		took := e.add(ctx, "time of a request to it, queueing included"+mean, "seconds", latency(window(p)))
		e.add(ctx, "requests in its queue or at work"+mean, "", of("node_disk_io_time_weighted_seconds_total", window(p)))
		e.add(ctx, "99th percentile of the time that the device itself took"+mean, "seconds",
			fmt.Sprintf("histogram_quantile(0.99, sum by (le) (rate(%s[%s])))", onMachine("tee_block_io_latency_seconds_bucket", labels, fmt.Sprintf("device=%q", name)), window(p)))
		e.add(ctx, "bytes read and written by it"+mean, "bytes/s", of("node_disk_read_bytes_total", window(p))+" + "+of("node_disk_written_bytes_total", window(p)))
		if f.Title == "" && min(busy, busyNow) >= p.Limit("busy", subject) && took >= p.Limit("latency", subject) {
			f.Title = fmt.Sprintf("The disk %s of the %s is busy %s of the time and takes %s ms for a request.", name, subject, percent(busy), count(took*1000))
			f.Cost = fmt.Sprintf("Each request to the disk takes %s ms.", count(took*1000))
		}
	}
	f.Evidence = e.list
	return f, e.err
}
