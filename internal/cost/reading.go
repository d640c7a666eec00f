package cost

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/metric"
)

// doing is what a sample saw: the mode and call of a thread on a CPU, or the state
// and call of one that is not.
type doing struct{ mode, call string }

// reading is what the store holds of a process and window. Rates are per second.
type reading struct {
	seconds float64
	window  string // as PromQL writes it
	process string // matchers of the process and its machine
	machine string // matchers of the machine

	cpu, waits map[doing]float64  // cores, and threads that wait
	tick       map[string]float64 // seconds that a sample stands for, by clock
	unrest     map[string]float64 // half of an interval of waiting, relative to it, by state
	calls      map[string]float64
	faults     map[string]float64 // taken outside the kernel, by cause
	units      map[string]Amount
	coverage   map[string]float64 // by source, of those that saw a part
	deviation  map[string]float64 // standard error of their counts as a ratio, by source

	// NaN where it is not known.
	scheduled, switches, handshakes, requests, stolen, present float64
}

// read queries everything about the process; the first error ends it.
func read(ctx context.Context, db analysis.Querier, q Question) (*reading, error) {
	window := q.To.Sub(q.From)
	r := &reading{
		seconds: window.Seconds(), window: analysis.PromDuration(window),
		process: matchers("process", q.Process, "instance", q.Instance),
		machine: matchers("instance", q.Instance),
		cpu:     map[doing]float64{}, waits: map[doing]float64{}, tick: map[string]float64{},
		unrest: map[string]float64{}, calls: map[string]float64{}, faults: map[string]float64{}, units: map[string]Amount{},
		coverage: map[string]float64{}, deviation: map[string]float64{},
	}
	for _, part := range []struct {
		expr string
		take func(metric.Point)
	}{
		{"sum by (mode, call) (" + r.rate(cpuSamples) + ")", func(p metric.Point) { r.cpu[doing{p.Labels["mode"], p.Labels["call"]}] = p.Value }},
		{"sum by (state, call) (" + r.rate(waitSamples) + ")", func(p metric.Point) { r.waits[doing{p.Labels["state"], p.Labels["call"]}] = p.Value }},
		{r.unsteady(), func(p metric.Point) { r.unrest[p.Labels["state"]] = p.Value }},
		{"avg by (clock) (" + r.mean("tee_sample_interval_seconds") + ")", func(p metric.Point) { r.tick[p.Labels["clock"]] = p.Value }},
		{"sum by (syscall) (" + r.rate(callCount) + ")", func(p metric.Point) { r.calls[p.Labels["syscall"]] = p.Value }},
		{"sum by (cause) (" + r.rate(faultCount, `space="user"`) + ")", func(p metric.Point) { r.faults[p.Labels["cause"]] = p.Value }},
		{"avg by (event, bound) (" + r.mean("tee_unit_cost_seconds") + ")", r.takeUnit},
		{"avg by (source) (" + r.mean("teescope_source_coverage_ratio") + ") < 0.999", func(p metric.Point) { r.coverage[p.Labels["source"]] = p.Value }},
		{"avg by (source) (" + r.mean("teescope_source_standard_error_ratio") + ")", func(p metric.Point) { r.deviation[p.Labels["source"]] = p.Value }},
	} {
		points, err := db.Query(ctx, part.expr, q.To)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			part.take(p)
		}
	}
	for _, one := range []struct {
		expr string
		to   *float64
	}{
		{"sum(" + r.rate(cpuAccount) + ")", &r.scheduled},
		{"sum(" + r.rate(switchCount) + ")", &r.switches},
		{"sum(" + r.rate(handshakeCount) + ")", &r.handshakes},
		{"sum(" + r.rate(requestCount) + ")", &r.requests},
		{r.stealing(), &r.stolen},
		{r.readings(), &r.present},
	} {
		points, err := db.Query(ctx, one.expr, q.To)
		if err != nil {
			return nil, err
		}
		*one.to = math.NaN()
		if len(points) == 1 {
			*one.to = points[0].Value
		}
	}
	return r, nil
}

// The counters that become rows.
const (
	cpuSamples     = "tee_sampled_cpu_seconds_total"
	waitSamples    = "tee_sampled_wait_seconds_total"
	callCount      = "tee_syscalls_total"
	faultCount     = "tee_page_faults_total"
	cpuAccount     = "tee_process_cpu_seconds_total"
	switchCount    = "tee_context_switches_total"
	handshakeCount = "tee_tls_handshakes_total"
	requestCount   = "tee_requests_total"
)

// matchers writes name="value" pairs as PromQL does.
func matchers(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
	}
	return strings.Join(out, ",")
}

// rate is the query for the rates of the process's counters.
func (r *reading) rate(name string, more ...string) string {
	return fmt.Sprintf("rate(%s{%s}[%s])", name, strings.Join(append([]string{r.process}, more...), ","), r.window)
}

// mean is the query for the means of the machine's gauges.
func (r *reading) mean(name string) string {
	return fmt.Sprintf("avg_over_time(%s{%s}[%s])", name, r.machine, r.window)
}

// stealing is the query for the share of the machine's CPU time that its host took.
func (r *reading) stealing() string {
	return fmt.Sprintf(`sum(rate(node_cpu_seconds_total{%s,mode="steal"}[%s])) / sum(rate(node_cpu_seconds_total{%s}[%s]))`,
		r.machine, r.window, r.machine, r.window)
}

// readings is the query for how many of the machine's readings there are in the window,
// beside what they would be if each minute had as many as the one with the most.
func (r *reading) readings() string {
	up := "teescope_source_up{" + r.machine + "}"
	return fmt.Sprintf("max(count_over_time(%s[%s])) / (max(max_over_time(count_over_time(%s[1m])[%s:30s]) >= 2) * %g)", up, r.window, up, r.window, r.seconds/60)
}

// unsteady is the query for half of the 95 % interval of waiting, relative to it, by
// the spread between parts of the window. A walk over the threads finds many of
// them in the same state or none, so that its samples say less than their number.
func (r *reading) unsteady() string {
	part := max(10, math.Ceil(r.seconds/20))
	n := math.Floor(r.seconds / part)
	if n < 2 {
		return "vector(0) > 0" // nothing
	}
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	rates := fmt.Sprintf("sum by (state) (rate(%s{%s}[%gs]))[%gs:%gs]", waitSamples, r.process, part, n*part, part)
	return fmt.Sprintf("%g * stddev_over_time(%s) / avg_over_time(%s)", t/math.Sqrt(n-1), rates, rates)
}

// takeUnit keeps one number of a calibrated cost.
func (r *reading) takeUnit(p metric.Point) {
	a := r.units[p.Labels["event"]]
	switch p.Labels["bound"] {
	case "median":
		a.Value = p.Value
	case "low":
		a.Low = p.Value
	case "high":
		a.High = p.Value
	}
	r.units[p.Labels["event"]] = a
}

// unit is a calibrated cost; one without all its numbers is not known.
func (r *reading) unit(event string) (Amount, bool) {
	a := r.units[event]
	return a, 0 < a.Low && a.Low <= a.Value && a.Value <= a.High
}

// waited is time that threads wait in a state, in threads.
func (r *reading) waited(state string, v float64) Amount {
	a, half := r.sampled("wait", v), r.unrest[state]*v
	return Amount{v, min(a.Low, max(0, v-half)), max(a.High, v+half)}
}

// sampled is time of the process by a clock's samples, in cores or threads. Where
// its source saw a part of the time, each stands for more.
func (r *reading) sampled(clock string, v float64) Amount {
	tick := r.tick[clock]
	if seen := r.coverage[sourceOf[clock]]; seen > 0 {
		tick /= seen
	}
	if tick <= 0 {
		return exactly(v) // how fine the clock is was not stored: Explain says so
	}
	return counted(v*r.seconds/tick, tick/r.seconds)
}

// sourceOf names the source that has a clock.
var sourceOf = map[string]string{"cpu": "samples", "wait": "waits"}

// rated is a rate by the counters of a source, with its interval where the source
// saw a part of the time.
func (r *reading) rated(source string, v float64) Amount {
	return around(v, min(v, z*r.deviation[source]*v), z*r.deviation[source]*v)
}

// total is the number of cores, or of threads, in samples that match.
func total(samples map[doing]float64, match func(doing) bool) (s float64) {
	for d, v := range samples {
		if match(d) {
			s += v
		}
	}
	return s
}
