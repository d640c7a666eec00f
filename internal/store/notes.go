package store

// Adds warnings to the answers of queries: that a source counted only part of the requested time, or that a part of the
// data was lost.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// The monitor's metrics about its sources. Options.Sources maps metrics to sources.
const (
	coverageSeries = "teescope_source_coverage_ratio"
	errorSeries    = "teescope_source_standard_error_ratio"
	blindSeries    = "teescope_source_blind"
)

// noted is a door whose answers carry the API's warnings: which part of a metric was not counted in the requested
// time, and what of that time was lost with a damaged part of the store.
type noted struct{ door }

// Querier opens a view of a span of time in milliseconds.
func (d noted) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := d.door.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return &notedQuerier{Querier: q, s: d.s, mint: mint, maxt: maxt}, nil
}

type notedQuerier struct {
	storage.Querier
	s          *Store
	mint, maxt int64
}

// Select adds the notes to its result.
func (q *notedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set := q.Querier.Select(ctx, sorted, hints, ms...)
	var notes annotations.Annotations
	for _, n := range q.notesFor(ctx, hints, ms, map[string]bool{}) {
		notes.Add(n)
	}
	if len(notes) > 0 {
		return &notedSet{set, notes}
	}
	return set
}

type notedSet struct {
	storage.SeriesSet
	notes annotations.Annotations
}

// Warnings are those of the data and the notes.
func (s *notedSet) Warnings() annotations.Annotations {
	var all annotations.Annotations
	all.Merge(s.SeriesSet.Warnings())
	all.Merge(s.notes)
	return all
}

// notes reports what a source did not count in the requested time, on the requested
// machines.
func (q *notedQuerier) notes(ctx context.Context, source string, hints *storage.SelectHints, asked []*labels.Matcher) []error {
	ms := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, coverageSeries+"|"+errorSeries+"|"+blindSeries),
		labels.MustNewMatcher(labels.MatchEqual, "source", source),
	}
	for _, m := range asked {
		if m.Name == "instance" || m.Name == "job" {
			ms = append(ms, m)
		}
	}
	coverage, deviation := 1.0, 0.0
	blind := map[string]bool{}
	set := q.Querier.Select(ctx, false, hints, ms...)
	var it chunkenc.Iterator
	for set.Next() {
		series := set.At()
		it = series.Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			t, v := it.At()
			if hints != nil && (t < hints.Start || t > hints.End) {
				continue
			}
			switch series.Labels().Get(model.MetricNameLabel) {
			case coverageSeries:
				coverage = min(coverage, v)
			case errorSeries:
				deviation = max(deviation, v)
			case blindSeries:
				blind[series.Labels().Get("reason")] = true
			}
		}
	}
	if set.Err() != nil {
		return nil // the query itself returns the same error
	}
	return notesOn(source, coverage, deviation, slices.Sorted(maps.Keys(blind)))
}

// notesOn says what a source did not count: the least coverage, the largest standard error, of all its events or of those
// whose number the kernel does not give, and why it was blind.
func notesOn(source string, coverage, deviation float64, blind []string) []error {
	var out []error
	for _, why := range blind {
		out = append(out, fmt.Errorf("source %s had no values for part of this time: %s", source, why))
	}
	if coverage < 1 {
		say := "source " + source + " counted down to " + strconv.FormatFloat(100*coverage, 'g', 2, 64) +
			" % of its events for part of this time; counters are scaled up"
		if deviation > 0 {
			say += ", with a standard error of up to " + strconv.FormatFloat(100*deviation, 'g', 2, 64) + " %"
		}
		out = append(out, errors.New(say))
	}
	return out
}

// sourcesOf names the sources of the metrics that a name matcher selects; of maps metrics to sources. A recorded series
// stands for the metrics from which it is computed.
func sourcesOf(of map[string]string, m *labels.Matcher) []string {
	found := map[string]bool{}
	add := func(m *labels.Matcher) {
		if m.Type == labels.MatchEqual {
			if source := of[m.Value]; source != "" {
				found[source] = true
			}
			return
		}
		for name, source := range of {
			if m.Matches(name) {
				found[source] = true
			}
		}
	}
	add(m)
	for _, r := range Rules {
		if !m.Matches(r.Record) {
			continue
		}
		e, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			continue // TestRules reports it
		}
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				for _, m := range v.LabelMatchers {
					if m.Name == model.MetricNameLabel {
						add(m)
					}
				}
			}
			return nil
		})
	}
	return slices.Sorted(maps.Keys(found))
}
