//go:build linux

// Package counting counts the events of a benchmark's runs: on this machine, and inside environments with a kernel of their
// own.
package counting

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// Counters reads the monitor's sources before and after a run and keeps the
// differences.
type Counters struct {
	host   *host.Host
	engine *probe.Engine
	names  map[string]bool // of processes that ran before
	// never are the counters of what cannot happen here.
	never []*metric.Desc
	// missing says why counters are absent, by name.
	missing map[string]string
	// span is locked for Window, which is called during a run.
	span locked.Value[runSpan]
}

// runSpan is where a run and its counted window begin and end.
type runSpan struct {
	// begun is the start of the run; from and to are the ends of the counted window,
	// by default those of the run.
	begun, from reading
	to          *reading
}

// reading is one round of counters, by metric and labels.
type reading struct {
	series   map[string]metric.Sample
	coverage map[*metric.Desc]float64
	ran      map[*metric.Desc]bool // counted by a source that sees all its events, or knows which share
}

// Open attaches the sources that count events, on a machine where these TEEs were found. The other sources describe the
// machine, and a result has its own description. Left off are those that would slow the arms
// that have such events, and no others.
func Open(h *host.Host, found []tee.Detection) *Counters {
	var counting []*probe.Source
	missing := map[string]string{}
	enclaves := slices.ContainsFunc(found, func(d tee.Detection) bool { return d.Kind.Name == "sgx" && d.State == tee.Here })
	for _, s := range sources.All {
		events := slices.ContainsFunc(s.Metrics, eventCounter)
		switch slow := sources.Slows(s); {
		case slow != "" && enclaves:
			for _, d := range s.Metrics {
				if eventCounter(d) {
					missing[d.Name] = "the source " + s.Name + " is off in benchmarks: " + slow
				}
			}
		case slow == "" && (events || s.Name == "self"):
			counting = append(counting, s)
		}
	}
	engine := probe.New(h, tee.Found(found), counting, nil)
	for _, s := range counting {
		if s.Waits != nil {
			_ = engine.Set(s.Name, probe.Setting{On: new(true)}) // it has no other setting to refuse
		}
	}
	_ = engine.Start(func(*probe.Source) bool { return true })
	return &Counters{host: h, engine: engine, never: sources.Impossible(h, found), missing: missing}
}

// eventCounter reports whether d counts events.
func eventCounter(d *metric.Desc) bool {
	return d.Kind == metric.Counter && strings.HasPrefix(d.Name, "tee_")
}

// Close detaches the sources.
func (c *Counters) Close() error { return c.engine.Close() }

// Begin implements bench.Counters.
func (c *Counters) Begin(ctx context.Context) error {
	c.names = map[string]bool{}
	comms, err := c.host.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	for _, f := range comms {
		if name, err := c.host.ReadString(f); err == nil { // else it has ended
			c.names[name] = true
		}
	}
	span := c.span.Lock()
	defer c.span.Unlock()
	span.begun, span.to = c.read(ctx), nil
	span.from = span.begun
	return nil
}

// Window implements bench.Counters.
func (c *Counters) Window(ctx context.Context, begins bool) {
	span := c.span.Lock()
	defer c.span.Unlock()
	now := c.read(ctx)
	if begins {
		span.from = now
	} else {
		span.to = &now
	}
}

func (c *Counters) read(ctx context.Context) reading {
	_, samples := c.engine.Collect(ctx)
	timed := slices.Collect(maps.Values(explain.Timed))
	r := reading{map[string]metric.Sample{}, map[*metric.Desc]float64{}, map[*metric.Desc]bool{}}
	for _, s := range samples {
		if s.Hist == nil {
			r.series[seriesKey(s)] = s
		} else if slices.Contains(timed, s.Desc.Name) {
			for _, part := range partsOf(s) {
				r.series[seriesKey(part)] = part
			}
		}
	}
	for _, st := range c.engine.Status() {
		// A source that waits sees only some of the programs that it could count, or knows them by other names.
		up := (st.State == probe.Available || st.State == probe.Degraded) && !st.Blind && st.Coverage != nil && st.Source.Waits == nil
		for _, d := range st.Source.Metrics {
			r.ran[d] = r.ran[d] || up
			if st.Coverage != nil {
				r.coverage[d] = *st.Coverage
			}
		}
	}
	return r
}

// partsOf are the sum and the number of a histogram as counters.
func partsOf(s metric.Sample) []metric.Sample {
	part := func(name string, v float64) metric.Sample {
		return metric.Sample{Desc: &metric.Desc{Name: s.Desc.Name + name, Kind: metric.Counter, Labels: s.Desc.Labels}, Labels: s.Labels, Value: v}
	}
	n := uint64(0)
	for _, c := range s.Hist.Counts {
		n += c
	}
	return []metric.Sample{part("_sum", s.Hist.Sum), part("_count", float64(n))}
}

func seriesKey(s metric.Sample) string {
	return s.Desc.Name + "\x00" + strings.Join(s.Labels, "\x00")
}

// Finish implements bench.Counters.
func (c *Counters) Finish(ctx context.Context, processes []string) (bench.Counted, error) {
	span := c.span.Lock()
	defer c.span.Unlock()
	end := c.read(ctx)
	now := end
	if span.to != nil {
		now = *span.to
	}
	shared := ""
	for _, p := range processes {
		if c.names[p] {
			shared = "another process named " + p + " was already running; the counts include its events"
		}
	}
	var out []result.Counter
	totals := map[*metric.Desc]float64{}
	for d := range now.ran {
		if eventCounter(d) && span.counted(d, now) {
			totals[d] = 0 // unless there is more
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now.series)) {
		s := now.series[key]
		delta := s.Value - span.from.series[key].Value
		if !eventCounter(s.Desc) {
			continue
		}
		i := slices.Index(s.Desc.Labels, "process")
		if i >= 0 && !slices.Contains(processes, s.Labels[i]) {
			continue
		}
		if i >= 0 && delta != 0 {
			totals[s.Desc] += delta
		}
		if delta != 0 || i < 0 {
			out = append(out, c.counter(s, delta, i >= 0, now, shared))
		}
	}
	for _, d := range slices.SortedFunc(maps.Keys(totals), func(a, b *metric.Desc) int { return strings.Compare(a.Name, b.Name) }) {
		out = append(out, c.counter(metric.Sample{Desc: d}, totals[d], true, now, shared))
	}
	var never []result.Counter
	for _, d := range c.never {
		never = append(never, c.counter(metric.Sample{Desc: d}, 0, false, now, ""))
	}
	return bench.Counted{Counters: out, Never: never, Missing: c.uncounted(out), Host: c.hostWide(span, now), CPU: span.cpu(end, processes), Cost: span.cost(end)}, nil
}

// uncounted says why counters of enclaves are not among those of a run, on a machine that can have them.
func (c *Counters) uncounted(have []result.Counter) map[string]string {
	missing := maps.Clone(c.missing)
	for _, st := range c.engine.Status() {
		if st.Source.Waits == nil || len(c.missing) == 0 {
			continue
		}
		for _, d := range st.Source.Metrics {
			if eventCounter(d) {
				missing[d.Name] = cmp.Or(missing[d.Name], "source "+st.Source.Name+": "+cmp.Or(st.Reason, "it counted no new events of a process with this name"))
			}
		}
	}
	for _, k := range have {
		delete(missing, k.Name)
	}
	return missing
}

// counted reports whether events by process were counted from the beginning of the window
// to its end, so that none was seen where there is no series.
func (s *runSpan) counted(d *metric.Desc, now reading) bool {
	return slices.Contains(d.Labels, "process") && !sources.WhenNarrowed(d) && s.from.ran[d] && now.ran[d]
}

// processCPU is the counter of CPU time by process.
const processCPU = "tee_process_cpu_seconds_total"

// cpu is the CPU time in seconds of processes in the whole run.
func (s *runSpan) cpu(end reading, processes []string) *float64 {
	return s.sum(end, func(x metric.Sample) bool {
		return x.Desc.Name == processCPU && slices.Contains(processes, x.Labels[slices.Index(x.Desc.Labels, "process")])
	})
}

// cost is the CPU time in seconds that counting used in the kernel during the whole
// run.
func (s *runSpan) cost(end reading) *float64 {
	return s.sum(end, func(x metric.Sample) bool {
		key := seriesKey(x)
		_, known := s.begun.series[key]
		return known && x.Desc.Name == "teescope_overhead_cpu_seconds_total" && (x.Labels[0] == "body" || x.Labels[0] == "dispatch")
	})
}

// sum adds up the growth of the chosen series over the whole run; nil without any.
func (s *runSpan) sum(end reading, of func(metric.Sample) bool) *float64 {
	var total *float64
	for _, key := range slices.Sorted(maps.Keys(end.series)) {
		if x := end.series[key]; of(x) {
			v := x.Value - s.begun.series[key].Value
			if total != nil {
				v += *total
			}
			total = &v
		}
	}
	return total
}

// counter is one series, or without labels the sum over the workload's processes.
func (c *Counters) counter(s metric.Sample, delta float64, process bool, now reading, shared string) result.Counter {
	k := result.Counter{Name: s.Desc.Name, Labels: map[string]string{}, Value: &delta, Scope: "machine", Trust: result.Partial,
		Note: "counted for the whole machine"}
	for i, v := range s.Labels {
		k.Labels[s.Desc.Labels[i]] = v
	}
	if !process {
		return k
	}
	k.Scope, k.Note = "process", ""
	switch cov, ok := now.coverage[s.Desc]; {
	case !ok:
		k.Note = "the share of missed events is unknown"
	case cov < 1:
		k.Note = "some events were missed: coverage " + metric.Percent(cov)
	case shared != "":
		k.Scope, k.Note = "machine", shared
	default:
		k.Trust = result.Full
	}
	if s.Trust == metric.Estimated {
		k.Trust, k.Note = result.Partial, "estimated from counting part of the time"
	}
	return k
}

// Reason returns why no source counts by process, "" if one does.
func (c *Counters) Reason() string {
	why := ""
	for _, st := range c.engine.Status() {
		if st.Source.Waits != nil || !slices.ContainsFunc(st.Source.Metrics, func(d *metric.Desc) bool { return slices.Contains(d.Labels, "process") }) {
			continue
		}
		if st.State == probe.Available || st.State == probe.Degraded {
			return ""
		}
		why = "source " + st.Source.Name + " is " + string(st.State) + ": " + st.Reason
	}
	return why
}
