package store

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// cost is what evaluating an expression takes, estimated before: from the number of steps, the samples in a window, and the
// matched series.
type cost struct {
	// looked is how many values functions look at: each step looks at all of its window again.
	looked float64
	// alone is the largest part of that between two looks at the deadline: one series at all steps.
	alone float64
	// values is how many are in memory at the end; a part of an expression keeps its own until the whole is done.
	values float64
	// opened is how many series are opened, those of different parts of the span counted apart.
	opened float64

	// The part that looks at the most, for the refusal.
	most, steps, window, series float64
}

// add counts a part that looks at weight times a window at each step of each series.
func (c *cost) add(series, steps, window, weight float64) {
	n := series * steps * max(1, window) * weight
	c.looked += n
	c.alone = max(c.alone, steps*max(1, window)*weight)
	c.values += series*steps + window
	if n > c.most {
		c.most, c.steps, c.window, c.series = n, steps, max(1, window), series
	}
}

// bytes is what evaluating takes.
func (c *cost) bytes(mostSamples int) int64 {
	return int64(min(c.values, float64(mostSamples))*valueBytes + c.opened*openedBytes)
}

// tooCostly refuses a query before it is evaluated.
type tooCostly struct {
	cost
	limit float64
}

// Status is that of an answer over HTTP.
func (e *tooCostly) Status() int { return http.StatusUnprocessableEntity }

func (e *tooCostly) Error() string {
	have := e.looked
	if have <= e.limit { // only one series is too much
		have = e.alone
	}
	return fmt.Sprintf("the query would look at about %s values, the limit is %s: its most expensive part has %s steps with %s values each in %s series; use a longer step, a shorter range or window, or name fewer series",
		rounded(have), rounded(e.limit), rounded(e.steps), rounded(e.window), rounded(e.series))
}

// rounded prints a number of things, large ones with about two digits that count.
func rounded(n float64) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e12, " trillion"}, {1e9, " billion"}, {1e6, " million"}} {
		if n < u.from {
			continue
		}
		digits := 0
		if n < 10*u.from && n != math.Round(n/u.from)*u.from {
			digits = 1
		}
		return strconv.FormatFloat(n/u.from, 'f', digits, 64) + u.name
	}
	return strconv.FormatFloat(math.Round(n), 'f', -1, 64)
}

// spread is what a store holds: a number of series, those of different blocks counted apart, and the times of its first and last sample
// in Unix milliseconds.
type spread struct {
	series      float64
	first, last int64
}

// measurable is a store that can say what it holds.
type measurable interface {
	spread(from, to time.Time) spread
}

// spread returns what the open database holds; its series are those of parts with samples between two times.
func (d door) spread(from, to time.Time) (out spread) {
	db, err := d.s.lease()
	if err != nil {
		return out // the query itself reports it
	}
	defer db.unlease()
	out = spread{float64(db.Head().NumSeries()), db.Head().MinTime(), db.Head().MaxTime()}
	for _, b := range db.Blocks() {
		m := b.Meta()
		if m.MinTime <= to.UnixMilli() && m.MaxTime >= from.UnixMilli() {
			out.series += float64(m.Stats.NumSeries)
		}
		out.first, out.last = min(out.first, m.MinTime), max(out.last, m.MaxTime)
	}
	return out
}

// estimator computes the cost of an expression. Times are in milliseconds.
type estimator struct {
	cost
	held     spread
	interval float64 // between two samples
	count    func(v *parser.VectorSelector, from, to int64) float64
}

// weights are of functions that do more with a window than look at it once: sorting, or several numbers for each value.
var weights = map[string]float64{"quantile_over_time": 16, "predict_linear": 4, "deriv": 4, "stddev_over_time": 2, "stdvar_over_time": 2}

// part counts what evaluating a part at each step takes, and returns the number of its series.
func (e *estimator) part(n parser.Node, from, to, step int64) (series float64) {
	steps := 1.0
	if step > 0 {
		steps = float64((to-from)/step + 1)
	}
	switch n := n.(type) {
	case *parser.VectorSelector:
		series = e.count(n, from-n.OriginalOffset.Milliseconds(), to-n.OriginalOffset.Milliseconds())
		e.cost.add(series, e.stepsWithData(from, to, step, 5*60_000), 1, 1)
		e.values += series * steps // room is made for all, also where there are no samples
		return series
	case *parser.MatrixSelector: // the top of an instant query
		return e.window("", n, from, to, step, 1)
	case *parser.SubqueryExpr:
		return e.window("", n, from, to, step, 1)
	case *parser.Call:
		for _, a := range n.Args {
			switch inner(a).(type) {
			case *parser.MatrixSelector, *parser.SubqueryExpr:
				series = max(series, e.window(n.Func.Name, inner(a), from, to, step, steps))
			default:
				series = max(series, e.part(a, from, to, step))
			}
		}
		if len(n.Args) == 0 {
			series = 1
		}
		e.values += series * steps
		return series
	case *parser.AggregateExpr:
		series = e.part(n.Expr, from, to, step)
		if n.Param != nil {
			e.part(n.Param, from, to, step)
		}
		if len(n.Grouping) == 0 && !n.Without && n.Op != parser.TOPK && n.Op != parser.BOTTOMK && n.Op != parser.COUNT_VALUES && n.Op != parser.LIMITK {
			series = min(series, 1)
		}
		e.cost.add(series, steps, 1, 1)
		return series
	case *parser.BinaryExpr:
		series = max(e.part(n.LHS, from, to, step), e.part(n.RHS, from, to, step))
		if n.Op == parser.LOR {
			series *= 2
		}
		e.cost.add(series, steps, 1, 1)
		return series
	case *parser.ParenExpr:
		return e.part(n.Expr, from, to, step)
	case *parser.UnaryExpr:
		return e.part(n.Expr, from, to, step)
	case *parser.StepInvariantExpr:
		return e.part(n.Expr, from, to, step)
	default: // a number or a text
		e.cost.add(1, steps, 1, 1)
		return 1
	}
}

// inner returns what is in brackets.
func inner(e parser.Expr) parser.Expr {
	for {
		switch p := e.(type) {
		case *parser.ParenExpr:
			e = p.Expr
		case *parser.StepInvariantExpr:
			e = p.Expr
		default:
			return e
		}
	}
}

// window counts a function that looks at a window at each step, and what is in the window.
func (e *estimator) window(function string, n parser.Node, from, to, step int64, steps float64) (series float64) {
	weight := max(1, weights[function])
	switch n := n.(type) {
	case *parser.MatrixSelector:
		v, ok := n.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return 0
		}
		length, offset := n.Range.Milliseconds(), v.OriginalOffset.Milliseconds()
		series = e.count(v, from-offset-length, to-offset)
		samples := min(float64(length), max(0, float64(e.held.last-e.held.first))) / e.interval
		if v.Timestamp != nil || v.StartOrEnd != 0 {
			steps = 1 // the same window at all steps
		}
		e.cost.add(series, min(steps, e.stepsWithData(from, to, step, length)), samples, weight)
	case *parser.SubqueryExpr:
		length, offset, each := n.Range.Milliseconds(), n.OriginalOffset.Milliseconds(), n.Step.Milliseconds()
		if each <= 0 {
			each = subqueryStep.Milliseconds()
		}
		if n.Timestamp != nil {
			from, to, steps = *n.Timestamp, *n.Timestamp, 1
		}
		series = e.part(n.Expr, from-offset-length, to-offset, each)
		e.cost.add(series, steps, float64(length)/float64(each), weight)
	}
	return series
}

// stepsWithData is at how many steps a selector that looks back for so long may find a sample.
func (e *estimator) stepsWithData(from, to, step, back int64) float64 {
	if step <= 0 {
		return 1
	}
	from, to = max(from, e.held.first), min(to, e.held.last+back)
	if to < from {
		return 0
	}
	return float64((to-from)/step + 1)
}

// estimate computes what a query takes, and refuses one beyond the limits. It looks up which series match only if the query would be
// too costly, or large, with all of them.
func (e *Engine) estimate(ctx context.Context, q storage.Queryable, expr string, from, to time.Time, step time.Duration) (cost, error) {
	m, ok := q.(measurable)
	if !ok || e.opts.MaxLooked == 0 {
		return cost{}, nil
	}
	_, first := selectors(expr, from)
	held := m.spread(first, to)
	parsed, err := e.parser.ParseExpr(expr)
	if err != nil {
		return cost{}, err
	}
	all := estimator{held: held, interval: float64(e.opts.Interval.Milliseconds()), count: func(*parser.VectorSelector, int64, int64) float64 { return held.series }}
	all.opened = held.series
	all.part(parsed, from.UnixMilli(), to.UnixMilli(), step.Milliseconds())
	if e.opts.fits(all.cost) && all.bytes(e.opts.MaxSamples) <= e.opts.largeQuery() {
		return all.cost, nil
	}
	matched, opens := map[*parser.VectorSelector]float64{}, 0.0
	exact := estimator{held: held, interval: all.interval, count: func(v *parser.VectorSelector, from, to int64) float64 {
		if n, ok := matched[v]; ok {
			return n
		}
		n, opened, failed := matching(ctx, q, v.LabelMatchers, max(from, held.first), min(to, held.last+1))
		if failed != nil {
			err = failed
		}
		matched[v] = n
		opens += opened
		return n
	}}
	exact.part(parsed, from.UnixMilli(), to.UnixMilli(), step.Milliseconds())
	exact.opened = opens
	switch {
	case err != nil:
		return exact.cost, err
	case !e.opts.fits(exact.cost):
		limit := e.opts.MaxLooked
		if exact.looked <= limit {
			limit = e.opts.MaxAlone
		}
		return exact.cost, &tooCostly{exact.cost, limit}
	}
	return exact.cost, nil
}

// fits reports whether a query may be evaluated.
func (o EngineOptions) fits(c cost) bool {
	return o.MaxLooked == 0 || c.looked <= o.MaxLooked && c.alone <= o.MaxAlone
}

// spanParts is the number of the parts of a span in which series are counted apart.
const spanParts = 12

// matching counts the series that matchers select in a span of time, in the mean of parts of it: where names come and go, most series
// have samples in few of them. It also returns the sum.
func matching(ctx context.Context, q storage.Queryable, ms []*labels.Matcher, from, to int64) (mean, sum float64, err error) {
	length := max(1, (to-from)/spanParts)
	parts := 0.0
	for at := from; at < to || parts == 0; at += length {
		n, err := matchingIn(ctx, q, ms, at, min(to, at+length))
		if err != nil {
			return 0, 0, err
		}
		sum += n
		parts++
	}
	return math.Ceil(sum / parts), sum, nil
}

func matchingIn(ctx context.Context, q storage.Queryable, ms []*labels.Matcher, from, to int64) (n float64, err error) {
	querier, err := q.Querier(from, to)
	if err != nil {
		return 0, err
	}
	defer querier.Close()
	set := querier.Select(ctx, false, &storage.SelectHints{Start: from, End: to, Func: "series"}, ms...)
	for set.Next() {
		n++
		if ctx.Err() != nil {
			return n, promqlError(ctx, "counting series")
		}
	}
	return n, set.Err()
}

// promqlError is the error of an ended context, of the type by which the API and rules know it.
func promqlError(ctx context.Context, doing string) error {
	if ctx.Err() == context.Canceled { //nolint:errorlint // Err returns exactly these
		return promql.ErrQueryCanceled(doing)
	}
	return promql.ErrQueryTimeout(doing)
}
