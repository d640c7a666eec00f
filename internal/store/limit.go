package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// Engine is a PromQL engine. When it aborts a query, it names the exceeded limit, on
// samples or on time, and suggests what to ask instead.
type Engine struct {
	*promql.Engine
	opts EngineOptions
}

// NewInstantQuery prepares a query at a moment.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, expr string, at time.Time) (promql.Query, error) {
	query, err := e.Engine.NewInstantQuery(ctx, q, opts, expr, at)
	if err != nil {
		return nil, err
	}
	return bounds{query, e.opts}, nil
}

// NewRangeQuery prepares a query at every step of a span of time.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, expr string, from, to time.Time, step time.Duration) (promql.Query, error) {
	query, err := e.Engine.NewRangeQuery(ctx, q, opts, expr, from, to, step)
	if err != nil {
		return nil, err
	}
	return bounds{query, e.opts}, nil
}

// bounds is a query whose error names the exceeded limit.
type bounds struct {
	promql.Query
	opts EngineOptions
}

// Exec runs the query.
func (b bounds) Exec(ctx context.Context) *promql.Result {
	limit := b.opts.Timeout.String()
	if until, ok := ctx.Deadline(); ok && time.Until(until) < b.opts.Timeout {
		limit = "that of the request"
	}
	res := b.Query.Exec(ctx)
	const instead = "ask for fewer series, less time or a longer step"
	switch {
	case errors.As(res.Err, new(promql.ErrTooManySamples)):
		res.Err = fmt.Errorf("%w: the limit is %d at once; %s", res.Err, b.opts.MaxSamples, instead)
	case errors.As(res.Err, new(promql.ErrQueryTimeout)):
		res.Err = fmt.Errorf("%w: the limit is %s; %s", res.Err, limit, instead)
	}
	return res
}
