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
)

// Options of a comparison of two windows.
type Options struct {
	// Process limits the comparison to processes whose name matches this regular expression (RE2, unanchored); ""
	// selects everything.
	Process string
	// Machine limits it to the series of one machine; the zero value selects all.
	Machine findings.Machine
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

// Between compares all series of two windows: counters by their rates, gauges by their values, histograms by the mean
// of their observations. It leaves recorded series out and sums series of single processors. At the context's
// deadline it returns the changes found so far, and Unable names the rest.
//
// The score is the difference of the medians in units of the spread within the windows, from the median absolute
// deviations of both. The spread is at least 5 % of the level, a thousandth of the sum over all series of a counter,
// and the square root of the number of events, so a cron job on a busy machine is not news.
//
// Processes that ran in one window only come first, as started or stopped. For each metric of the others it lists the largest change of each process, at most three; Alike counts the others. With
// Options.Process the limits are five and ten. The monitor's own series come last.
func Between(ctx context.Context, q findings.RangeQuerier, before, after Window, o Options) (Changes, error) {
	out := Changes{Before: before, After: after, Changes: []Change{}, Unable: []string{}}
	for _, w := range []Window{before, after} {
		if w.length() < LeastWindow {
			return out, fmt.Errorf("window from %s to %s: want at least %s", w.From.UTC().Format(time.RFC3339), w.To.UTC().Format(time.RFC3339), LeastWindow)
		}
	}
	c := comparison{q: q, before: before, after: after}
	var matchers []string
	if o.Machine != (findings.Machine{}) {
		matchers = append(matchers, o.Machine.Matchers())
	}
	note, err := c.fit(ctx, strings.Join(matchers, ","))
	if err != nil {
		return out, err
	}
	out.Before, out.After, out.Note = c.before, c.after, note
	if o.Process != "" {
		matchers = append(matchers, fmt.Sprintf("process=~%q", ".*(?:"+o.Process+").*")) // PromQL anchors
	}
	c.matcher = strings.Join(matchers, ",")
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

// fit shortens the windows to the time that has readings, and says so. Windows that follow each other share that time in halves
// where the first would be too short. It fails where less than two of the shortest windows are left.
func (c *comparison) fit(ctx context.Context, matcher string) (note string, err error) {
	first, err := c.firstReading(ctx, matcher)
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
		return "", fmt.Errorf("the first reading is of %s; changes need %s of readings: ask again in %s", clock(first), 2*LeastWindow, (2*LeastWindow - c.after.To.Sub(first)).Round(time.Second))
	default:
		return "", fmt.Errorf("no samples in the window before, from %s to %s: the first reading is of %s; choose a later one", clock(c.before.From), clock(c.before.To), clock(first))
	}
	return "The first reading is of " + clock(first) + ", so the windows are shorter than asked for.", nil
}

// firstReading returns the time of the first reading of any series since the window before.
func (c *comparison) firstReading(ctx context.Context, matcher string) (time.Time, error) {
	expr := "count({" + strings.TrimPrefix(matcher+`,__name__=~".+"`, ",") + "})"
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

func (w Window) length() time.Duration { return w.To.Sub(w.From) }

// comparison of two windows.
type comparison struct {
	q             findings.RangeQuerier
	before, after Window
	matcher       string // matches every series must have; "" for none
}

// name is a metric and the number of its series.
type name struct {
	name string
	form
	series int
}

// names lists the metrics that have series in one of the windows, sampled at twelve moments of each.
func (c *comparison) names(ctx context.Context) ([]name, error) {
	series := map[string]int{}
	for _, w := range []Window{c.before, c.after} {
		step := w.length() / 12
		expr := "count by (__name__) ({" + strings.TrimPrefix(c.matcher+`,__name__=~".+"`, ",") + "})"
		found, err := c.q.QueryRange(ctx, expr, w.From.Add(step), w.To, step)
		if err != nil {
			return nil, err
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
	out, came, err := c.happened(ctx, all, of, min(top, mostEvents), len(machines) > 1)
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

// startTimes is the metric that each reading has of each process that lives.
const startTimes = "tee_process_start_time_seconds"

// events says which processes started or stopped between the windows, and when, where that is known.
type events map[string]event

// event is the start or the end of a process.
type event struct {
	name string // "started" or "stopped"
	at   *time.Time
}

// lives returns the processes that lived in one window only. Counters go on after the end of a process, so only its life tells;
// a name whose processes come and go, such as a compiler's, lives all the time.
func (c *comparison) lives(ctx context.Context) (events, error) {
	present := func(span time.Duration, to time.Time) (map[string]float64, error) {
		points, err := c.q.Query(ctx, fmt.Sprintf("last_over_time(%s{%s}[%s])", startTimes, c.matcher, findings.PromDuration(span.Truncate(time.Second))), to)
		out := map[string]float64{}
		for _, p := range points {
			out[processOf(p.Labels)] = p.Value
		}
		return out, err
	}
	before, err := present(c.before.length(), c.before.To)
	if err != nil {
		return nil, err
	}
	now, err := present(c.after.length()/2, c.after.To)
	if err != nil || len(before) == 0 || len(now) == 0 {
		return nil, err // a store without lives
	}
	out := events{}
	for name, started := range now {
		if _, known := before[name]; !known {
			at := time.UnixMilli(int64(started * 1000))
			out[name] = event{"started", &at}
		}
	}
	for name := range before {
		if _, goesOn := now[name]; !goesOn {
			out[name] = event{name: "stopped"}
		}
	}
	return out, nil
}

// leastUsed is the CPU time, in cores over its window, below which the start or the end of a process is not listed.
const leastUsed = 0.02

// happened returns the processes that started or stopped, those that used the most CPU time first, and their places in the list.
func (c *comparison) happened(ctx context.Context, all []candidate, of events, most int, machine bool) (out []Change, at map[string]int, err error) {
	out, at = []Change{}, map[string]int{}
	var cores [2]map[string]metric.Point
	for i, w := range []Window{c.before, c.after} {
		points, err := c.q.Query(ctx, fmt.Sprintf("rate(%s{%s}[%s]) >= %g", cpuOfProcess, c.matcher, findings.PromDuration(w.length().Truncate(time.Second)), leastUsed), w.To)
		if err != nil {
			return out, at, err
		}
		cores[i] = map[string]metric.Point{}
		for _, p := range points {
			cores[i][processOf(p.Labels)] = p
		}
	}
	side := map[string]int{"stopped": 0, "started": 1}
	var came []string
	for name, e := range of {
		if _, ok := cores[side[e.name]][name]; ok {
			came = append(came, name)
		}
	}
	used := func(name string) metric.Point { return cores[side[of[name].name]][name] }
	slices.SortFunc(came, func(a, b string) int {
		return cmp.Or(cmp.Compare(used(b).Value, used(a).Value), strings.Compare(a, b))
	})
	for _, name := range came[:min(most, len(came))] {
		e, p := of[name], used(name)
		selector := findings.Selector(cpuOfProcess, withoutName(p.Labels))
		x := Change{Series: selector, Metric: cpuOfProcess, Labels: p.Labels, Expr: "rate(" + selector + "[1m])", Unit: "cores", Score: p.Value / leastUsed * LeastScore, Event: e.name, Since: e.at}
		if i := slices.IndexFunc(all, func(x candidate) bool { return x.Metric == cpuOfProcess && x.process() == name }); i >= 0 && e.at == nil {
			x.Since = all[i].since()
		}
		who := p.Labels["process"]
		if machine && p.Labels["instance"] != "" {
			who = findings.On(who, p.Labels["instance"])
		}
		verb := "uses"
		if x.After = &p.Value; e.name == "stopped" {
			verb, x.Before, x.After = "used", x.After, nil
		}
		x.Text = fmt.Sprintf("%s %s: it %s %s", who, e.name, verb, metric.Value(p.Value, x.Unit))
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
	return labels["job"] + "\x00" + labels["instance"] + "\x00" + labels["process"]
}

// fold is the size of the ratio in either direction, as a logarithm.
func (c *Change) fold() float64 {
	if c.Ratio == nil || *c.Ratio <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(*c.Ratio))
}
