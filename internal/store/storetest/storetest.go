// Package storetest gives tests a store that is loaded from text in the PromQL
// test notation of Prometheus, so that a rule's fixture is a file that a reader
// of PromQL can follow:
//
//	load 15s
//	  tee_syscalls_total{process="redis",syscall="read"} 0+150x40
//
// The first column is at the Unix epoch, time.Unix(0, 0). Values are written as
// "start+step xN", "_" is a gap and "stale" ends a series; see
// https://github.com/prometheus/prometheus/blob/main/promql/promqltest/README.md
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// Store answers queries over loaded series exactly as the real store does.
type Store struct {
	engine *store.Engine
	data   storage.Queryable
}

// Load returns a store with the series of text; text that does not parse fails
// the test. It is closed when the test ends.
func Load(t testing.TB, text string) *Store {
	t.Helper()
	data := promqltest.LoadedStorage(t, text)
	engine := store.NewEngine(store.DefaultEngineOptions(), nil, nil)
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Store{engine: engine, data: data}
}

// Query evaluates expr at a point in time, like store.Store.Query.
func (s *Store) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	return store.Eval(ctx, s.engine, s.data, expr, at)
}

// QueryRange evaluates expr at every step, like store.Store.QueryRange.
func (s *Store) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
	return store.EvalRange(ctx, s.engine, s.data, expr, from, to, step)
}
