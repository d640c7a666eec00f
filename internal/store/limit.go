package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/teescope/teescope/internal/quota"
)

// Engine is a PromQL engine with limits on what a query costs, waits and holds. When it refuses or aborts a query, it names the
// exceeded limit and suggests what to ask instead.
type Engine struct {
	*promql.Engine
	opts   EngineOptions
	parser parser.Parser
	queue  queue
}

// NewInstantQuery prepares a query at a moment.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, expr string, at time.Time) (promql.Query, error) {
	return e.prepare(ctx, bounds{engine: e, q: q, expr: expr, from: at, to: at, lookback: e.lookback(opts)}, func() (promql.Query, error) {
		return e.Engine.NewInstantQuery(ctx, q, opts, expr, at)
	})
}

// NewRangeQuery prepares a query at every step of a span of time.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, expr string, from, to time.Time, step time.Duration) (promql.Query, error) {
	return e.prepare(ctx, bounds{engine: e, q: q, expr: expr, from: from, to: to, step: step, lookback: e.lookback(opts)}, func() (promql.Query, error) {
		return e.Engine.NewRangeQuery(ctx, q, opts, expr, from, to, step)
	})
}

// parseWait is how long an expression waits for the memory of others: most are parsed and evaluated in less.
const parseWait = 2 * time.Second

// lookback is how far the selectors of a query look back.
func (e *Engine) lookback(opts promql.QueryOpts) time.Duration {
	if opts != nil && opts.LookbackDelta() > 0 {
		return opts.LookbackDelta()
	}
	return cmp.Or(e.opts.Lookback, 5*time.Minute) // the engine's default
}

// prepare parses a query in its turn. That it has to wait too long is the error of its execution: the API takes an error of the
// preparation for a fault of the expression.
func (e *Engine) prepare(ctx context.Context, b bounds, parse func() (promql.Query, error)) (promql.Query, error) {
	b.until = time.Now().Add(e.opts.Timeout)
	if tooDeep(b.expr) {
		return nil, errTooDeep
	}
	parsed, err := e.requests().ReserveWithin(ctx, parsedBytes(b.expr), parseWait)
	if full := new(quota.Exceeded); errors.As(err, &full) && !full.Busy() {
		err = fmt.Errorf("%w: shorten the query, with fewer operators and simpler regular expressions", err)
	}
	if err != nil {
		return &refusedBefore{b.expr, b.explained(ctx, err)}, nil
	}
	b.parsed = parsed
	wait, cancel := context.WithDeadline(ctx, b.until)
	defer cancel()
	if err := e.queue.enter(wait); err != nil {
		parsed()
		return &refusedBefore{b.expr, b.explained(ctx, err)}, nil
	}
	defer e.queue.release()
	if b.Query, err = parse(); err != nil {
		parsed()
		return nil, err
	}
	return &b, nil
}

func (e *Engine) requests() *quota.Share {
	if e.opts.Memory == nil {
		return nil
	}
	return e.opts.Memory.Requests
}

func (e *Engine) queries() *quota.Share {
	if e.opts.Memory == nil {
		return nil
	}
	return e.opts.Memory.Queries
}

func (e *Engine) answers() *quota.Share {
	if e.opts.Memory == nil {
		return nil
	}
	return e.opts.Memory.Answers
}

// bounds is a query within the limits of its engine.
type bounds struct {
	promql.Query
	engine   *Engine
	q        storage.Queryable
	expr     string
	from, to time.Time
	step     time.Duration
	lookback time.Duration
	until    time.Time // when it has to be done, waiting included
	parsed   func()    // releases the memory of the expression
	answer   func()    // releases the memory of the answer, or nil
}

// Exec waits for the query's turn and runs it, within its time.
func (b *bounds) Exec(ctx context.Context) *promql.Result {
	within, cancel := context.WithDeadline(ctx, b.until)
	defer cancel()
	res := b.exec(within)
	res.Err = b.explained(ctx, res.Err)
	return res
}

func (b *bounds) exec(ctx context.Context) *promql.Result {
	defer b.parsed() // the answer holds no expression
	if err := b.engine.queue.enter(ctx); err != nil {
		return &promql.Result{Err: err}
	}
	defer b.engine.queue.release()
	c, err := b.engine.estimate(ctx, b)
	if err != nil {
		return &promql.Result{Err: err}
	}
	need := c.bytes(b.engine.opts.MaxSamples)
	asIs := ctx.Value(notEncoded{}) != nil
	if asIs {
		need = need * pageValueBytes / valueBytes // what is evaluated, and then its lines
	}
	evaluated, err := b.engine.wait(ctx, need)
	if err != nil {
		if ctx.Err() != nil {
			err = promqlError(ctx, "waiting for the memory of other queries")
		}
		return &promql.Result{Err: err}
	}
	if asIs {
		b.answer = evaluated
		return b.Query.Exec(ctx)
	}
	defer evaluated()
	res := b.Query.Exec(ctx)
	if res.Err == nil {
		b.answer, res.Err = b.engine.answers().Reserve(answerBytes(res.Value))
	}
	return res
}

// wait waits until others have given back the memory for a query; a very large one gets all.
func (e *Engine) wait(ctx context.Context, bytes int64) (release func(), err error) {
	s := e.queries()
	if s == nil {
		return func() {}, nil
	}
	return s.Wait(ctx, min(bytes, s.Limit))
}

// explained adds the limit to an error, and what to ask instead.
func (b *bounds) explained(ctx context.Context, err error) error {
	const instead = "ask for fewer series, less time or a longer step"
	limit := b.engine.opts.Timeout.String()
	if until, ok := ctx.Deadline(); ok && until.Before(b.until) {
		limit = "that of the request"
	}
	var full *quota.Exceeded
	switch {
	case errors.As(err, new(promql.ErrTooManySamples)):
		return fmt.Errorf("%w: the limit is %d at once; %s", err, b.engine.opts.MaxSamples, instead)
	case errors.As(err, new(promql.ErrQueryTimeout)):
		return fmt.Errorf("%w: the limit is %s; %s", err, limit, instead)
	case errors.As(err, &full) && !full.Busy() && full.Share != b.engine.requests().Name:
		return fmt.Errorf("%w: %s", err, instead)
	}
	return err
}

// Close releases what the query holds.
func (b *bounds) Close() {
	b.Query.Close()
	b.parsed()
	if b.answer != nil {
		b.answer()
	}
}

// notEncoded marks the context of a query whose answer is used as it is, until it is closed.
type notEncoded struct{}

// answerBytes is what holding and sending an answer takes.
func answerBytes(v parser.Value) int64 {
	switch v := v.(type) {
	case promql.Matrix:
		n := int64(0)
		for i := range v {
			n += int64(len(v[i].Floats))*encodedBytes + int64(len(v[i].Histograms))*encodedBytes*16 + labelBytes + labelFactor*lengthOf(v[i].Metric)
		}
		return n
	case promql.Vector:
		n := int64(0)
		for i := range v {
			n += encodedBytes + labelBytes + labelFactor*lengthOf(v[i].Metric)
		}
		return n
	}
	return 0
}

// lengthOf returns how many bytes labels have.
func lengthOf(ls labels.Labels) (n int64) {
	ls.Range(func(l labels.Label) { n += int64(len(l.Name) + len(l.Value)) })
	return n
}

// refusedBefore is a query that could not be prepared in time, or within the memory of queries.
type refusedBefore struct {
	expr string
	err  error
}

// Exec returns why.
func (r *refusedBefore) Exec(context.Context) *promql.Result { return &promql.Result{Err: r.err} }

// Close does nothing, as do the others.
func (r *refusedBefore) Close()                      {}
func (r *refusedBefore) Statement() parser.Statement { return nil }
func (r *refusedBefore) Stats() *stats.Statistics    { return &stats.Statistics{} }
func (r *refusedBefore) Cancel()                     {}
func (r *refusedBefore) String() string              { return r.expr }
