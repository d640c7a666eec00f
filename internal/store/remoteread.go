package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/teescope/teescope/internal/quota"
)

// Remote read bypasses the engine, and Prometheus' handler counts the samples of each query apart. So a call has its own queue, few
// queries, and its samples are reserved as they are read.
const (
	remoteReadConcurrent = 2
	remoteReadFrame      = 1 << 20
	remoteReadQueries    = 16
	// readSampleBytes is what a sample takes until it is sent: 16 bytes in a list that grows, 20 as protobuf, 24 compressed.
	readSampleBytes = 96
)

// readInTurn answers remote reads within the memory of answers.
func (s *Store) readInTurn(next http.Handler) http.HandlerFunc {
	turns := make(queue, remoteReadConcurrent)
	return func(w http.ResponseWriter, r *http.Request) {
		body, code, err := remoteReadBody(r) // before its turn: a slow client holds up nobody
		if err != nil {
			http.Error(w, err.Error(), code)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.opts.Query.Timeout)
		defer cancel()
		if err := turns.enter(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer turns.release()
		taken := &remoteReading{memory: s.pages.answers().Growing()}
		defer taken.memory.Release()
		r = plain(r.WithContext(context.WithValue(ctx, remoteReading{}, taken)))
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(&remoteReadAnswer{w, taken}, r)
	}
}

// remoteReadBody returns the body of a call, or why it is refused: a small one can say that it expands to much.
func remoteReadBody(r *http.Request) (body []byte, code int, err error) {
	body, err = io.ReadAll(r.Body)
	var full *quota.Exceeded
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the call is longer than %d KiB: ask for less at once", callLimit>>10)
	case errors.As(err, &full):
		return nil, full.Status(), err
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read the call: %w", err)
	}
	if size, n := binary.Uvarint(body); n > 0 && size > callLimit { // of a block of snappy; Prometheus refuses what is none
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the call expands to more than %d KiB: ask for less at once", callLimit>>10)
	}
	asked := r.Clone(r.Context())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	req, err := remote.DecodeReadRequest(asked)
	switch {
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read the call: %w", err)
	case len(req.Queries) > remoteReadQueries:
		return nil, http.StatusUnprocessableEntity, fmt.Errorf("%d queries in one call, the limit is %d: make several calls", len(req.Queries), remoteReadQueries)
	}
	return body, 0, nil
}

// remoteReading is what the queries of a call have taken together. It is also the key of its own value in a context.
type remoteReading struct {
	memory  *quota.Growing
	chunks  bool // frames of chunks are reserved
	refused error
}

// add reserves n bytes, unless the call has to end.
func (t *remoteReading) add(ctx context.Context, n int64) bool {
	switch {
	case t.refused != nil:
	case ctx.Err() != nil:
		t.refused = promqlError(ctx, "reading samples")
	default:
		if err := t.memory.Add(n); err != nil {
			t.refused = fmt.Errorf("%w: ask for fewer series or less time", err)
		}
	}
	return t.refused == nil
}

// remoteReadAnswer gives refusals their status: Prometheus answers 500.
type remoteReadAnswer struct {
	http.ResponseWriter
	taken *remoteReading
}

// WriteHeader is that of http.ResponseWriter.
func (a *remoteReadAnswer) WriteHeader(code int) {
	if code >= http.StatusBadRequest {
		a.Header().Del("Content-Encoding") // Prometheus set that of an answer
	}
	if code == http.StatusInternalServerError && a.taken.refused != nil {
		code = http.StatusServiceUnavailable
		var full *quota.Exceeded
		if errors.As(a.taken.refused, &full) {
			code = full.Status()
		}
	}
	a.ResponseWriter.WriteHeader(code)
}

// Flush sends what there is.
func (a *remoteReadAnswer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (a *remoteReadAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// reserving is a door that reserves what a remote read selects.
type reserving struct{ noted }

// Querier opens a view of a span of time in milliseconds.
func (d reserving) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := d.noted.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return reservingQuerier{q}, nil
}

// ChunkQuerier is Querier for streams of chunks.
func (d reserving) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := d.noted.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return reservingChunkQuerier{q}, nil
}

type reservingQuerier struct{ storage.Querier }

// Select returns series, reserved one by one.
func (q reservingQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set := q.Querier.Select(ctx, sorted, hints, ms...)
	if taken, ok := ctx.Value(remoteReading{}).(*remoteReading); ok {
		return &reservedSet{set, ctx, taken}
	}
	return set
}

type reservedSet struct {
	storage.SeriesSet
	ctx   context.Context
	taken *remoteReading
}

// Next goes to the next series.
func (s *reservedSet) Next() bool { return s.taken.add(s.ctx, labelBytes) && s.SeriesSet.Next() }

// Err is why there are no more.
func (s *reservedSet) Err() error {
	if s.taken.refused != nil {
		return s.taken.refused
	}
	return s.SeriesSet.Err()
}

// Warnings returns none: remote read cannot send them, so Prometheus would log them, with which any user could fill the log.
func (s *reservedSet) Warnings() annotations.Annotations { return nil }

// At returns the series.
func (s *reservedSet) At() storage.Series { return reservedSeries{s.SeriesSet.At(), s} }

type reservedSeries struct {
	storage.Series
	set *reservedSet
}

// Iterator returns the samples.
func (s reservedSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if r, ok := it.(*reservedIterator); ok {
		it = r.Iterator
	}
	return &reservedIterator{Iterator: s.Series.Iterator(it), set: s.set}
}

type reservedIterator struct {
	chunkenc.Iterator
	set  *reservedSet
	left int64 // bytes that are reserved and not used
}

// Next goes to the next sample.
func (i *reservedIterator) Next() chunkenc.ValueType {
	t := i.Iterator.Next()
	need := int64(readSampleBytes)
	switch t {
	case chunkenc.ValNone:
		return t
	case chunkenc.ValHistogram, chunkenc.ValFloatHistogram:
		need *= 16
	}
	if i.left < need {
		piece := max(need, 8*readSampleBytes) // most series of a short time have few samples
		if !i.set.taken.add(i.set.ctx, piece) {
			return chunkenc.ValNone
		}
		i.left += piece
	}
	i.left -= need
	return t
}

// Err is why there are no more.
func (i *reservedIterator) Err() error {
	if i.set.taken.refused != nil {
		return i.set.taken.refused
	}
	return i.Iterator.Err()
}

type reservingChunkQuerier struct{ storage.ChunkQuerier }

// Select returns series whose chunks are sent in frames as they are read: a call holds a frame, encodes it and sends it.
func (q reservingChunkQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	taken, ok := ctx.Value(remoteReading{}).(*remoteReading)
	if !ok {
		return q.ChunkQuerier.Select(ctx, sorted, hints, ms...)
	}
	if !taken.chunks && taken.add(ctx, 3*remoteReadFrame) {
		taken.chunks = true
	}
	return &reservedChunkSet{q.ChunkQuerier.Select(ctx, sorted, hints, ms...), ctx, taken}
}

type reservedChunkSet struct {
	storage.ChunkSeriesSet
	ctx   context.Context
	taken *remoteReading
}

// Next goes to the next series.
func (s *reservedChunkSet) Next() bool { return s.taken.add(s.ctx, 0) && s.ChunkSeriesSet.Next() }

// Err is why there are no more.
func (s *reservedChunkSet) Err() error {
	if s.taken.refused != nil {
		return s.taken.refused
	}
	return s.ChunkSeriesSet.Err()
}

// Warnings returns none, as those of a reservedSet.
func (s *reservedChunkSet) Warnings() annotations.Annotations { return nil }
