package anomaly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// For each metric it lists the largest change of each process, at most three; Alike counts the others. With
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
	out.Changes = c.rank(found, o)
	return out, nil
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
	for i, w := range []Window{c.before, c.after} {
		step := w.length() / 12
		expr := "count by (__name__) ({" + strings.TrimPrefix(c.matcher+`,__name__=~".+"`, ",") + "})"
		found, err := c.q.QueryRange(ctx, expr, w.From.Add(step), w.To, step)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && c.matcher == "" {
			return nil, fmt.Errorf("no samples in the window %s, from %s to %s; choose a later one", [...]string{"before", "after"}[i], w.From.UTC().Format(time.RFC3339), w.To.UTC().Format(time.RFC3339))
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
func (c *comparison) rank(all []candidate, o Options) []Change {
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
	out := []Change{}
	for _, x := range all {
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
	return out
}

// fold is the size of the ratio in either direction, as a logarithm.
func (c *Change) fold() float64 {
	if c.Ratio == nil || *c.Ratio <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(*c.Ratio))
}
