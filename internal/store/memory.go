package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/repair"
)

// Memory keeps the samples of the last Options.Retention, and nothing on a disk: the head of the same database, without
// its log, queried by the same engine. It has no recording rules, no scrapes and no HTTP API. Close forgets everything,
// and so does the end of the process.
type Memory struct {
	opts   Options
	engine *Engine
	local  *local
	head   atomic.Pointer[memoryHead] // nil once closed
	pruned int64                      // when old samples were dropped last, in Unix milliseconds; rounds are locked

	appended, lost atomic.Uint64
	refusals       refusals
	trouble        troubles
}

// memoryHead is one head of a Memory, with its number among the openings of this process.
type memoryHead struct {
	*tsdb.Head
	number uint64
}

func (*memoryHead) unlease() {}

func (h *memoryHead) ordinal() uint64 { return h.number }

// memorySpan is the range of a head in memory. It takes samples that are up to half of it older than the newest.
const memorySpan = 2 * time.Hour

// OpenMemory returns an empty memory. Of the options, Retention, Job, Instance, Interval, Query and Logger count.
func OpenMemory(o Options) (*Memory, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(atLeastWarn{o.Logger.Handler()})
	m := &Memory{opts: o, local: newLocal(o)}
	h, err := m.newHead()
	if err != nil {
		return nil, err
	}
	m.head.Store(h)
	m.engine = NewEngine(o.Query, nil, o.Logger)
	return m, nil
}

// newHead makes a head. Prometheus wants a folder for full chunks, which it writes only when told to, as a store does each
// minute. Nobody does here, so the folder is gone before the first sample.
func (m *Memory) newHead() (_ *memoryHead, err error) {
	dir, err := passingFolder()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ho := tsdb.DefaultHeadOptions()
	ho.ChunkDirRoot, ho.ChunkRange, ho.StripeSize = dir, memorySpan.Milliseconds(), stripes
	h, err := tsdb.NewHead(nil, m.opts.Logger, nil, nil, ho, tsdb.NewHeadStats())
	if err != nil {
		return nil, fmt.Errorf("open a store in memory: %w", err)
	}
	if err := h.Init(math.MinInt64); err != nil {
		return nil, fmt.Errorf("open a store in memory: %w", errors.Join(err, h.Close()))
	}
	return &memoryHead{h, openings.Add(1)}, nil
}

// passingFolder makes an empty folder in the first place that can be written to.
func passingFolder() (string, error) {
	places := []string{os.TempDir(), "/dev/shm", "/run", "/var/tmp", "."}
	var errs []error
	for i, place := range places {
		if slices.Contains(places[:i], place) {
			continue
		}
		dir, err := os.MkdirTemp(place, "teescope-")
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("make an empty folder for a moment: %w; set TMPDIR to a folder that can be written to", errors.Join(errs...))
}

// forget closes a head. One with full chunks would write them first, so it is emptied; that waits for running queries.
func (h *memoryHead) forget() (err error) {
	defer repair.RecoverError("close a store in memory", &err)
	if h.NumSeries() > 0 {
		if err := h.Truncate(h.MaxTime() + 1); err != nil {
			return err
		}
	}
	return h.Close()
}

// Append keeps one round, as [Store.Append] stores one. If the clock went back, what is later is forgotten.
func (m *Memory) Append(t time.Time, samples []metric.Sample) error {
	r := m.local.rounds.Lock()
	defer m.local.rounds.Unlock()
	at := t.UnixMilli()
	next := at + m.opts.Interval.Milliseconds()
	n, err := r.append(m, at, next, samples)
	if errors.Is(err, errWentBack) {
		if err = m.beginAnew(); err == nil {
			r.last, m.pruned = 0, at
			n, err = r.append(m, at, next, samples)
		}
	}
	var some *Refused
	if r.last = at; err != nil && !errors.As(err, &some) {
		r.last = 0
	}
	if some != nil {
		m.refusals.add(some.byReason)
	}
	m.appended.Add(uint64(n))
	m.lost.Add(uint64(valuesOf(samples) - n))
	m.trouble.set("append", err)
	m.prune(at)
	return err
}

// beginAnew replaces the head by an empty one.
func (m *Memory) beginAnew() error {
	next, err := m.newHead()
	if err != nil {
		return err
	}
	old := m.head.Load()
	if old == nil || !m.head.CompareAndSwap(old, next) {
		return errors.Join(errClosed, next.forget())
	}
	return old.forget()
}

// pruneEvery is how often old samples are dropped. They go by chunks, so up to a chunk more is kept.
const pruneEvery = time.Minute

// prune drops samples that are older than the retention. Rounds are locked.
func (m *Memory) prune(now int64) {
	h := m.head.Load()
	if h == nil || now-m.pruned < pruneEvery.Milliseconds() {
		return
	}
	m.pruned = now
	if err := h.Truncate(now - m.opts.Retention.Milliseconds()); err != nil {
		m.trouble.set("write", fmt.Errorf("drop old samples: %w", err))
	}
}

func (m *Memory) begin() (opening, error) {
	if h := m.head.Load(); h != nil {
		return h, nil
	}
	return nil, errClosed
}

func (m *Memory) finish(_ opening, a storage.Appender) error { return a.Commit() }

func (m *Memory) undo(_ opening, a storage.Appender) error { return a.Rollback() }

// Query evaluates expr at a point in time; see Eval for what it returns.
func (m *Memory) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	return Eval(ctx, m.engine, remembered{m}, expr, at)
}

// QueryRange evaluates expr at every step from one time to another; see EvalRange for what it returns.
func (m *Memory) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
	return EvalRange(ctx, m.engine, remembered{m}, expr, from, to, step)
}

// remembered is a Memory as the engine sees it.
type remembered struct{ m *Memory }

// Querier opens a view of a span of time in milliseconds, as tsdb.DB does of its head.
func (r remembered) Querier(mint, maxt int64) (storage.Querier, error) {
	h := r.m.head.Load()
	if h == nil {
		return nil, errClosed
	}
	view := func(from int64) (storage.Querier, error) {
		return tsdb.NewBlockQuerier(tsdb.NewRangeHead(h.Head, from, maxt), from, maxt)
	}
	q, err := view(mint)
	if err != nil {
		return nil, err
	}
	truncated, again, from := h.IsQuerierCollidingWithTruncation(mint, maxt)
	if !truncated {
		return q, nil
	}
	if err := q.Close(); err != nil {
		return nil, err
	}
	if !again {
		return storage.NoopQuerier(), nil
	}
	return view(from)
}

// Failure knows of no scrape.
func (*Memory) Failure(string, string) string { return "" }

// ApplyConfig refuses every configuration.
func (*Memory) ApplyConfig(*ScrapeConfig) error {
	return errors.New("a store in memory scrapes no targets and sends to no receivers")
}

// Err returns the current trouble: samples are refused.
func (m *Memory) Err() error { return m.trouble.err() }

// Refusing is [Store.Refusing].
func (m *Memory) Refusing() error { return m.trouble.refusing() }

// Collect emits those metrics of a store that a memory has.
func (m *Memory) Collect(emit func(metric.Sample)) {
	if h := m.head.Load(); h != nil {
		emit(metric.Sample{Desc: descSeries, Value: float64(h.NumSeries())})
	}
	emit(metric.Sample{Desc: descAppended, Value: float64(m.appended.Load())})
	emit(metric.Sample{Desc: descLost, Value: float64(m.lost.Load())})
	m.refusals.collect(emit)
}

// Close forgets everything. Later calls do nothing.
func (m *Memory) Close() error {
	// Nobody may append to a head that is being closed.
	m.local.rounds.Lock()
	defer m.local.rounds.Unlock()
	h := m.head.Swap(nil)
	if h == nil {
		return nil
	}
	return errors.Join(h.forget(), m.engine.Close())
}
