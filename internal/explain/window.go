package explain

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

// window is how the counts of a window came about.
type window struct {
	seconds float64
	span    string // as PromQL writes it
	process string // matchers of the process and its machine
	machine string // matchers of the machine

	tick      map[string]float64 // seconds that a sample stands for, by clock
	unrest    map[string]float64 // half of an interval of waiting, relative to it, by state
	coverage  map[string]float64 // by source, of those that saw a part
	deviation map[string]float64 // standard error of their counts as a ratio, by source

	busy float64 // cores in use on the machine; 0 where it is not known

	stolen, present float64 // NaN where it is not known
}

// read fills a ledger with what the store holds of a process and window; the first
// error ends it.
func (k *Catalog) read(ctx context.Context, db findings.Querier, q Question) (*Ledger, error) {
	length := q.To.Sub(q.From)
	l := newLedger(k)
	l.window = window{
		seconds: length.Seconds(), span: findings.PromDuration(length),
		process: matchers("process", q.Process, "instance", q.Instance),
		machine: matchers("instance", q.Instance),
		tick:    map[string]float64{}, unrest: map[string]float64{}, coverage: map[string]float64{}, deviation: map[string]float64{},
		stolen: math.NaN(), present: math.NaN(),
	}
	count := func(name string) func(metric.Point) {
		return func(p metric.Point) { l.counted[EventOf(name, p.Labels)] = p.Value }
	}
	parts := []part{
		{"sum by (mode, call) (" + l.rate(CPUSamples) + ")", count(CPUSamples)},
		{"sum by (state, call) (" + l.rate(WaitSamples) + ")", count(WaitSamples)},
		{"sum by (syscall) (" + l.rate(CallCount) + ")", count(CallCount)},
		{"sum by (cause) (" + l.rate(FaultCount, userSpace) + ")", count(FaultCount)},
		{"sum(" + l.rate(CPUAccount) + ")", count(CPUAccount)},
		{"sum(" + l.rate(SwitchCount) + ")", count(SwitchCount)},
		{"sum(" + l.rate(HandshakeCount) + ")", count(HandshakeCount)},
		{"sum(" + l.rate(RequestCount) + ")", count(RequestCount)},
		{"sum(" + l.rate(EnclaveFaults) + ")", count(EnclaveFaults)},
		{"sum by (operation) (" + l.rate(EnclavePages) + ")", count(EnclavePages)},
		{"sum by (runtime) (" + l.rate(EnclaveEntries) + ")", count(EnclaveEntries)},
		{"sum by (runtime) (" + l.rate(EnclaveExits) + ")", count(EnclaveExits)},
		{"sum by (runtime) (" + l.rate(EnclaveAsyncExits) + ")", count(EnclaveAsyncExits)},
		{"sum by (mode, call) (" + l.rate(ProcessBounceTime) + ")", count(ProcessBounceTime)},
		{"sum by (mode, call) (" + l.rate(ProcessBounceCalls) + ")", count(ProcessBounceCalls)},
		{l.eachOf(EnclaveFaultTime)(l.span), func(p metric.Point) { l.faultTime = exactly(p.Value) }},
		{l.unsteady(l.eachOf(EnclaveFaultTime)), func(p metric.Point) { l.faultTime = l.faultTime.within(p.Value) }},
		{l.unsteady(l.waiting), func(p metric.Point) { l.unrest[p.Labels["state"]] = p.Value }},
		{"avg by (clock) (" + l.mean("tee_sample_interval_seconds") + ")", func(p metric.Point) { l.tick[p.Labels["clock"]] = p.Value }},
		{"avg by (event, bound) (" + l.mean("tee_unit_cost_seconds") + ")", l.takeUnit},
		{"avg by (source) (" + l.mean("teescope_source_coverage_ratio") + ") < 0.999", func(p metric.Point) { l.coverage[p.Labels["source"]] = p.Value }},
		{"avg by (source) (" + l.mean("teescope_source_standard_error_ratio") + ")", func(p metric.Point) { l.deviation[p.Labels["source"]] = p.Value }},
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

// part is a query of a window and what takes each of its points.
type part struct {
	expr string
	take func(metric.Point)
}

// userSpace selects the page faults that are taken outside the kernel.
const userSpace = `space="user"`

// matchers writes name="value" pairs as PromQL does.
func matchers(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
	}
	return strings.Join(out, ",")
}

// rate is the query for the rates of the process's counters.
func (w *window) rate(name string, more ...string) string {
	return fmt.Sprintf("rate(%s{%s}[%s])", name, strings.Join(append([]string{w.process}, more...), ","), w.span)
}

// mean is the query for the means of the machine's gauges.
func (w *window) mean(name string) string {
	return fmt.Sprintf("avg_over_time(%s{%s}[%s])", name, w.machine, w.span)
}

// stealing is the query for the share of the machine's CPU time that its host took.
func (w *window) stealing() string {
	return fmt.Sprintf(`sum(rate(node_cpu_seconds_total{%s,mode="steal"}[%s])) / sum(rate(node_cpu_seconds_total{%s}[%s]))`,
		w.machine, w.span, w.machine, w.span)
}

// readings is the query for how many of the machine's readings there are in the window,
// beside what they would be if each minute had as many as the one with the most.
func (w *window) readings() string {
	up := "teescope_source_up{" + w.machine + "}"
	return fmt.Sprintf("max(count_over_time(%s[%s])) / (max(max_over_time(count_over_time(%s[1m])[%s:30s]) >= 2) * %g)", up, w.span, up, w.span, w.seconds/60)
}

// unsteady is the query for half of the 95 % interval of a rate or mean, relative to it,
// by the spread between parts of the window.
func (w *window) unsteady(over func(span string) string) string {
	part := max(10, math.Ceil(w.seconds/20))
	n := math.Floor(w.seconds / part)
	if n < 2 {
		return "vector(0) > 0" // nothing
	}
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	parts := fmt.Sprintf("(%s)[%gs:%gs]", over(fmt.Sprintf("%gs", part)), n*part, part)
	return fmt.Sprintf("%g * stddev_over_time(%s) / avg_over_time(%s)", t/math.Sqrt(n-1), parts, parts)
}

// waiting is the query for time that threads wait. A walk over the threads finds many of
// them in the same state or none, so its samples say less than their number.
func (w *window) waiting(span string) string {
	return fmt.Sprintf("sum by (state) (rate(%s{%s}[%s]))", WaitSamples, w.process, span)
}

// eachOf is the query for the mean of a histogram of the machine.
func (w *window) eachOf(histogram string) func(span string) string {
	return func(span string) string {
		return fmt.Sprintf("sum(rate(%s_sum{%s}[%s])) / sum(rate(%s_count{%s}[%s]))", histogram, w.machine, span, histogram, w.machine, span)
	}
}

// machineRate is the query for the rates of the machine's counters.
func (w *window) machineRate(name string, more ...string) string {
	return fmt.Sprintf("rate(%s{%s}[%s])", name, strings.Join(append([]string{w.machine}, more...), ","), w.span)
}

// takeUnit keeps one number of a calibrated cost.
func (l *Ledger) takeUnit(p metric.Point) {
	a := l.units[p.Labels["event"]]
	switch p.Labels["bound"] {
	case "median":
		a.Value = p.Value
	case "low":
		a.Low = p.Value
	case "high":
		a.High = p.Value
	}
	l.units[p.Labels["event"]] = a
}

// waited is time that threads wait in a state, in threads.
func (w *window) waited(state string, v float64) Amount {
	a, half := w.sampled("wait", v), w.unrest[state]*v
	return Amount{v, min(a.Low, max(0, v-half)), max(a.High, v+half)}
}

// sampled is time of the process by a clock's samples, in cores or threads. Where
// its source saw a part of the time, each stands for more.
func (w *window) sampled(clock string, v float64) Amount {
	tick := w.tick[clock]
	if seen := w.coverage[sourceOf[clock]]; seen > 0 {
		tick /= seen
	}
	if tick <= 0 {
		return exactly(v) // how fine the clock is was not stored: Window says so
	}
	return counted(v*w.seconds/tick, tick/w.seconds)
}

// sourceOf names the source that has a clock.
var sourceOf = map[string]string{"cpu": "samples", "wait": "waits"}

// rated is a rate by the counters of a source, with its interval where the source
// saw a part of the time.
func (w *window) rated(source string, v float64) Amount {
	return around(v, min(v, z*w.deviation[source]*v), z*w.deviation[source]*v)
}
