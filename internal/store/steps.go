package store

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/metric"
)

// Steps evaluates expr for a page, at every step from one time to another, both included, or only at the end if step
// is 0. It shares the API's engine, so pages never delay rules. The warnings are PromQL's own; see Notes for those
// about sources.
func (s *Store) Steps(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error) {
	if len(expr) > callLimit {
		return nil, nil, fmt.Errorf("the query is longer than %d KiB: shorten it", callLimit>>10)
	}
	ctx = context.WithValue(ctx, notEncoded{}, true)
	var query promql.Query
	var err error
	if step == 0 {
		query, err = s.pages.NewInstantQuery(ctx, door{s}, nil, expr, to)
	} else {
		query, err = s.pages.NewRangeQuery(ctx, door{s}, nil, expr, from, to, step)
	}
	if err != nil {
		return nil, nil, err
	}
	defer query.Close()
	res := query.Exec(ctx)
	if res.Err != nil {
		return nil, nil, res.Err
	}
	warnings, _ := res.Warnings.AsStrings(expr, 0, 0)
	switch v := res.Value.(type) {
	case promql.Scalar:
		return []metric.Line{{Labels: map[string]string{}, Values: []float64{v.V}}}, warnings, nil
	case promql.Vector:
		lines := make([]metric.Line, 0, len(v))
		for i := range v {
			if v[i].H == nil {
				lines = append(lines, metric.Line{Labels: v[i].Metric.Map(), Values: []float64{v[i].F}})
			}
		}
		return lines, warnings, nil
	case promql.Matrix:
		if step == 0 {
			break
		}
		n, most := 0, s.pages.opts.maxPageValues()
		lines := make([]metric.Line, 0, len(v))
		for i := range v {
			l := onGrid(v[i], from, to, step)
			if n += len(l.Values); n > most {
				return nil, nil, &tooManyValues{len(v), most}
			}
			lines = append(lines, l)
		}
		return lines, warnings, nil
	}
	return nil, nil, fmt.Errorf("the query gives a %s; pages show instant vectors and scalars, as of rate(...)", parser.DocumentedType(res.Value.Type()))
}

// tooManyValues refuses an answer with very many values and gaps between them.
type tooManyValues struct{ lines, most int }

// Status is that of an answer over HTTP.
func (e *tooManyValues) Status() int { return http.StatusUnprocessableEntity }

func (e *tooManyValues) Error() string {
	return fmt.Sprintf("the answer has %d lines, with more than %d values and gaps, which is the limit: use a longer step or a shorter range, or ask for fewer lines", e.lines, e.most)
}

// onGrid returns a value for each step from the first to the last that the series has, NaN where it has none between.
func onGrid(s promql.Series, from, to time.Time, step time.Duration) metric.Line {
	l := metric.Line{Labels: s.Metric.Map()}
	if len(s.Floats) == 0 {
		return l
	}
	at := func(p promql.FPoint) int { return int((p.T - from.UnixMilli()) / step.Milliseconds()) }
	last := min(at(s.Floats[len(s.Floats)-1]), int(to.Sub(from)/step))
	l.Skip = max(0, at(s.Floats[0]))
	l.Values = make([]float64, max(0, last-l.Skip+1))
	for i := range l.Values {
		l.Values[i] = math.NaN()
	}
	for _, p := range s.Floats {
		if i := at(p) - l.Skip; i >= 0 && i < len(l.Values) {
			l.Values[i] = p.F
		}
	}
	return l
}

// Notes returns the warnings of the API: which part of an expression's data was not counted between two times, and
// what of it was lost. It returns none for an expression that PromQL refuses.
func (s *Store) Notes(ctx context.Context, expr string, from, to time.Time) []string {
	all, first := selectors(expr, from)
	if len(all) == 0 {
		return nil
	}
	q, err := door{s}.Querier(first.UnixMilli(), to.UnixMilli())
	if err != nil {
		return nil // the query itself reports it
	}
	defer q.Close()
	n := &notedQuerier{Querier: q, s: s, mint: first.UnixMilli(), maxt: to.UnixMilli()}
	var out []string
	asked := map[string]bool{}
	for _, v := range all {
		hints := &storage.SelectHints{Start: v.from.UnixMilli(), End: to.UnixMilli()}
		for _, err := range n.notesFor(ctx, hints, v.matchers, asked) {
			if text := err.Error(); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// selected is a selector of an expression, with the first time that it reads.
type selected struct {
	matchers []*labels.Matcher
	from     time.Time
}

// selectors returns the selectors of an expression that is evaluated from a time on, and the first time that they read;
// none for an expression that PromQL refuses.
func selectors(expr string, from time.Time) (all []selected, first time.Time) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, from
	}
	first = from
	parser.Inspect(e, func(node parser.Node, path []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		begin := from // a range selector reads data from before the first step
		for _, p := range path {
			switch p := p.(type) {
			case *parser.MatrixSelector:
				begin = begin.Add(-p.Range)
			case *parser.SubqueryExpr:
				begin = begin.Add(-p.Range)
			}
		}
		if begin.Before(first) {
			first = begin
		}
		all = append(all, selected{v.LabelMatchers, begin})
		return nil
	})
	return all, first
}

// notesFor returns what the sources of the matched metrics did not count, and what was lost of the time. Pairs of source
// and machine that were asked before are left out.
func (q *notedQuerier) notesFor(ctx context.Context, hints *storage.SelectHints, ms []*labels.Matcher, asked map[string]bool) []error {
	var out []error
	mint, maxt := q.mint, q.maxt
	if hints != nil {
		mint, maxt = hints.Start, hints.End
	}
	for _, l := range q.s.lossesIn(mint, maxt) {
		if !l.Moved.IsZero() { // the block adds the others
			out = append(out, l)
		}
	}
	for _, m := range ms {
		if m.Name != model.MetricNameLabel {
			continue
		}
		for _, source := range sourcesOf(q.s.opts.Sources, m) {
			where := source
			for _, m := range ms {
				if m.Name == "instance" || m.Name == "job" {
					where += " " + m.String()
				}
			}
			if asked[where] {
				continue
			}
			asked[where] = true
			out = append(out, q.notes(ctx, source, hints, ms)...)
		}
	}
	return out
}
