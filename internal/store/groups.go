package store

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// Where names come and go, few series have samples at each step, and yet the engine makes room for all steps in each line of an
// aggregation, of an operator and of most functions. So the lines are counted that a part of an expression has at any of its steps.

// grouping says which labels tell lines apart: the named ones, or all but those.
type grouping struct {
	names   []string
	without bool
}

// restrictedTo returns the labels of g that are left after an aggregation by o.
func (g grouping) restrictedTo(o grouping) grouping {
	has := func(names []string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	hasNot := func(names []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(names, name) }
	}
	switch {
	case g.without && o.without:
		return grouping{slices.Concat(g.names, o.names), true}
	case g.without:
		return grouping{slices.DeleteFunc(slices.Clone(o.names), has(g.names)), false}
	case o.without:
		return grouping{slices.DeleteFunc(slices.Clone(g.names), has(o.names)), false}
	}
	return grouping{slices.DeleteFunc(slices.Clone(g.names), hasNot(o.names)), false}
}

// hasLabel reports whether lines are told apart by a label.
func (g grouping) hasLabel(name string) bool { return slices.Contains(g.names, name) != g.without }

// hash returns a number for what g keeps of labels, with a buffer to be used again.
func (g grouping) hash(ls labels.Labels, buf []byte) (uint64, []byte) {
	if g.without {
		return ls.HashWithoutLabels(buf, g.names...)
	}
	return ls.HashForLabels(buf, g.names...)
}

// sorted is g with its names in order, as hash wants them.
func (g grouping) sorted() grouping {
	return grouping{slices.Compact(slices.Sorted(slices.Values(g.names))), g.without}
}

// groupedBy returns the lines of an aggregation of s.
func (s shape) groupedBy(g grouping) shape {
	before := s
	s.ever = before.lines(g)
	s.series = min(s.series, s.ever)
	s.groups = func(next grouping) float64 { return before.lines(next.restrictedTo(g)) }
	return s
}

// lines is how many lines s has that differ in g.
func (s shape) lines(g grouping) float64 {
	switch {
	case !g.without && len(g.names) == 0:
		return min(s.ever, 1)
	case s.ever <= 1 || s.groups == nil:
		return s.ever
	}
	return min(s.ever, s.groups(g))
}

// relabeled is s after functions have set some labels: those are not in the store.
func (s shape) relabeled(names ...string) shape {
	before := s
	s.groups = func(g grouping) float64 {
		if slices.ContainsFunc(names, g.hasLabel) {
			return before.ever
		}
		return before.lines(g)
	}
	return s
}

// valuesOfSeries is how many different values of a series count_values is believed to find at all steps.
const valuesOfSeries = 64

// aggregated returns the lines of an aggregation at a number of steps.
func aggregated(n *parser.AggregateExpr, s shape, steps float64) shape {
	g := grouping{n.Grouping, n.Without}
	switch n.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK:
		if k, ok := inner(n.Param).(*parser.NumberLiteral); ok && k.Val >= 1 {
			s.ever = min(s.ever, s.lines(g)*k.Val*steps)
		}
		return s
	case parser.LIMIT_RATIO:
		return s
	case parser.COUNT_VALUES: // each value is a line; states and versions have few
		s.ever = max(s.ever, s.series*min(steps, valuesOfSeries))
		s.groups = nil
		return s
	}
	return s.groupedBy(g)
}

// joined returns the lines of an operator between two parts.
func joined(n *parser.BinaryExpr, l, r shape) shape {
	s := l.larger(r)
	switch {
	case n.LHS.Type() == parser.ValueTypeScalar:
		s.ever, s.groups = r.ever, r.groups
	case n.RHS.Type() == parser.ValueTypeScalar, n.Op == parser.LAND, n.Op == parser.LUNLESS:
		s.ever, s.groups = l.ever, l.groups
	case n.Op == parser.LOR:
		s.series *= 2
		s.ever = l.ever + r.ever
		s.groups = func(g grouping) float64 { return l.lines(g) + r.lines(g) }
	case n.VectorMatching != nil:
		many := l
		if n.VectorMatching.Card == parser.CardOneToMany {
			many = r
		}
		many = many.relabeled(n.VectorMatching.Include...)
		s.ever, s.groups = many.ever, many.groups
	}
	return s
}

// found counts series that matchers select, once each, and how many lines they have by labels.
type found struct {
	ctx      context.Context
	q        storage.Queryable
	ms       []*labels.Matcher
	from, to int64 // in Unix milliseconds
	fail     func(error)
}

// lines returns how many series differ in g.
func (f *found) lines(g grouping) float64 {
	if f.from > f.to {
		return 0
	}
	g = g.sorted()
	seen := map[uint64]struct{}{}
	var buf []byte
	err := eachSeries(f.ctx, f.q, f.ms, f.from, f.to, func(ls labels.Labels) {
		var h uint64
		h, buf = g.hash(ls, buf)
		seen[h] = struct{}{}
	})
	if err != nil {
		f.fail(err)
	}
	return float64(len(seen))
}

// all returns how many series there are.
func (f *found) all() (n float64) {
	if f.from > f.to {
		return 0
	}
	if err := eachSeries(f.ctx, f.q, f.ms, f.from, f.to, func(labels.Labels) { n++ }); err != nil {
		f.fail(err)
	}
	return n
}

// eachSeries calls a function with the labels of each series that matchers select in a span of time, in Unix milliseconds.
func eachSeries(ctx context.Context, q storage.Queryable, ms []*labels.Matcher, from, to int64, see func(labels.Labels)) error {
	querier, err := q.Querier(from, to)
	if err != nil {
		return err
	}
	defer querier.Close()
	set := querier.Select(ctx, false, &storage.SelectHints{Start: from, End: to, Func: "series"}, ms...)
	for set.Next() {
		see(set.At().Labels())
		if ctx.Err() != nil {
			return promqlError(ctx, "counting series")
		}
	}
	return set.Err()
}
