package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

const (
	ioWaiting = "node_pressure_io_waiting_seconds_total"
	diskBusy  = "node_disk_io_time_seconds_total"
)

var ioSaturation = &findings.Rule{
	Name:  "io_saturation",
	Title: "I/O saturation",
	Topic: diskSaturated,
	Role:  findings.RoleCause,
	Early: 25 * time.Second,
	Doc: "At least one task waits for I/O at least 60 % of the time, according to the kernel's pressure stall information. Or a disk is busy at least 90 % of the time and needs " +
		"20 ms for a request, including the queue. This must hold over each window and over its newest half minute. The finding opens early at 80 %, or at 95 % and 40 ms, over the newest 25 s. Busy time alone says little about a device that works on many " +
		"requests at once (iostat(1)), so latency decides: 20 ms is more than the 13 ms that a hard disk with 7,200 rpm needs without a queue. " +
		"Without pressure stall information the rule checks disks only, and never reports that I/O is fine.",
	Thresholds: []findings.Threshold{
		{Name: "waiting", Doc: "share of time in which a task waits for I/O", Unit: "ratio", Default: 0.60, Early: 0.80},
		{Name: "busy", Doc: "share of time in which a disk is busy", Unit: "ratio", Default: 0.90, Early: 0.95},
		{Name: "latency", Doc: "time of a request to such a busy disk, including the queue", Unit: "seconds", Default: 0.020, Early: 0.040},
	},
	Needs:     []string{diskBusy},
	Remedy:    causes.IOSaturation.Remedy,
	Reference: "https://docs.kernel.org/accounting/psi.html and https://man7.org/linux/man-pages/man1/iostat.1.html",
	Run:       findIOSaturation,
}

func findIOSaturation(ctx context.Context, p *findings.Pass) error {
	waiting, err := holding(ctx, p, func(w string) string { return query.Rate(ioWaiting, w) }, p.Least("waiting"), "")
	if err != nil {
		return err
	}
	busy, err := holding(ctx, p, func(w string) string { return query.Rate(diskBusy, w) }, p.Least("busy"), "")
	if err != nil {
		return err
	}
	told := map[of]bool{}
	for _, pt := range slices.Concat(waiting, busy) {
		subject, err := named(ctx, p, findings.WholeMachine, diskBusy, pt.Labels["instance"])
		if err != nil {
			return err
		}
		who := of{query.MachineOf(pt.Labels), subject}
		if told[who] || p.Settled(who.Machine, subject, "") {
			continue
		}
		f, err := ioFinding(ctx, p, subject, pt.Labels)
		if err != nil {
			return err
		}
		if f.Title != "" {
			told[who] = true
			p.Report(f)
		}
	}
	if len(told) > 0 {
		return nil
	}
	known, err := p.Query(ctx, fmt.Sprintf("count(count_over_time(%s[%s]) >= 2)", ioWaiting, window(p)), p.To)
	if err == nil && len(known) == 0 {
		err = errors.New("no disk is saturated, but waiting for I/O is not checked: needs two readings of " + ioWaiting + " (pressure stall information)")
	}
	return err
}

// ioFinding returns the finding for the machine with these labels; its title is "" when the rule is silent. It names
// a disk if one is busy.
func ioFinding(ctx context.Context, p *findings.Pass, subject string, labels map[string]string) (findings.Finding, error) {
	e, mean := evidence{pass: p}, ", mean of the last "+window(p)
	waits := e.add(ctx, "share of time in which a task waited for I/O"+mean, "ratio", atMostOne(query.SumRate(onMachine(ioWaiting, labels), window(p))))
	waitsNow := e.add(ctx, "share of time in which a task waited for I/O, mean of the last "+newest(p), "ratio", atMostOne(query.SumRate(onMachine(ioWaiting, labels), newest(p))))
	f := findings.Finding{Machine: query.MachineOf(labels), Subject: subject, Severity: findings.Warning}
	if min(waits, waitsNow) >= p.Limit("waiting", subject) {
		f.Title = fmt.Sprintf("At least one task of the %s waits for I/O %s of the time.", subject, metric.Percent(waits))
	}
	disks, err := p.Query(ctx, "topk(1, "+query.Rate(onMachine(diskBusy, labels), window(p))+")", p.To)
	if err != nil {
		return f, err
	}
	for _, d := range disks {
		name := d.Labels["device"]
		of := func(metric, w string) string {
			return query.SumRate(onMachine(metric, labels, fmt.Sprintf("device=%q", name)), w)
		}
		latency := func(w string) string {
			return fmt.Sprintf("(%s + %s) / (%s + %s)", of("node_disk_read_time_seconds_total", w), of("node_disk_write_time_seconds_total", w),
				of("node_disk_reads_completed_total", w), of("node_disk_writes_completed_total", w))
		}
		busy := e.add(ctx, fmt.Sprintf("share of time in which the disk %s was busy, mean of the last %s", name, window(p)), "ratio", atMostOne(of(diskBusy, window(p))))
		busyNow := e.add(ctx, fmt.Sprintf("share of time in which the disk %s was busy, mean of the last %s", name, newest(p)), "ratio", atMostOne(of(diskBusy, newest(p))))
		took := e.add(ctx, "time of a request to the disk, including the queue"+mean, "seconds", latency(window(p)))
		e.add(ctx, "requests queued or in progress"+mean, "", of("node_disk_io_time_weighted_seconds_total", window(p)))
		e.add(ctx, "99th percentile of the time in the device itself"+mean, "seconds",
			"histogram_quantile(0.99, sum by (le) ("+query.Rate(onMachine("tee_block_io_latency_seconds_bucket", labels, fmt.Sprintf("device=%q", name)), window(p))+"))")
		e.add(ctx, "bytes read from and written to the disk"+mean, "bytes/s", of("node_disk_read_bytes_total", window(p))+" + "+of("node_disk_written_bytes_total", window(p)))
		if f.Title == "" && min(busy, busyNow) >= p.Limit("busy", subject) && took >= p.Limit("latency", subject) {
			f.Title = fmt.Sprintf("The disk %s of the %s is busy %s of the time and needs %s for a request.", name, subject, metric.Percent(busy), metric.Value(took, "seconds"))
			f.Cost = fmt.Sprintf("Each request to the disk takes %s on average.", metric.Value(took, "seconds"))
		}
	}
	if f.Title != "" {
		blameDisk(ctx, &e, labels, &f)
	}
	f.Evidence = e.list
	return f, e.err
}
