package store

// Answers queries for rules, pages and the API. Rules have an engine of their own, so pages never delay them; each
// engine has limits (limit.go).

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/quota"
)

// EngineOptions bound the cost of one query. A query beyond a limit ends with an error;
// it never takes the monitor down.
type EngineOptions struct {
	// MaxSamples is how many samples a query may hold in memory at once, 16 bytes each.
	MaxSamples int
	Timeout    time.Duration
	// Concurrent is how many queries run at once; others wait within their timeout. 0
	// is no limit.
	Concurrent int
	// Lookback is how far an instant selector looks back for a sample.
	Lookback time.Duration
	// MaxLooked is how many values the functions of a query may look at, by an estimate before it is evaluated; MaxAlone is how
	// many of them may be of one series, since only between series a query looks whether its time is over. 0 is no limit.
	MaxLooked, MaxAlone float64
	// Interval is the time between two samples, for that estimate.
	Interval time.Duration
	// Memory has the shares that queries and answers use; nil: unlimited.
	Memory *quota.Budget
}

// DefaultEngineOptions suit a monitor that shares its host with the workload: two
// million samples are 32 MB for a moment, ten times what the view of a day uses.
func DefaultEngineOptions() EngineOptions {
	return EngineOptions{MaxSamples: 2_000_000, Timeout: 30 * time.Second, Concurrent: 4, Lookback: 5 * time.Minute, Interval: 5 * time.Second}
}

const (
	// maxLooked is MaxLooked of pages and of the API: more than what a query can look at within its time, at some 300 million
	// values a second. The page's most expensive charts, over 15 days, look at a million values of each series.
	maxLooked = 20e9
	// maxAlone is MaxAlone of them: a fraction of a second. Windows of four hours in steps of one, over 15 days, are 1 million.
	maxAlone = 100e6
	// valueBytes is a value in the engine's memory: promql.FPoint.
	valueBytes = 16
	// openedBytes is a series that is opened, in each part of the span where it has samples: its labels and its list of chunks.
	openedBytes = 1 << 10
	// encodedBytes is a value of an answer of the API with its JSON while that is made.
	encodedBytes = 64
	// labelBytes is a series of an answer without its labels, and labelFactor what a byte of them takes: twice, some of them escaped.
	labelBytes, labelFactor = 512, 3
	// pageValueBytes is a value of a page's query while its lines are made: the engine's and the line's.
	pageValueBytes = valueBytes + 8
)

// ofPages are the options of the engine for pages and the API: within o, what everybody may ask for.
func (o EngineOptions) ofPages() EngineOptions {
	o.MaxLooked, o.MaxAlone = maxLooked, maxAlone
	if o.Memory != nil {
		o.MaxSamples = min(o.MaxSamples, int(o.Memory.Queries.Limit/pageValueBytes))
	}
	return o
}

// largeQuery is the memory in bytes from which it pays to count the series of a query before it is reserved.
func (o EngineOptions) largeQuery() int64 {
	if o.Memory == nil {
		return math.MaxInt64
	}
	return o.Memory.Queries.Limit / int64(max(1, o.Concurrent))
}

// maxPageValues is how many values a chart's answer may have, absent ones included: they are kept, copied and encoded.
func (o EngineOptions) maxPageValues() int {
	if o.Memory == nil {
		return math.MaxInt
	}
	return int(o.Memory.Answers.Limit / pageValueBytes) // no fewer than the engine gives
}

// NewEngine returns a PromQL engine with these limits. With a nil registry it keeps no
// metrics, with a nil logger no log.
func NewEngine(o EngineOptions, reg prometheus.Registerer, log *slog.Logger) *Engine {
	opts := promql.EngineOpts{
		Logger:                   log,
		Reg:                      reg,
		MaxSamples:               o.MaxSamples,
		Timeout:                  o.Timeout,
		LookbackDelta:            o.Lookback,
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return subqueryStep.Milliseconds() },
		Parser:                   parser.NewParser(parser.Options{}),
	}
	e := &Engine{Engine: promql.NewEngine(opts), opts: o, parser: opts.Parser}
	if o.Concurrent > 0 {
		e.queue = make(chan struct{}, o.Concurrent)
	}
	return e
}

// queue limits the number of queries that run at once; nil has no limit.
type queue chan struct{}

// enter waits for a place, which release gives back. Callers of the engine distinguish its errors: the API answers "timeout" instead
// of blaming the query, and a rule that is aborted when the monitor stops has not failed.
func (q queue) enter(ctx context.Context) error {
	if q == nil {
		return nil
	}
	select {
	case q <- struct{}{}:
		return nil
	case <-ctx.Done():
		return promqlError(ctx, fmt.Sprintf("waiting for %d other queries", cap(q)))
	}
}

func (q queue) release() {
	if q != nil {
		<-q
	}
}

// subqueryStep is the default step of subqueries.
const subqueryStep = 15 * time.Second

// CheckExpr returns why a PromQL expression cannot be drawn, nil if it can: a range vector or a string cannot.
func CheckExpr(expr string) error {
	if tooDeep(expr) {
		return errTooDeep
	}
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return err
	}
	if t := e.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return fmt.Errorf("%s gives a %s; want an instant vector or a scalar, as of rate(...)", expr, parser.DocumentedType(t))
	}
	return nil
}

// Eval evaluates expr at a point in time and returns a vector's elements, or a scalar as one point without labels.
// Elements that are not a number (0/0, a quantile of nothing) are absent values and left out. It fails for a range
// vector, a string, and anything that PromQL refuses.
func Eval(ctx context.Context, e promql.QueryEngine, q storage.Queryable, expr string, at time.Time) ([]metric.Point, error) {
	query, err := e.NewInstantQuery(ctx, q, nil, expr, at)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	defer query.Close()
	res := query.Exec(ctx)
	if res.Err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, res.Err)
	}
	switch v := res.Value.(type) {
	case promql.Scalar:
		if math.IsNaN(v.V) {
			return nil, nil
		}
		return []metric.Point{{Labels: map[string]string{}, Value: v.V}}, nil
	case promql.Vector:
		points := make([]metric.Point, 0, len(v))
		for i := range v {
			if v[i].H == nil && !math.IsNaN(v[i].F) {
				points = append(points, metric.Point{Labels: v[i].Metric.Map(), Value: v[i].F})
			}
		}
		return points, nil
	}
	return nil, fmt.Errorf("query %s: result is a %s, want a vector or a scalar", expr, res.Value.Type())
}

// EvalRange evaluates expr at every step from one time to another, both included.
// Values that are not a number are left out, and so are series without any.
func EvalRange(ctx context.Context, e promql.QueryEngine, q storage.Queryable, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
	query, err := e.NewRangeQuery(ctx, q, nil, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	defer query.Close()
	matrix, err := query.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	var out []metric.Series
	for i := range matrix {
		s := metric.Series{Labels: matrix[i].Metric.Map()}
		for _, p := range matrix[i].Floats {
			if !math.IsNaN(p.F) {
				s.At = append(s.At, time.UnixMilli(p.T))
				s.Values = append(s.Values, p.F)
			}
		}
		if len(s.Values) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}
