package anomaly

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/stats"
)

const (
	// perSide is the largest number of moments at which a series is read in a window; fewest is the smallest that can
	// be compared.
	perSide, fewest = 60, 5
	// maxValues limits the values of one query, 16 bytes each: a metric with many series is read
	// at fewer moments.
	maxValues = 600_000
	// The least spread, as a share of the level and of all series of a counter.
	ofLevel, ofMetric = 0.05, 0.001
)

// compared is the outcome for one metric.
type compared struct {
	changes       []candidate
	compared, few int // numbers of series; few counts those with too few readings
}

// metric compares the series of one metric.
func (c *comparison) metric(ctx context.Context, n name) (out compared, err error) {
	interval, err := c.interval(ctx, n.name)
	if err != nil || interval == 0 {
		return out, err
	}
	moments := min(perSide, maxValues/max(1, n.series))
	if moments < 2*fewest {
		return out, fmt.Errorf("%s: %d series are too many to compare; choose a process", n.name, n.series)
	}
	// Rates are taken over the same time on both sides, which holds a few readings; in a window of a minute only two, or it
	// would hold less than the fewest rates.
	shorter := min(c.before.length(), c.after.length())
	over := max(2*interval, min(3*interval, shorter/(fewest+1)), shorter/30).Round(time.Second)
	var sides [2]map[string]metric.Series
	for i, w := range []Window{c.before, c.after} {
		step := max(over, w.length()/time.Duration(moments)).Round(time.Second)
		series, err := c.q.QueryRange(ctx, n.expr(n.name, c.matcher, over), w.From.Add(over), w.To, step)
		if err != nil {
			return out, err
		}
		sides[i] = map[string]metric.Series{}
		for _, s := range series {
			sides[i][query.Selector(n.name, s.Labels)] = finite(s)
		}
	}
	return judge(n, over, sides), nil
}

// interval returns the time between two readings of a metric, the shortest of its series; 0 if no series has two.
func (c *comparison) interval(ctx context.Context, metric string) (time.Duration, error) {
	shortest := time.Duration(0)
	for _, w := range []Window{c.after, c.before} {
		// Ten minutes are enough, and reading an hour of all series is slow.
		span := min(w.length(), 10*time.Minute).Truncate(time.Second)
		points, err := c.q.Query(ctx, fmt.Sprintf("max(count_over_time(%s{%s}[%s]))", metric, c.matcher, query.PromDuration(span)), w.To)
		if err != nil {
			return 0, err
		}
		if len(points) == 1 && points[0].Value >= 2 {
			if d := time.Duration(float64(span) / points[0].Value); shortest == 0 || d < shortest {
				shortest = d
			}
		}
	}
	return shortest, nil
}

// finite leaves out infinite values: they are not levels.
func finite(s metric.Series) metric.Series {
	if !slices.ContainsFunc(s.Values, func(v float64) bool { return math.IsInf(v, 0) }) {
		return s
	}
	out := metric.Series{Labels: s.Labels}
	for i, v := range s.Values {
		if !math.IsInf(v, 0) {
			out.At, out.Values = append(out.At, s.At[i]), append(out.Values, v)
		}
	}
	return out
}

// duel is one series in both windows.
type duel struct {
	form
	selector string
	sides    [2]metric.Series
	medians  [2]float64 // 0 for a counter without values: it had no events
}

// judge compares the series of one metric, keyed by their selectors.
func judge(n name, over time.Duration, sides [2]map[string]metric.Series) (out compared) {
	selectors := map[string]bool{}
	for _, side := range sides {
		for s := range side {
			selectors[s] = true
		}
	}
	var duels []duel
	total := 0.0
	for _, selector := range slices.Sorted(maps.Keys(selectors)) {
		d := duel{form: n.form, selector: selector, sides: [2]metric.Series{sides[0][selector], sides[1][selector]}}
		if d.kind == level && grows(d.sides) {
			d.form = form{rate, rateUnit(n.name)}
			d.sides = [2]metric.Series{slope(d.sides[0]), slope(d.sides[1])}
		}
		if !d.comparable() {
			out.few++
			continue
		}
		out.compared++
		for i, s := range d.sides {
			if len(s.Values) > 0 {
				d.medians[i] = stats.Median(s.Values)
			}
		}
		total += max(d.medians[0], d.medians[1])
		duels = append(duels, d)
	}
	for _, d := range duels {
		share := total
		if d.kind != rate {
			share = 0 // levels of different things have no sum
		}
		if x, ok := d.change(n, over, share); ok {
			out.changes = append(out.changes, x)
		}
	}
	return out
}

// comparable reports whether both sides have enough readings. A counter without readings had no events, or its
// process is gone; a missing gauge is unknown.
func (d duel) comparable() bool {
	a, b := len(d.sides[0].Values), len(d.sides[1].Values)
	absent := d.kind == rate && (a == 0 || b == 0)
	return (a >= fewest || a == 0 && absent) && (b >= fewest || b == 0 && absent)
}

// change describes the series; ok is false where the levels differ by less than
// LeastScore.
func (d duel) change(n name, over time.Duration, all float64) (x candidate, ok bool) {
	before, after := d.medians[0], d.medians[1]
	spread := max(ofLevel*(math.Abs(before)+math.Abs(after))/2, ofMetric*all, d.resolution(max(before, after), over))
	squares := 0.0
	for _, s := range d.sides {
		if len(s.Values) > 0 {
			_, sd := stats.Robust(s.Values)
			squares += sd * sd / 2
		}
	}
	spread = max(spread, math.Sqrt(squares))
	if spread == 0 || math.Abs(after-before) < LeastScore*spread {
		return x, false
	}
	labels := maps.Clone(d.sides[0].Labels)
	if labels == nil {
		labels = maps.Clone(d.sides[1].Labels)
	}
	x = candidate{
		Change: Change{
			Series: d.selector, Metric: n.family(), Labels: labels, Unit: d.unit,
			Expr: d.expr(n.name, matchers(labels), over), Score: math.Abs(after-before) / spread,
		},
		family: n.family(), owner: owner(labels), sides: d.sides, spread: spread, over: over,
	}
	if len(d.sides[0].Values) > 0 {
		x.Before = &before
	}
	if len(d.sides[1].Values) > 0 {
		x.After = &after
	}
	if ratio := after / before; x.Before != nil && x.After != nil && before != 0 && !math.IsInf(ratio, 0) {
		x.Ratio = &ratio
	}
	return x, true
}

// resolution returns the smallest meaningful difference in a value of this unit: for events, their random variation
// within the time of a rate.
func (f form) resolution(level float64, over time.Duration) float64 {
	switch f.unit {
	case "1/s":
		return math.Sqrt((max(level, 0) + 1/over.Seconds()) / over.Seconds())
	case "cores", "ratio":
		return 0.01
	case "bytes/s":
		return 16 << 10
	case "bytes":
		return 1 << 20
	}
	return 0
}

// grows reports whether the values never fall and often rise; their growth is then compared. Some fields of the
// kernel's tables are counters without a counter's name.
func grows(sides [2]metric.Series) bool {
	often := false
	for _, s := range sides {
		rises := 0
		for i := 1; i < len(s.Values); i++ {
			if s.Values[i] < s.Values[i-1] {
				return false
			}
			if s.Values[i] > s.Values[i-1] {
				rises++
			}
		}
		often = often || rises >= fewest && 4*rises >= len(s.Values)
	}
	a, b := sides[0].Values, sides[1].Values
	return often && (len(a) == 0 || len(b) == 0 || a[len(a)-1] <= b[0])
}

// slope returns the growth per second from one value to the next.
func slope(s metric.Series) metric.Series {
	out := metric.Series{Labels: s.Labels}
	for i := 1; i < len(s.Values); i++ {
		out.At = append(out.At, s.At[i])
		out.Values = append(out.Values, (s.Values[i]-s.Values[i-1])/s.At[i].Sub(s.At[i-1]).Seconds())
	}
	return out
}

// since returns when the level changed, nil if no change stands out. stats.ChangePoints takes logarithms: here of the
// distance to the lowest value, in units of the spread.
func (x candidate) since() *time.Time {
	before, after := x.sides[0], x.sides[1]
	if len(before.Values) == 0 || len(after.Values) == 0 {
		return nil
	}
	at, values := slices.Concat(before.At, after.At), slices.Concat(before.Values, after.Values)
	lowest := slices.Min(values)
	for i := range values {
		values[i] = 1 + (values[i]-lowest)/x.spread
	}
	first, largest := 0, 0.0
	for _, c := range stats.ChangePoints(values, stats.ChangeOptions{}) {
		if d := math.Abs(math.Log(c.Ratio)); d > largest {
			first, largest = c.Index, d
		}
	}
	if first == 0 {
		return nil
	}
	t := at[first].Add(-x.over / 2).Round(time.Second) // the value is about the time before it
	return &t
}
