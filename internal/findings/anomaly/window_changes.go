package anomaly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// Options of a comparison of two windows.
type Options struct {
	// Process limits the comparison to processes whose name matches this regular expression (RE2, unanchored); ""
	// selects everything.
	Process string
	// Machine limits it to the series of one machine; the zero value selects all.
	Machine query.Machine
	// Top is the number of changes to return; 0 is 100.
	Top int
}

const (
	// LeastWindow is the shortest window that can be compared: it holds some readings
	// at the default interval of 5 s.
	LeastWindow = time.Minute
	// LeastScore is the score of the smallest change that is listed.
	LeastScore = 3
	defaultTop = 100
)

// CompareWindows compares all series of two windows: counters by their rates, gauges by their values, histograms by the mean
// of their observations. It leaves recorded series out and sums series of single processors. At the context's
// deadline it returns the changes found so far, and Unable names the rest.
//
// The score is the difference of the medians in units of the spread within the windows, from the median absolute
// deviations of both. The spread is at least 5 % of the level, a thousandth of the sum over all series of a counter,
// and the square root of the number of events, so a cron job on a busy machine is not news.
//
// Processes that started or stopped between the windows come first. For each metric of the others it lists the largest
// change of each process, at most three; Alike counts the others. With Options.Process the limits are five and ten. The
// monitor's own series come last.
func CompareWindows(ctx context.Context, q query.RangeQuerier, before, after Window, o Options) (Changes, error) {
	out := Changes{Before: before, After: after, Changes: []Change{}, Unable: []string{}}
	for _, w := range []Window{before, after} {
		if w.length() < LeastWindow {
			return out, fmt.Errorf("window from %s to %s: want at least %s", w.From.UTC().Format(time.RFC3339), w.To.UTC().Format(time.RFC3339), metric.Length(LeastWindow.Seconds()))
		}
	}
	c := comparison{q: q, before: before, after: after}
	if o.Machine != (query.Machine{}) {
		c.machine = o.Machine.Matchers()
	}
	note, err := c.fit(ctx)
	if err != nil {
		return out, err
	}
	out.Before, out.After, out.Note = c.before, c.after, note
	c.matcher = c.machine
	if o.Process != "" {
		c.matcher = strings.TrimPrefix(fmt.Sprintf("%s,process=~%q", c.machine, ".*(?:"+o.Process+").*"), ",") // PromQL anchors
	}
	names, err := c.names(ctx)
	if err != nil {
		return out, err
	}
	var found []candidate
	few := 0
	for i, n := range names {
		r, err := c.metric(ctx, n)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Unable = append(out.Unable, fmt.Sprintf("%d of %d metrics, from %s on: the time limit was reached", len(names)-i, len(names), n.name))
			break
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if err != nil {
			out.Unable = append(out.Unable, err.Error())
		}
		out.Compared += r.compared
		few += r.few
		found = append(found, r.changes...)
	}
	if few > 0 {
		out.Unable = append(out.Unable, fmt.Sprintf("%d series with fewer than %d readings in a window, for example of short-lived processes", few, fewest))
	}
	of, err := c.lives(ctx)
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return out, err
	}
	out.Changes, err = c.rank(ctx, found, of, o)
	return out, err
}

// fit shortens the windows to the time that has readings, and says so. Windows that follow each other share that time in
// halves where the first would be too short. It fails where less than two of the shortest windows are left.
func (c *comparison) fit(ctx context.Context) (note string, err error) {
	first, err := c.firstReading(ctx)
	if err != nil || first.Sub(c.before.From) <= c.before.length()/12 {
		return "", err
	}
	clock := func(t time.Time) string { return t.UTC().Format(time.TimeOnly) + " UTC" }
	switch adjacent := !c.after.From.After(c.before.To.Add(time.Second)); {
	case c.before.To.Sub(first) >= LeastWindow:
		c.before.From = first
	case adjacent && c.after.To.Sub(first) >= 2*LeastWindow:
		middle := first.Add(c.after.To.Sub(first) / 2).Truncate(time.Second)
		c.before, c.after = Window{first, middle}, Window{middle, c.after.To}
	case adjacent:
		missing := max(time.Second, 2*LeastWindow-c.after.To.Sub(first))
		return "", fmt.Errorf("the first reading is from %s; changes need %s of readings: ask again in %s", clock(first), metric.Length((2 * LeastWindow).Seconds()), metric.Length(missing.Round(time.Second).Seconds()))
	default:
		return "", fmt.Errorf("no samples in the window before, from %s to %s: the first reading is from %s; choose a later window", clock(c.before.From), clock(c.before.To), clock(first))
	}
	return "The first reading is from " + clock(first) + ", so the windows are shorter than requested.", nil
}

// firstReading returns the time of the first reading of any series since the window before.
func (c *comparison) firstReading(ctx context.Context) (time.Time, error) {
	expr := "count({" + anyOf(c.machine) + "})"
	there, err := c.q.Query(ctx, expr, c.before.From)
	if err != nil || len(there) > 0 {
		return c.before.From, err
	}
	first := time.Time{}
	from, to := c.before.From, c.after.To
	for _, parts := range []time.Duration{60, 15} { // the second time within one part of the first
		step := max(time.Second, (to.Sub(from) / parts).Truncate(time.Second))
		found, err := c.q.QueryRange(ctx, expr, from, to, step)
		if err != nil {
			return first, err
		}
		if len(found) == 0 || len(found[0].At) == 0 {
			return first, fmt.Errorf("no samples from %s to %s; choose a later time", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
		}
		first = found[0].At[0]
		from, to = first.Add(-step), first
	}
	return first, nil
}

// anyOf selects all series that a matcher does. A selector of none is invalid.
func anyOf(matcher string) string { return strings.TrimPrefix(matcher+`,__name__=~".+"`, ",") }

func (w Window) length() time.Duration { return w.To.Sub(w.From) }

// comparison of two windows.
type comparison struct {
	q             query.RangeQuerier
	before, after Window
	machine       string // what selects the machine; "" for all
	matcher       string // what every series must match, with the process; "" for none
}

// name is a metric and the number of its series.
type name struct {
	name string
	form
	series int
}

// names lists the metrics that have series in one of the windows, sampled at twelve moments of each. It fails where a
// window has none, whatever the process: that nothing changed would be said of nothing.
func (c *comparison) names(ctx context.Context) ([]name, error) {
	series := map[string]int{}
	for i, w := range []Window{c.before, c.after} {
		step := w.length() / 12
		found, err := c.q.QueryRange(ctx, "count by (__name__) ({"+anyOf(c.matcher)+"})", w.From.Add(step), w.To, step)
		if err != nil {
			return nil, err
		}
		all := found
		if len(found) == 0 && c.matcher != c.machine {
			if all, err = c.q.QueryRange(ctx, "count({"+anyOf(c.machine)+"})", w.From.Add(step), w.To, step); err != nil {
				return nil, err
			}
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("no samples in the window %s, from %s to %s; choose another", [...]string{"before", "after"}[i], w.From.UTC().Format(time.RFC3339), w.To.UTC().Format(time.RFC3339))
		}
		for _, s := range found {
			n := s.Labels["__name__"]
			series[n] = max(series[n], int(slices.Max(s.Values)))
		}
	}
	var out []name
	for n, count := range series {
		if f, ok := formOf(n, series); ok {
			out = append(out, name{n, f, count})
		}
	}
	slices.SortFunc(out, func(a, b name) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// candidate is a change with the values used to rank, group and date it.
type candidate struct {
	Change
	family, owner string // the metric (a histogram's mean and count are one), and its owner
	sides         [2]metric.Series
	spread        float64
	over          time.Duration // the time over which rates are taken
}

// rank orders changes, keeps the first of each kind, and writes their sentences.
func (c *comparison) rank(ctx context.Context, all []candidate, of events, o Options) ([]Change, error) {
	own := func(x candidate) int {
		if strings.HasPrefix(x.family, "teescope_") {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(own(a), own(b)), cmp.Compare(b.Score, a.Score), cmp.Compare(b.fold(), a.fold()), strings.Compare(a.Series, b.Series))
	})
	machines := map[string]bool{}
	for _, x := range all {
		if i := x.Labels["instance"]; i != "" {
			machines[i] = true
		}
	}
	perOwner, perFamily := 1, 3
	if o.Process != "" {
		perOwner, perFamily = 5, 10
	}
	top := cmp.Or(o.Top, defaultTop)
	type key struct{ family, owner string }
	byOwner, byFamily, first := map[key]int{}, map[string]int{}, map[string]int{}
	out, came, err := c.startsAndStops(ctx, all, of, min(top, mostEvents), len(machines) > 1)
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, err
	}
	for _, x := range all {
		if i, ok := came[x.process()]; ok {
			if x.Metric != cpuOfProcess {
				out[i].Alike++ // that it has no values in the other window is no news
			}
			continue
		}
		k := key{x.family, x.Labels["instance"] + "/" + x.owner}
		if byOwner[k] == perOwner || byFamily[x.family] == perFamily || len(out) == top {
			if i, ok := first[x.family]; ok {
				out[i].Alike++
			}
			continue
		}
		if byFamily[x.family] == 0 {
			first[x.family] = len(out)
		}
		byOwner[k]++
		byFamily[x.family]++
		if gap := c.after.From.Sub(c.before.To); gap.Abs() <= x.over {
			x.Since = x.since()
		}
		x.Text = x.sentence(len(machines) > 1)
		out = append(out, x.Change)
	}
	return out, nil
}

// mostEvents is how many processes that started or stopped come first.
const mostEvents = 10

// cpuOfProcess is the metric that says that a process ran.
const cpuOfProcess = "tee_process_cpu_seconds_total"

// sourceOfLives is the source of the starts and of the CPU time of processes.
const sourceOfLives = "switches"

// events says which processes started or stopped between the windows.
type events map[string]event

// event is the start or the end of a process.
type event struct {
	name string        // "started" or "stopped"
	at   *time.Time    // nil where it is not known
	over time.Duration // how long the process lived in the window that has it
}

// lives returns the processes that started or stopped between the windows, on machines that were watched in both. A name
// whose processes come and go, such as a compiler's, lives all the time.
//
// The start of a process is read only once it has done something, so one that was idle has none, and one that wakes has
// an old one: only a start after the window before is one. The counters of a process go on after its end, but not after
// a restart of the monitor: only a process that is still counted, without a start, has stopped.
func (c *comparison) lives(ctx context.Context) (events, error) {
	values := func(function, series string, span time.Duration, to time.Time) (map[string]float64, map[string]bool, error) {
		points, err := c.q.Query(ctx, fmt.Sprintf("%s(%s{%s}[%s])", function, series, c.matcher, query.PromDuration(span.Truncate(time.Second))), to)
		out, machines := map[string]float64{}, map[string]bool{}
		for _, p := range points {
			out[processOf(p.Labels)], machines[machineOf(p.Labels)] = p.Value, true
		}
		return out, machines, err
	}
	before, watchedBefore, err := values("min_over_time", query.StartTime, c.before.length(), c.before.To)
	if err != nil {
		return nil, err
	}
	after, _, err := values("min_over_time", query.StartTime, c.after.length(), c.after.To)
	if err != nil {
		return nil, err
	}
	now, watchedNow, err := values("last_over_time", query.StartTime, c.after.length()/2, c.after.To)
	if err != nil {
		return nil, err
	}
	counted, _, err := values("last_over_time", cpuOfProcess, c.after.length()/2, c.after.To)
	if err != nil {
		return nil, err
	}
	up, err := c.q.Query(ctx, fmt.Sprintf("teescope_source_up{%s} == 1", strings.TrimPrefix(fmt.Sprintf("%s,source=%q", c.machine, sourceOfLives), ",")), c.after.To)
	if err != nil {
		return nil, err
	}
	works := map[string]bool{}
	for _, p := range up {
		works[machineOf(p.Labels)] = true
	}
	out := events{}
	for name := range now {
		first := time.UnixMilli(int64(after[name] * 1000))
		if _, known := before[name]; !known && watchedBefore[machineIn(name)] && !first.Before(c.before.To) {
			out[name] = event{"started", &first, c.after.To.Sub(later(first, c.after.From))}
		}
	}
	for name, started := range before {
		_, goesOn := now[name]
		_, isCounted := counted[name]
		if machine := machineIn(name); !goesOn && isCounted && watchedNow[machine] && works[machine] {
			first := time.UnixMilli(int64(started * 1000))
			out[name] = event{"stopped", nil, c.before.To.Sub(later(first, c.before.From))}
		}
	}
	return out, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

const (
	// leastUsed is the mean CPU time of a life in its window, in cores, below which its start or end is not listed;
	// leastCPU is the least in seconds: a command that a shell runs is no news.
	leastUsed, leastCPU = 0.02, 1.0
)

// startsAndStops returns the processes that started or stopped, those that used the most CPU time first, and their places in
// the list. What a process uses is its mean over its life in the window: the rest of the window says nothing about it.
func (c *comparison) startsAndStops(ctx context.Context, all []candidate, of events, most int, machine bool) (out []Change, at map[string]int, err error) {
	out, at = []Change{}, map[string]int{}
	type use struct {
		metric.Point         // CPU time in the window, in seconds
		cores        float64 // over the life
	}
	used := map[string]use{}
	for i, w := range []Window{c.before, c.after} {
		points, err := c.q.Query(ctx, fmt.Sprintf("increase(%s{%s}[%s]) >= %g", cpuOfProcess, c.matcher, query.PromDuration(w.length().Truncate(time.Second)), leastCPU), w.To)
		if err != nil {
			return out, at, err
		}
		for _, p := range points {
			name := processOf(p.Labels)
			e, ok := of[name]
			if !ok || (e.name == "started") != (i == 1) {
				continue
			}
			if cores := p.Value / max(e.over, time.Second).Seconds(); cores >= leastUsed {
				used[name] = use{p, cores}
			}
		}
	}
	came := slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(cmp.Compare(used[b].Value, used[a].Value), strings.Compare(a, b))
	})
	for _, name := range came[:min(most, len(came))] {
		e, p := of[name], used[name]
		selector := query.Selector(cpuOfProcess, withoutName(p.Labels))
		x := Change{Series: selector, Metric: cpuOfProcess, Labels: p.Labels, Expr: query.Rate(selector, "1m"), Unit: "cores", Score: p.cores / leastUsed * LeastScore, Event: e.name, Since: e.at}
		if i := slices.IndexFunc(all, func(x candidate) bool { return x.Metric == cpuOfProcess && x.process() == name }); i >= 0 && e.at == nil {
			x.Since = all[i].since()
		}
		who := p.Labels["process"]
		if machine && p.Labels["instance"] != "" {
			who = findings.QualifiedSubject(who, p.Labels["instance"])
		}
		verb := "uses"
		if x.After = &p.cores; e.name == "stopped" {
			verb, x.Before, x.After = "used", x.After, nil
		}
		x.Text = fmt.Sprintf("%s %s: it %s %s", who, e.name, verb, metric.Value(p.cores, x.Unit))
		at[name] = len(out)
		out = append(out, x)
	}
	return out, at, nil
}

// withoutName returns the labels without the metric's name.
func withoutName(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, "__name__")
	return out
}

// process identifies the process of a series among those of all machines.
func (x candidate) process() string { return processOf(x.Labels) }

func processOf(labels map[string]string) string {
	return machineOf(labels) + "\x00" + labels["process"]
}

// machineOf identifies the machine of a series.
func machineOf(labels map[string]string) string { return labels["job"] + "\x00" + labels["instance"] }

// machineIn returns the machine of a process.
func machineIn(process string) string { return process[:strings.LastIndexByte(process, 0)] }

// fold is the size of the ratio in either direction, as a logarithm.
func (c *Change) fold() float64 {
	if c.Ratio == nil || *c.Ratio <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(*c.Ratio))
}
