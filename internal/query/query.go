// Package query is how everything that computes with stored series asks for them: who answers PromQL, which machine
// and process a query is about, and how the text of a query is written. It knows neither the store nor any metric's
// meaning.
package query

import (
	"context"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// Querier evaluates PromQL at a point in time. The store implements it.
type Querier interface {
	Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error)
}

// RangeQuerier also evaluates PromQL at every step from one time to another,
// inclusive. The store implements it.
type RangeQuerier interface {
	Querier
	QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error)
}
