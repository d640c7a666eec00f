package explain

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/stats"
)

// window is the data behind the counts of a window.
type window struct {
	seconds float64
	process query.Scope // the process on its machine, in the window
	machine query.Scope // the machine, in the window

	tick      map[string]float64 // seconds that a sample stands for, by clock
	unrest    map[string]float64 // half of an interval of waiting, relative to it, by state
	coverage  map[string]float64 // by source, for those that counted only part
	deviation map[string]float64 // standard error of their counts as a ratio, by source

	// faultTime is the SGX driver's time per fault on enclave memory, in seconds: the mean over all processes; zero
	// if unknown.
	faultTime Amount

	busy float64 // cores in use on the machine; 0 if unknown

	ioCalls map[string]float64 // calls that read and write by the kernel's own count, by operation; sampled or not

	memory map[Event]Amount // the cost of memory against a baseline, by access and size

	hiddenSources map[string]string // why nothing is seen, by source of what a TEE does

	stolen, present float64 // NaN if unknown
	repriced        bool    // calibrated costs have changed in the window
}

// read fills a ledger from the store for a process and window. It returns the first error.
func (k *Catalog) read(ctx context.Context, db query.Querier, q Question) (*Ledger, error) {
	length := q.To.Sub(q.From)
	l := newLedger(k)
	l.window = window{
		seconds: length.Seconds(),
		process: query.Scope{Here: q.series("process", q.Process), Over: query.PromDuration(length)},
		machine: query.Scope{Here: q.series(), Over: query.PromDuration(length)},
		tick:    map[string]float64{}, unrest: map[string]float64{}, coverage: map[string]float64{}, deviation: map[string]float64{},
		memory: map[Event]Amount{}, ioCalls: map[string]float64{}, hiddenSources: map[string]string{},
		stolen: math.NaN(), present: math.NaN(),
	}
	count := func(name string) func(metric.Point) {
		return func(p metric.Point) { l.counted[EventOf(name, p.Labels)] = p.Value }
	}
	parts := []part{
		{"sum by (mode, call) (" + l.process.Rate(CPUSamples) + ")", count(CPUSamples)},
		{"sum by (state, call) (" + l.process.Rate(WaitSamples) + ")", count(WaitSamples)},
		{"sum by (lock) (" + l.process.Rate(LockWaits) + ")", count(LockWaits)},
		{"sum by (call, device, inode) (" + l.process.Rate(FileWaits) + ")", count(FileWaits)},
		{"sum by (syscall) (" + l.process.Rate(CallCount) + ")", count(CallCount)},
		{"sum by (operation) (" + l.process.Rate("tee_process_io_calls_total") + ")", func(p metric.Point) { l.ioCalls[p.Labels["operation"]] = p.Value }},
		{"sum by (cause) (" + l.process.Rate(FaultCount, userSpace) + ")", count(FaultCount)},
		{"sum(" + l.process.Rate(CPUAccount) + ")", count(CPUAccount)},
		{"sum(" + l.process.Rate(SwitchCount) + ")", count(SwitchCount)},
		{"sum(" + l.process.Rate(HandshakeCount) + ")", count(HandshakeCount)},
		{"sum(" + l.process.Rate(RequestCount) + ")", count(RequestCount)},
		{"sum(" + l.process.Rate(EnclaveFaults) + ")", count(EnclaveFaults)},
		{"sum by (operation) (" + l.process.Rate(EnclavePages) + ")", count(EnclavePages)},
		{"sum by (runtime) (" + l.process.Rate(EnclaveEntries) + ")", count(EnclaveEntries)},
		{"sum by (runtime) (" + l.process.Rate(EnclaveExits) + ")", count(EnclaveExits)},
		{"sum by (runtime) (" + l.process.Rate(EnclaveAsyncExits) + ")", count(EnclaveAsyncExits)},
		{"sum by (mode, call) (" + l.process.Rate(ProcessBounceTime) + ")", count(ProcessBounceTime)},
		{"sum by (mode, call) (" + l.process.Rate(ProcessBounceCalls) + ")", count(ProcessBounceCalls)},
		{l.eachOf(EnclaveFaultTime)(l.machine.Over), func(p metric.Point) { l.faultTime = exactly(p.Value) }},
		{l.unsteady(l.eachOf(EnclaveFaultTime)), func(p metric.Point) { l.faultTime = l.faultTime.withHalfWidth(p.Value) }},
		{l.unsteady(l.waiting), func(p metric.Point) { l.unrest[p.Labels["state"]] = p.Value }},
		{"avg by (clock) (" + l.machine.Mean("tee_sample_interval_seconds") + ")", func(p metric.Point) { l.tick[p.Labels["clock"]] = p.Value }},
		{"avg by (event, bound) (" + l.machine.Mean(UnitCost) + ")", l.takeUnit},
		{"avg by (access, size, bound) (" + l.machine.Mean(MemoryCost) + ")", l.takeMemory},
		{l.changed(UnitCost), func(p metric.Point) { l.repriced = p.Value > 0 }},
		{"avg by (source) (" + l.machine.Mean("teescope_source_coverage_ratio") + ") < 0.999", func(p metric.Point) { l.coverage[p.Labels["source"]] = p.Value }},
		// Of the sum and of the rest the larger: which of a process's calls the kernel counts is not known here.
		{"max by (source) (" + l.machine.Mean("teescope_source_standard_error_ratio") + ")", func(p metric.Point) { l.deviation[p.Labels["source"]] = p.Value }},
		{l.hiding(), func(p metric.Point) { l.hiddenSources[p.Labels["source"]] = p.Labels["reason"] }},
		{l.stealing(), func(p metric.Point) { l.stolen = p.Value }},
		{l.readings(), func(p metric.Point) { l.present = p.Value }},
		{busy.query(l), func(p metric.Point) { l.busy = p.Value }},
	}
	for _, kind := range machineKinds {
		for _, series := range kind.reads {
			parts = append(parts, part{series.query(l), func(p metric.Point) { l.shared[EventOf(series.name, p.Labels)] = p.Value }})
		}
	}
	for _, part := range parts {
		points, err := db.Query(ctx, part.expr, q.To)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			part.take(p)
		}
	}
	return l, nil
}

// part is a query of a window and the function that takes each of its points.
type part struct {
	expr string
	take func(metric.Point)
}

// userSpace selects the page faults taken outside the kernel.
const userSpace = `space="user"`

// changed returns the query for the number of the machine's gauges of a name that changed.
func (w *window) changed(name string) string {
	return w.machine.Expand("count(changes(" + name + "{$here}[$over]) > 0)")
}

// hiding is the query for the sources of what a TEE does that saw nothing in the whole window,
// with the reason.
func (w *window) hiding() string {
	sources := slices.Compact(slices.Sorted(maps.Values(Sources)))
	return w.machine.Expand(`max by (source, reason) (min_over_time(teescope_source_blind{$here,source=~"` + strings.Join(sources, "|") + `"}[$over])) == 1`)
}

// stealing returns the query for the share of the machine's CPU time that its host took.
func (w *window) stealing() string {
	return w.machine.Expand(`sum($rate(node_cpu_seconds_total{$here,mode="steal"})) / sum($rate(node_cpu_seconds_total{$here}))`)
}

// readings returns the query for the share of the machine's readings that are present in the window: their number
// divided by what it would be if every minute had as many as the fullest minute.
func (w *window) readings() string {
	return w.machine.Expand("max(count_over_time(teescope_source_up{$here}[$over]))"+
		" / (max(max_over_time(count_over_time(teescope_source_up{$here}[1m])[$over:30s]) >= 2)") + fmt.Sprintf(" * %g)", w.seconds/60)
}

// unsteady returns the query for half of the 95 % interval of a rate or mean, relative to it, from the spread between
// parts of the window.
func (w *window) unsteady(over func(span string) string) string {
	part := max(10, math.Ceil(w.seconds/20))
	n := math.Floor(w.seconds / part)
	if n < 2 {
		return "vector(0) > 0" // nothing
	}
	t := stats.StudentT(n - 1).Quantile(0.975)
	parts := fmt.Sprintf("(%s)[%gs:%gs]", over(fmt.Sprintf("%gs", part)), n*part, part)
	return fmt.Sprintf("%g * stddev_over_time(%s) / avg_over_time(%s)", t/math.Sqrt(n-1), parts, parts)
}

// waiting returns the query for time that threads wait. A walk over the threads finds many of them in the same state
// or none, so its samples are worth less than their number.
func (w *window) waiting(span string) string {
	return query.Scope{Here: w.process.Here, Over: span}.Expand("sum by (state) ($rate(" + WaitSamples + "{$here}))")
}

// eachOf returns the query for the mean of a histogram of the machine.
func (w *window) eachOf(histogram string) func(span string) string {
	return func(span string) string {
		return query.Scope{Here: w.machine.Here, Over: span}.Expand("sum($rate(" + histogram + "_sum{$here})) / sum($rate(" + histogram + "_count{$here}))")
	}
}

// takeUnit keeps one number of a calibrated cost.
func (l *Ledger) takeUnit(p metric.Point) {
	l.units[p.Labels["event"]] = l.units[p.Labels["event"]].bounded(p)
}

// bounded returns a with the number that the point's label bound names.
func (a Amount) bounded(p metric.Point) Amount {
	switch p.Labels["bound"] {
	case "median":
		a.Value = p.Value
	case "low":
		a.Low = p.Value
	case "high":
		a.High = p.Value
	}
	return a
}

// waited returns the time that threads wait in a state, in threads.
func (w *window) waited(state string, v float64) Amount {
	a, half := w.sampled("wait", v), w.unrest[state]*v
	return Amount{v, min(a.Low, max(0, v-half)), max(a.High, v+half)}
}

// sampled returns the process's time by a clock's samples, in cores or threads. If the source sampled only part of
// the time, each sample counts for more.
func (w *window) sampled(clock string, v float64) Amount {
	tick := w.tick[clock]
	if seen := w.coverage[sourceOf[clock]]; seen > 0 {
		tick /= seen
	}
	if tick <= 0 {
		return exactly(v) // the sampling period was not stored; Window reports it
	}
	return counted(v*w.seconds/tick, tick/w.seconds)
}

// sourceOf names the source of a clock.
var sourceOf = map[string]string{"cpu": "samples", "wait": "waits"}

// rated returns a rate by a source's counters, with an interval if the source counted only part of the time.
func (w *window) rated(source string, v float64) Amount {
	return amountAround(v, min(v, z*w.deviation[source]*v), z*w.deviation[source]*v)
}

// counts returns a rate or time of a TEE counter, with the interval of rated.
func (w *window) counts(metric string, v float64) Amount { return w.rated(Sources[metric], v) }
