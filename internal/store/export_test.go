package store

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/store/repair"
	"github.com/teescope/teescope/internal/store/space"
)

// EachMinute does now what the store does each minute.
func (s *Store) EachMinute() { s.eachMinute() }

// Engine answers the monitor's own queries and the recording rules.
func (s *Store) Engine() *Engine { return s.engine }

// Appendable is what scrapes and recording rules write to.
func (s *Store) Appendable() storage.Appendable { return door{s} }

// Tear does what a failed write does.
func (q *Queue) Tear() { _ = q.note(errTorn) }

// LimitAnswers bounds an engine's answers, in bytes.
func (o *RemoteOptions) LimitAnswers(n int64) { o.limit = n }

// Poke makes the queues of remote write look at the log now, as the next round would.
func (t *tally) Poke() { t.send.Notify() }

// Break makes the scrapes of a job panic in Prometheus' own code, while it parses a page.
func (c *ScrapeConfig) Break(job string) {
	for _, sc := range c.config.ScrapeConfigs {
		if sc.JobName == job {
			sc.MetricRelabelConfigs = []*relabel.Config{{Action: "planted"}}
		}
	}
}

// Limits are those of the first job: bytes of a page, samples, targets, dropped targets that are kept.
func (c *ScrapeConfig) Limits() [4]int {
	sc := c.config.ScrapeConfigs[0]
	return [4]int{int(sc.BodySizeLimit), int(sc.SampleLimit), int(sc.TargetLimit), int(sc.KeepDroppedTargets)}
}

// Reboot makes it another boot of the machine, a minute ago.
func (o *Options) Reboot(id string) {
	o.boot = func() (string, time.Duration) { return id, time.Minute }
}

// Discovered contains a discovery.
func Discovered(c discovery.Config) discovery.Config { return discovered{c} }

// Evaluate evaluates recording rules once.
var Evaluate = evaluate

// CheckFolder does what Open does before it opens the database.
func CheckFolder(o Options) error {
	return closed(o).folder.Check()
}

// Discard deletes a part that blocks hold, and returns what they do not hold.
func Discard(o Options, part string, by []string) ([]repair.Loss, error) {
	s := closed(o)
	err := s.folder.Discard(part, by)
	return s.Losses(), err
}

// closed is a store without a database.
func closed(o Options) *Store {
	o.Now = time.Now
	s := &Store{opts: o, log: slog.New(slog.DiscardHandler), reserve: space.Reserve{Path: filepath.Join(o.Dir, "reserve"), Size: o.Reserve}}
	s.folder = s.newFolder()
	return s
}

// The limits of queries of pages and of the API.
const (
	MaxLooked = maxLooked
	MaxAlone  = maxAlone
)

// BodyLimit is the largest page of a scrape without a limit of its own.
var BodyLimit = bodyLimit

// Pages answers pages and the API.
func (s *Store) Pages() *Engine { return s.pages }

// Estimate computes what an expression costs at each step of a span that ends now, where each selector matches so many series, with
// samples every five seconds for a month.
func Estimate(expr string, span, step time.Duration, series float64) (looked, alone float64, err error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	now := time.Now()
	e := estimator{held: spread{series, now.Add(-30 * 24 * time.Hour).UnixMilli(), now.UnixMilli()}, interval: 5000, lookback: 300_000, count: func(*parser.VectorSelector, int64, int64) shape { return shape{series: series, ever: series} }}
	if err == nil {
		parsed, err = promql.PreprocessExpr(parsed, now.Add(-span), now, step)
	}
	if err == nil {
		e.part(parsed, now.Add(-span).UnixMilli(), now.UnixMilli(), step.Milliseconds())
	}
	return e.looked, e.alone, err
}

// Cost computes the values in memory and the widest labels of a query of pages.
func (s *Store) Cost(ctx context.Context, expr string, from, to time.Time, step, lookback time.Duration) (values, widest float64, err error) {
	c, err := s.pages.estimate(ctx, &bounds{q: door{s}, expr: expr, from: from, to: to, step: step, lookback: lookback})
	return c.values, c.widest, err
}

// Queryable is what the engines read.
func (s *Store) Queryable() storage.Queryable { return door{s} }
