package store

// Estimates the memory and the work of a query before it is evaluated, so that a query which is too expensive is
// refused and does not take the monitor down. groups.go, nesting.go and parsed.go have parts of the estimate.

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
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
	// live is how many values the engine has made room for in lines that have few of them, and room the most of them at any time: those
	// of a part's operands are used again once it is done.
	live, room float64
	// opened is how many series are opened, those of different blocks counted apart.
	opened float64
	// texts is how many bytes of labels functions make, and widest how many a series then has.
	texts, widest float64

	// The part that looks at the most, for the refusal, and the one with the most room.
	most, steps, window, series  float64
	widestRoom, lines, roomSteps float64
}

// pooledSteps is the most for which the engine makes room at once in a line: its maxPointsSliceSize.
const pooledSteps = 5000

// makeRoom counts the lines of a part, which get room for all steps with their first value; before it and its operands there was some.
// Then that of the operands is free.
func (c *cost) makeRoom(before, lines, steps float64) {
	n := 0.0
	if steps > 1 {
		n = lines * min(steps, pooledSteps)
	}
	c.room = max(c.room, c.live+n)
	c.live = before + n
	if n > c.widestRoom {
		c.widestRoom, c.lines, c.roomSteps = n, lines, steps
	}
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
	return int64((min(c.values, float64(mostSamples))+c.room)*valueBytes + c.opened*openedBytes + 2*c.texts) // made anew, from others
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

// shape is what a part of an expression gives at each step.
type shape struct {
	series float64
	// ever is how many series there are at any of the steps, and groups how many of them differ in some labels; nil: perhaps all.
	ever   float64
	groups func(grouping) float64
	// labels is how many bytes a series' labels have at most, and longest how many of them one value has.
	labels, longest float64
	// made is how many bytes of labels functions have made for it, those that others replaced left out.
	made float64
}

// larger is the larger of both in all that a shape has.
func (s shape) larger(o shape) shape {
	out := shape{max(s.series, o.series), s.ever, s.groups, max(s.labels, o.labels), max(s.longest, o.longest), max(s.made, o.made)}
	if o.ever > s.ever {
		out.ever, out.groups = o.ever, o.groups
	}
	return out
}

// estimator computes the cost of an expression. Times are in milliseconds.
type estimator struct {
	cost
	held     spread
	interval float64 // between two samples
	lookback int64
	count    func(v *parser.VectorSelector, from, to int64) shape
}

// weights are of functions that do more with a window than look at it once: sorting, or several numbers for each value.
var weights = map[string]float64{"quantile_over_time": 16, "predict_linear": 4, "deriv": 4, "stddev_over_time": 2, "stdvar_over_time": 2}

// part counts what evaluating a part at each step takes, and returns what it gives.
func (e *estimator) part(n parser.Node, from, to, step int64) (s shape) {
	before, steps := e.live, 1.0
	if step > 0 {
		steps = max(1, float64((to-from)/step+1))
	}
	switch n := n.(type) {
	case *parser.VectorSelector:
		if n.Timestamp != nil {
			from, to = clampTime(*n.Timestamp), clampTime(*n.Timestamp)
		}
		offset := n.OriginalOffset.Milliseconds()
		s = e.count(n, from-offset-e.lookback, to-offset)
		e.cost.add(s.series, e.stepsWithData(from-offset, to-offset, step, e.lookback), 1, 1)
		e.values += s.series * steps // room is made for all, also where there are no samples
		return s
	case *parser.MatrixSelector: // the top of an instant query
		return e.window("", n, from, to, step, 1)
	case *parser.SubqueryExpr:
		return e.window("", n, from, to, step, 1)
	case *parser.Call:
		for _, a := range n.Args {
			switch inner(a).(type) {
			case *parser.MatrixSelector, *parser.SubqueryExpr:
				s = s.larger(e.window(n.Func.Name, inner(a), from, to, step, steps))
			default:
				s = s.larger(e.part(a, from, to, step))
			}
		}
		if len(n.Args) == 0 {
			s.series, s.ever = 1, 1
		}
		e.values += s.series * steps
		return e.called(n, s, before, steps)
	case *parser.AggregateExpr:
		s = e.part(n.Expr, from, to, step)
		if n.Param != nil {
			e.part(n.Param, from, to, step)
		}
		if n.Op == parser.COUNT_VALUES {
			if name, ok := inner(n.Param).(*parser.StringLiteral); ok {
				s = e.longer(s, float64(len(name.Val)), 32) // a number as a text
			}
		}
		s = aggregated(n, s, steps)
		e.cost.add(s.series, steps, 1, 1)
		e.makeRoom(before, s.ever, steps)
		return s
	case *parser.BinaryExpr:
		l, r := e.part(n.LHS, from, to, step), e.part(n.RHS, from, to, step)
		s = joined(n, l, r)
		if m := n.VectorMatching; m != nil && len(m.Include) > 0 { // labels of both sides
			s.labels = l.labels + r.labels
		}
		e.cost.add(s.series, steps, 1, 1)
		e.makeRoom(before, s.ever, steps)
		return s
	case *parser.ParenExpr:
		return e.part(n.Expr, from, to, step)
	case *parser.UnaryExpr:
		return e.part(n.Expr, from, to, step)
	case *parser.StepInvariantExpr: // evaluated once, and then repeated at each step
		s = e.part(n.Expr, from, from, 0)
		e.values += s.series * steps
		return s
	default: // a number or a text
		e.cost.add(1, steps, 1, 1)
		return shape{series: 1, ever: 1}
	}
}

// called counts what a function gives: the texts of one that makes labels of labels, and the room of one that is given vectors.
func (e *estimator) called(n *parser.Call, s shape, before, steps float64) shape {
	text := func(i int) string {
		if t, ok := inner(n.Args[i]).(*parser.StringLiteral); ok {
			return t.Val
		}
		return ""
	}
	switch n.Func.Name {
	case "label_replace": // v, destination, replacement, source, pattern
		return e.longer(s, float64(len(text(1))), float64(len(text(2)))+float64(strings.Count(text(2), "$"))*s.longest).relabeled(text(1))
	case "label_join": // v, destination, separator, sources
		return e.longer(s, float64(len(text(1))), float64(len(n.Args)-3)*(s.longest+float64(len(text(2))))).relabeled(text(1))
	case "histogram_quantile", "histogram_fraction":
		s = s.groupedBy(grouping{[]string{model.BucketLabel}, true})
	case "scalar", "absent", "absent_over_time", "vector", "time":
		s.series, s.ever = min(s.series, 1), min(s.ever, 1)
	case "info":
		s.groups = nil
	}
	if slices.ContainsFunc(n.Args, overTime) { // the lines share their room
		e.makeRoom(before, 0, steps)
	} else {
		e.makeRoom(before, s.ever, steps)
	}
	return s
}

// overTime reports whether an argument of a function is a window.
func overTime(e parser.Expr) bool {
	return e.Type() == parser.ValueTypeMatrix
}

// longer is s with one label more in each series, whose labels are all made anew.
func (e *estimator) longer(s shape, name, value float64) shape {
	s.labels += name + value
	s.longest = max(s.longest, value)
	e.widest = max(e.widest, s.labels)
	all := s.series * s.labels
	e.texts += max(0, all-s.made)
	s.made = all
	return s
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
func (e *estimator) window(function string, n parser.Node, from, to, step int64, steps float64) (s shape) {
	weight := max(1, weights[function])
	switch n := n.(type) {
	case *parser.MatrixSelector:
		v, ok := n.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return s
		}
		length, offset := n.Range.Milliseconds(), v.OriginalOffset.Milliseconds()
		if v.Timestamp == nil {
			steps = min(steps, e.stepsWithData(from-offset, to-offset, step, length))
		} else { // the same window at all steps
			from, to = clampTime(*v.Timestamp), clampTime(*v.Timestamp)
		}
		s = e.count(v, from-offset-length, to-offset)
		samples := min(float64(length), max(0, float64(e.held.last)-float64(e.held.first))) / e.interval
		e.cost.add(s.series, steps, samples, weight)
	case *parser.SubqueryExpr:
		length, offset, each := n.Range.Milliseconds(), n.OriginalOffset.Milliseconds(), n.Step.Milliseconds()
		if each <= 0 {
			each = subqueryStep.Milliseconds()
		}
		if n.Timestamp != nil {
			from, to = clampTime(*n.Timestamp), clampTime(*n.Timestamp)
		}
		s = e.part(n.Expr, from-offset-length, to-offset, each)
		e.cost.add(s.series, steps, float64(length)/float64(each), weight)
	}
	return s
}

// clampTime returns a time from which durations can be subtracted: at most 285,000 years from now.
func clampTime(at int64) int64 { return max(-1<<53, min(at, 1<<53)) }

// stepsWithData is at how many steps a selector that looks back for so long may find a sample.
func (e *estimator) stepsWithData(from, to, step, back int64) float64 {
	if step <= 0 {
		return 1
	}
	from, to = max(from, e.held.first), min(to, clampTime(e.held.last)+back)
	if to < from {
		return 0
	}
	return float64((to-from)/step + 1)
}

// The labels of a series until it is known which match: those of this program's sources have some 200 bytes.
const (
	usualLabels = 512
	usualValue  = 128
)

// estimate computes what a query takes, and refuses one beyond the limits. It looks up which series match only if the query would be
// too costly, or large, with all of them, or makes labels of their labels.
func (e *Engine) estimate(ctx context.Context, b *bounds) (cost, error) {
	m, ok := b.q.(measurable)
	if !ok || e.opts.MaxLooked == 0 {
		return cost{}, nil
	}
	parsed, err := e.parser.ParseExpr(b.expr)
	if err != nil {
		return cost{}, err
	}
	if parsed, err = promql.PreprocessExpr(parsed, b.from, b.to, b.step); err != nil { // as the engine does: @ start() is a time
		return cost{}, err
	}
	from, to, step := clampTime(b.from.UnixMilli()), clampTime(b.to.UnixMilli()), b.step.Milliseconds()
	estimated := func(held spread, count func(*parser.VectorSelector, int64, int64) shape) *estimator {
		x := &estimator{held: held, interval: float64(e.opts.Interval.Milliseconds()), lookback: b.lookback.Milliseconds(), count: count}
		x.part(parsed, from, to, step)
		return x
	}
	first, last := to, from // what selectors read
	estimated(spread{}, func(_ *parser.VectorSelector, from, to int64) shape {
		first, last = min(first, from), max(last, to)
		return shape{}
	})
	held := m.spread(time.UnixMilli(first), time.UnixMilli(last))
	all := estimated(held, func(*parser.VectorSelector, int64, int64) shape {
		return shape{series: held.series, ever: held.series, labels: usualLabels, longest: usualValue}
	})
	all.opened = held.series
	if e.opts.refusal(all.cost) == nil && all.widest == 0 && all.bytes(e.opts.MaxSamples) <= e.opts.largeQuery() {
		return all.cost, nil
	}
	matched, opens := map[*parser.VectorSelector]shape{}, 0.0
	exact := estimated(held, func(v *parser.VectorSelector, from, to int64) shape {
		if s, ok := matched[v]; ok || err != nil {
			return s
		}
		f := &found{ctx, b.q, v.LabelMatchers, max(from, held.first), min(to, clampTime(held.last)+1), func(e error) { err = e }}
		s, opened := f.inParts()
		if err == nil && s.series == 0 && held.first <= held.last { // not there then: the most that may be anywhere
			f.from, f.to = held.first, held.last
			s = f.shape()
		}
		s.ever, s.groups = s.series, f.lines
		if opened > s.series {
			s.ever = f.all()
		}
		matched[v] = s
		opens += min(opened, held.series)
		return s
	})
	exact.opened = opens
	if err != nil {
		return exact.cost, err
	}
	return exact.cost, e.opts.refusal(exact.cost)
}

// refusal returns why a query may not be evaluated, nil if it may.
func (o EngineOptions) refusal(c cost) error {
	switch {
	case o.MaxLooked == 0:
		return nil
	case c.looked > o.MaxLooked:
		return &tooCostly{c, o.MaxLooked}
	case c.alone > o.MaxAlone:
		return &tooCostly{c, o.MaxAlone}
	case c.widest > maxLabels:
		return &tooLarge{fmt.Sprintf("the query would give a series up to about %s bytes of labels, the limit is %s: use label_join and label_replace with shorter values or fewer times", rounded(c.widest), rounded(maxLabels))}
	case o.Memory != nil && c.room*valueBytes > float64(o.Memory.Queries.Limit):
		return &tooLarge{fmt.Sprintf("the query would make room for about %s values at a time, the limit is %s: its largest part has %s lines with %s steps each, also where there are few values; use a longer step or a shorter range, aggregate by fewer labels, or name fewer series",
			rounded(c.room), rounded(float64(o.Memory.Queries.Limit/valueBytes)), rounded(c.lines), rounded(c.roomSteps))}
	case o.Memory != nil && 2*c.texts > float64(o.Memory.Queries.Limit):
		return &tooLarge{fmt.Sprintf("the query would make about %s bytes of labels, the limit is %s: use label_join and label_replace on fewer series", rounded(c.texts), rounded(float64(o.Memory.Queries.Limit/2)))}
	}
	return nil
}

// maxLabels is how many bytes of labels the functions of a query may give a series.
const maxLabels = 64 << 10

// tooLarge refuses a query for the labels or the lines that it would make.
type tooLarge struct{ reason string }

// Status is that of an answer over HTTP.
func (e *tooLarge) Status() int { return http.StatusUnprocessableEntity }

func (e *tooLarge) Error() string { return e.reason }

// spanParts is the number of the parts of a span in which series are counted apart.
const spanParts = 12

// inParts counts the series in the mean of parts of the span: where names come and go, most series have samples in few of them. It
// also returns the sum.
func (f *found) inParts() (mean shape, sum float64) {
	if f.from > f.to {
		return mean, 0
	}
	length := max(1, (f.to-f.from)/spanParts)
	parts := 0.0
	for at := f.from; at < f.to || parts == 0; at += length {
		part := *f
		part.from, part.to = at, min(f.to, at+length)
		s := part.shape()
		mean = mean.larger(s)
		sum += s.series
		parts++
	}
	mean.series = math.Ceil(sum / parts)
	return mean, sum
}

// shape counts the series and their labels.
func (f *found) shape() (s shape) {
	err := eachSeries(f.ctx, f.q, f.ms, f.from, f.to, func(ls labels.Labels) {
		s.series++
		own := 0
		ls.Range(func(l labels.Label) {
			own += len(l.Name) + len(l.Value)
			s.longest = max(s.longest, float64(len(l.Value)))
		})
		s.labels = max(s.labels, float64(own))
	})
	if err != nil {
		f.fail(err)
	}
	return s
}

// promqlError is the error of an ended context, of the type by which the API and rules know it.
func promqlError(ctx context.Context, doing string) error {
	if ctx.Err() == context.Canceled {
		return promql.ErrQueryCanceled(doing)
	}
	return promql.ErrQueryTimeout(doing)
}
