//go:build linux

package monitor

import (
	"context"
	"net/http"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store"
)

// keeper takes the samples of a monitor: a store, the queue of agent mode, or nothing.
type keeper interface {
	Append(at time.Time, samples []metric.Sample) error
	ApplyConfig(c *store.ScrapeConfig) error
	Collect(emit func(metric.Sample))
	Failure(job, instance string) string
	Err() error
	// Refusing returns why samples are not stored now, nil while they are.
	Refusing() error
	Close() error
}

// series answers queries of the rules and explanations: the monitor's store, an engine elsewhere, or the memory of one
// command.
type series interface {
	query.RangeQuerier
	Err() error
}

// served is a series that pages and the API ask, too.
type served interface {
	series
	Steps(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error)
	Notes(ctx context.Context, expr string, from, to time.Time) []string
	Handler() http.Handler
}

var (
	_ keeper = (*store.Store)(nil)
	_ keeper = (*store.Queue)(nil)
	_ keeper = (*store.Nothing)(nil)
	_ keeper = (*store.Memory)(nil)
	_ served = (*store.Store)(nil)
	_ served = (*store.Remote)(nil)
	_ series = (*store.Memory)(nil)
)
