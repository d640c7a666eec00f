package store

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/locked"
)

// Scrapes, discovery and recording rules run in goroutines of Prometheus, which recover nothing: one page that its parser
// cannot bear would end the monitor. Discovery and rules take functions of ours. A scrape has one seam, its trace: it
// defers the end of its span, and a method that is deferred may recover. OpenTelemetry's own spans recover there too.
//
// Not contained, because nothing of ours is below them in their goroutines: the loops around scrapes, which call only
// what is contained and the store; the relabelling of discovered targets, whose regular expressions and actions the
// configuration's check has compiled; net/http's connections; and the informers of Kubernetes' client, which recover to
// log, and panic again.

// tracing has spans that contain scrapes; all others do nothing.
type tracing struct{ noop.TracerProvider }

func (tracing) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{} }

type tracer struct{ noop.Tracer }

// The spans of Prometheus' scrapes: all of one, and its report, which is deferred and so runs after a panic too.
const (
	spanScrape = "scrape"
	spanReport = "scrapeReport"
)

func (t tracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	switch target, ok := scrape.TargetFromContext(ctx); {
	case !ok:
	case name == spanScrape:
		a := &attempt{target: target, began: time.Now()}
		(*underWay.Lock())[target] = a
		underWay.Unlock()
		return trace.ContextWithSpan(ctx, a), a
	case name == spanReport:
		if a, ok := trace.SpanFromContext(ctx).(*attempt); ok && contain.Panicking() {
			a.discard()
		}
	}
	return t.Tracer.Start(ctx, name, o...)
}

// attempt is the span of one scrape.
type attempt struct {
	noop.Span
	target *scrape.Target
	began  time.Time
	app    *scraped // the last that was asked for
	broken bool
}

// underWay are those that have not ended, because the context in which a scrape asks for an appender has the target but no span.
var underWay = locked.New(map[*scrape.Target]*attempt{})

// discard drops what a scrape that crashed has appended. Its report follows, which would say that the target is up.
func (a *attempt) discard() {
	a.broken = true
	if a.app != nil {
		_ = a.app.Rollback() // as after any failed scrape
		a.app.Appender = a.app.again()
	}
}

// End implements trace.Span. It is deferred, so it ends a panic of the scrape.
func (a *attempt) End(...trace.SpanEndOption) {
	v := recover()
	delete(*underWay.Lock(), a.target)
	underWay.Unlock()
	if v != nil {
		a.target.Report(a.began, time.Since(a.began), contain.Recovered("scraping job "+a.target.GetValue(model.JobLabel), v))
	}
}

// scrapeDoor is the way of scrapes into a store or a queue.
type scrapeDoor struct {
	storage.Appendable
	room func() error
}

// Appender starts a transaction of scraped samples.
func (d scrapeDoor) Appender(ctx context.Context) storage.Appender {
	again := func() storage.Appender { return d.Appendable.Appender(ctx) }
	target, _ := scrape.TargetFromContext(ctx)
	a := (*underWay.Lock())[target]
	underWay.Unlock()
	if a == nil { // a target's end is marked after its last scrape
		return again()
	}
	a.app = &scraped{again(), a, again, d.room}
	return a.app
}

// scraped is the appender of a scrape.
type scraped struct {
	storage.Appender
	of    *attempt
	again func() storage.Appender
	room  func() error
}

// Append adds a sample; of a target whose scrape crashed the report is that it is down. A new series without room fails the scrape.
func (s *scraped) Append(ref storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	if s.of.broken && l.Get(model.MetricNameLabel) == "up" {
		v = 0
	}
	if err := s.fits(ref, l); err != nil {
		return 0, err
	}
	return s.Appender.Append(ref, l, t, v)
}

// AppendHistogram is Append for a histogram.
func (s *scraped) AppendHistogram(ref storage.SeriesRef, l labels.Labels, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram) (storage.SeriesRef, error) {
	if err := s.fits(ref, l); err != nil {
		return 0, err
	}
	return s.Appender.AppendHistogram(ref, l, t, h, fh)
}

// fits returns why a sample is not taken: its series is new, and there is no room for it. What a scrape reports of itself always fits.
func (s *scraped) fits(ref storage.SeriesRef, l labels.Labels) error {
	if ref != 0 || s.room == nil {
		return nil
	}
	err := s.room()
	if err == nil {
		return nil
	}
	if known, ok := s.Appender.(interface{ hasSeries(l labels.Labels) bool }); ok && known.hasSeries(l) {
		return nil
	}
	switch name := l.Get(model.MetricNameLabel); {
	case name == "up", strings.HasPrefix(name, "scrape_"):
		return nil
	}
	return err
}

// discovered contains the discovery of targets: after a panic it begins anew.
type discovered struct{ discovery.Config }

// discoverAgain is the pause before that.
const discoverAgain = time.Minute

func (c discovered) NewDiscoverer(o discovery.DiscovererOptions) (discovery.Discoverer, error) {
	d, err := c.Config.NewDiscoverer(o)
	if err != nil {
		return nil, err
	}
	return discoverer{d, "discovering targets (" + c.Name() + ")"}, nil
}

type discoverer struct {
	discovery.Discoverer
	doing string
}

// Run implements discovery.Discoverer.
func (d discoverer) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	for contain.Call(d.doing, func() error { d.Discoverer.Run(ctx, up); return nil }) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(discoverAgain):
		}
	}
}

// evaluate evaluates recording rules once.
func evaluate(ctx context.Context, g *rules.Group, at time.Time) {
	_ = contain.Call("recording rules", func() error { rules.DefaultEvalIterationFunc(ctx, g, at); return nil }) // it is logged, and the next evaluation tries again
}
