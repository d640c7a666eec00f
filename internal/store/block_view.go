package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/teescope/teescope/internal/store/repair"
)

// A block is read through a view that checks each chunk's checksum before a query sees it. A damaged chunk or series
// is left out, and the query answers from the rest with a warning; the block stays where it is. If the lists of
// series by label are damaged, the whole block is left out, because a damaged list may lack any series.

// blockQuerier opens a view of a block or of the head.
func (s *Store) blockQuerier(b tsdb.BlockReader, mint, maxt int64) (storage.Querier, error) {
	block, ok := b.(*tsdb.Block)
	if !ok {
		return tsdb.NewBlockQuerier(b, mint, maxt)
	}
	v := &view{s: s, BlockReader: block, mint: mint, maxt: maxt}
	q, err := tsdb.NewBlockQuerier(v, mint, maxt)
	if err != nil {
		return nil, err
	}
	return &carefulQuerier{q, v}, nil
}

// blockChunkQuerier is blockQuerier for remote read.
func (s *Store) blockChunkQuerier(b tsdb.BlockReader, mint, maxt int64) (storage.ChunkQuerier, error) {
	block, ok := b.(*tsdb.Block)
	if !ok {
		return tsdb.NewBlockChunkQuerier(b, mint, maxt)
	}
	v := &view{s: s, BlockReader: block, mint: mint, maxt: maxt}
	q, err := tsdb.NewBlockChunkQuerier(v, mint, maxt)
	if err != nil {
		return nil, err
	}
	return &carefulChunkQuerier{q, v}, nil
}

// view is a block as one querier sees it.
type view struct {
	tsdb.BlockReader
	s          *Store
	mint, maxt int64
	chunks     tsdb.ChunkReader

	mu    sync.Mutex
	index error // the lists of series cannot be read
	names bool  // only the names of series are wanted
	lost  bool
}

func (v *view) id() string { return v.Meta().ULID.String() }

// Index reads the block's index without its damaged parts.
func (v *view) Index() (tsdb.IndexReader, error) {
	r, err := v.BlockReader.Index()
	return &carefulIndex{r, v}, err
}

// Chunks reads the block's chunks.
func (v *view) Chunks() (_ tsdb.ChunkReader, err error) {
	v.chunks, err = v.BlockReader.Chunks()
	return v.chunks, err
}

// begin starts a selection.
func (v *view) begin(hints *storage.SelectHints) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.index, v.names = nil, hints != nil && hints.Func == "series"
}

// failed returns and records the error on the lists of series since begin.
func (v *view) failed() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.index != nil {
		v.lost = true
		m := v.Meta()
		v.s.skip(v.id(), v.index, 0, time.UnixMilli(m.MinTime), time.UnixMilli(m.MaxTime))
	}
	return v.index
}

// warnings returns what the querier left out.
func (v *view) warnings() (out annotations.Annotations) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost {
		for _, l := range v.s.Losses() {
			if l.Part == v.id() && l.Moved.IsZero() {
				out.Add(l)
			}
		}
	}
	return out
}

// carefulIndex leaves out what is damaged.
type carefulIndex struct {
	tsdb.IndexReader
	v *view
}

// Series reads one series and leaves out its chunks with a wrong checksum.
func (r *carefulIndex) Series(ref storage.SeriesRef, b *labels.ScratchBuilder, chks *[]chunks.Meta) error {
	m := r.v.Meta()
	err := r.IndexReader.Series(ref, b, chks)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		r.v.recordLoss(uint64(ref), err, time.UnixMilli(m.MinTime), time.UnixMilli(m.MaxTime))
		return storage.ErrNotFound
	}
	if err != nil || chks == nil || r.v.onlyNames() {
		return err
	}
	*chks = slices.DeleteFunc(*chks, func(c chunks.Meta) bool {
		if c.MaxTime < r.v.mint || c.MinTime > r.v.maxt {
			return false
		}
		_, _, err := r.v.chunks.ChunkOrIterable(c)
		if err != nil {
			r.v.recordLoss(uint64(ref), err, time.UnixMilli(c.MinTime), time.UnixMilli(c.MaxTime))
		}
		return err != nil
	})
	return nil
}

func (v *view) onlyNames() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.names
}

func (v *view) recordLoss(series uint64, err error, from, to time.Time) {
	v.mu.Lock()
	v.lost = true
	v.mu.Unlock()
	v.s.skip(v.id(), err, series, from, to)
}

// listed records an error on the lists of series.
func (r *carefulIndex) listed(err error) {
	if err != nil {
		r.v.mu.Lock()
		r.v.index = err
		r.v.mu.Unlock()
	}
}

// Postings lists the series with a label.
func (r *carefulIndex) Postings(ctx context.Context, name string, values ...string) (index.Postings, error) {
	p, err := r.IndexReader.Postings(ctx, name, values...)
	r.listed(err)
	return p, err
}

// PostingsForLabelMatching lists the series whose label matches.
func (r *carefulIndex) PostingsForLabelMatching(ctx context.Context, name string, match func(string) bool) index.Postings {
	p := r.IndexReader.PostingsForLabelMatching(ctx, name, match)
	r.listed(p.Err())
	return p
}

// PostingsForAllLabelValues lists the series that have a label.
func (r *carefulIndex) PostingsForAllLabelValues(ctx context.Context, name string) index.Postings {
	p := r.IndexReader.PostingsForAllLabelValues(ctx, name)
	r.listed(p.Err())
	return p
}

// LabelValues lists the values of a label.
func (r *carefulIndex) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, error) {
	out, err := r.IndexReader.LabelValues(ctx, name, hints, ms...)
	if ctx.Err() == nil {
		r.listed(err)
	}
	return out, err
}

type carefulQuerier struct {
	storage.Querier
	v *view
}

// Select answers without the damaged parts.
func (q *carefulQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	q.v.begin(hints)
	set := q.Querier.Select(ctx, sorted, hints, ms...)
	if ctx.Err() == nil && q.v.failed() != nil {
		set = storage.EmptySeriesSet()
	}
	return &carefulSet{set, q.v}
}

// LabelValues lists the values of a label; none if the index is damaged.
func (q *carefulQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	q.v.begin(nil)
	out, notes, err := q.Querier.LabelValues(ctx, name, hints, ms...)
	if err != nil && q.v.failed() != nil {
		return nil, q.v.warnings(), nil
	}
	return out, notes, err
}

type carefulSet struct {
	storage.SeriesSet
	v *view
}

// Warnings returns those of the data, and what was left out.
func (s *carefulSet) Warnings() annotations.Annotations {
	out := s.v.warnings()
	out.Merge(s.SeriesSet.Warnings())
	return out
}

type carefulChunkQuerier struct {
	storage.ChunkQuerier
	v *view
}

// Select answers without the damaged parts.
func (q *carefulChunkQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	q.v.begin(hints)
	set := q.ChunkQuerier.Select(ctx, sorted, hints, ms...)
	if ctx.Err() == nil && q.v.failed() != nil {
		set = storage.EmptyChunkSeriesSet()
	}
	return &carefulChunkSet{set, q.v}
}

type carefulChunkSet struct {
	storage.ChunkSeriesSet
	v *view
}

// Warnings returns those of the data, and what was left out.
func (s *carefulChunkSet) Warnings() annotations.Annotations {
	out := s.v.warnings()
	out.Merge(s.ChunkSeriesSet.Warnings())
	return out
}

// skipped is the part of a block that queries left out.
type skipped struct {
	series   map[uint64]bool
	all      bool
	from, to time.Time
}

// skip records that a block has a damaged part, which queries leave out: a series between two times, or all series if
// the reference is 0.
func (s *Store) skip(block string, err error, series uint64, from, to time.Time) {
	have := s.skips.Lock()
	k := (*have)[block]
	if k == nil {
		k = &skipped{series: map[uint64]bool{}, from: from, to: to}
		if *have == nil {
			*have = map[string]*skipped{}
		}
		(*have)[block] = k
	}
	grew := !k.series[series] || from.Before(k.from) || to.After(k.to)
	k.series[series] = true
	k.all = k.all || series == 0
	if from.Before(k.from) {
		k.from = from
	}
	if to.After(k.to) {
		k.to = to
	}
	what := "samples of all series"
	if n := len(k.series); !k.all {
		what = fmt.Sprintf("samples of %d series", n)
	}
	l := repair.Loss{Part: block, Kind: "block", Reason: err.Error(), Lost: what + " " + repair.SpanText(k.from, k.to), From: k.from, To: k.to}
	s.skips.Unlock()
	if grew {
		s.recordLoss(l)
	}
}
