package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"

	"github.com/grafana/regexp"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/features"
	"github.com/prometheus/prometheus/util/notifications"
	apiv1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/teescope/teescope/internal/quota"
)

// Handler serves the Prometheus HTTP API below /api/v1/, for Grafana, promtool and the
// page. It is read-only: admin calls, remote write and OTLP are off. Other origins may
// not read it (no CORS headers). While the database is being reopened it answers 503.
func (s *Store) Handler() http.Handler {
	const prefix = "/api/v1"
	r := route.New()
	s.api().Register(r)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, bounded(gzhttp.GzipHandler(s.reserveAnswers(hidingSecrets(r))))))
	return mux
}

// PrometheusVersion is the release of Prometheus whose API and query language this is: its module's v0.315.0 is release 3.15.0. Clients
// compare it (Grafana decides by it what it may ask), so it is what /api/v1/status/buildinfo says, with teescope's own version
// as the revision.
const PrometheusVersion = "3.15.0"

// callLimit bounds the text of one call in bytes. The parser uses some 500 bytes for
// each byte of a deeply nested query, before any limit of the engine applies: ten
// megabytes of text would use five gigabytes.
const callLimit = 64 << 10

// bounded refuses calls with more text than a query needs.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, callLimit)
		var large *http.MaxBytesError
		err := r.ParseForm()
		var full *quota.Exceeded
		switch {
		case errors.As(err, &large) || len(r.URL.RawQuery) > callLimit:
			http.Error(w, fmt.Sprintf("the call is longer than %d KiB: shorten the query", callLimit>>10), http.StatusRequestEntityTooLarge)
			return
		case errors.As(err, &full):
			http.Error(w, full.Error(), full.Status())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// statusOf gives refusals for want of memory a status of their own. Its first argument is the API's kind of the error.
func statusOf[kind any](_ kind, err error) (code int, override bool) {
	var full *quota.Exceeded
	if errors.As(err, &full) {
		return full.Status(), true
	}
	return 0, false
}

// noOrigin matches no origin.
var noOrigin = regexp.MustCompile(`^\b$`)

const searchLimit = 1_000

func (s *Store) api() *apiv1.API {
	ready := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if s.db.Load() == nil {
				http.Error(w, "the store is being opened again: try later", http.StatusServiceUnavailable)
				return
			}
			next(w, r)
		}
	}
	listed := targets{s.scrape, s.local}
	return apiv1.NewAPI(
		s.pages,
		reserving{noted{door{s}}}, // queries
		nil, nil,                  // no appender: nothing is written over HTTP
		door{s}, // exemplars
		func(context.Context) apiv1.ScrapePoolsRetriever { return listed },
		func(context.Context) apiv1.TargetRetriever { return listed },
		func(context.Context) apiv1.AlertmanagerRetriever { return noAlertmanagers{} },
		s.scrape.current,
		map[string]string{}, // flags
		// Without an address of its own, the API gives every target on this machine an error.
		apiv1.GlobalURLOptions{Scheme: "http", ListenAddress: "localhost:0", Host: cmp.Or(s.opts.Instance, "localhost")},
		ready,
		admin{s},
		s.opts.Dir,
		false, // admin calls
		true,  // search
		searchLimit,
		s.log,
		func(context.Context) apiv1.RulesRetriever { return s.rules },
		s.opts.Query.MaxSamples,
		remoteReadConcurrent,
		remoteReadFrame,
		false, // agent mode
		noOrigin,
		s.runtimeInfo,
		&apiv1.PrometheusVersion{Version: PrometheusVersion, Revision: "teescope " + s.opts.Version, GoVersion: runtime.Version()},
		func() []notifications.Notification { return []notifications.Notification{} },
		func() (<-chan notifications.Notification, func(), bool) { return nil, func() {}, false },
		gatherer{s},
		s.reg,
		nil,   // query statistics, in Prometheus' format
		false, // remote write
		nil,
		false, false, false, // OTLP
		false, // start timestamps
		s.opts.Query.Lookback,
		false, // type and unit labels
		false, // metadata in the log
		statusOf,
		features.NewRegistry(),
		apiv1.OpenAPIOptions{Version: PrometheusVersion, MaxSearchLimit: searchLimit},
		parser.NewParser(parser.Options{}),
	)
}

func (s *Store) runtimeInfo() (apiv1.RuntimeInfo, error) {
	host, err := os.Hostname()
	if err != nil {
		return apiv1.RuntimeInfo{}, err
	}
	info := apiv1.RuntimeInfo{
		StartTime:           s.started,
		CWD:                 s.opts.Dir,
		Hostname:            host,
		ServerTime:          s.opts.Now(),
		ReloadConfigSuccess: true,
		LastConfigTime:      s.started,
		GoroutineCount:      runtime.NumGoroutine(),
		GOMAXPROCS:          runtime.GOMAXPROCS(0),
		StorageRetention:    model.Duration(s.opts.Retention).String(),
	}
	if db, err := s.lease(); err == nil {
		info.CorruptionCount = int64(counter(db.reg, "prometheus_tsdb_wal_corruptions_total"))
		db.unlease()
	}
	return info, nil
}

// gatherer collects the metrics of Prometheus' own parts.
type gatherer struct{ s *Store }

// Gather joins the metrics of the open database and those that outlive it.
func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	all := prometheus.Gatherers{g.s.reg}
	if db, err := g.s.lease(); err == nil {
		defer db.unlease()
		all = append(all, db.reg)
	}
	return all.Gather()
}

// admin is the part of the database that the API's status pages need; modifying calls
// are off.
type admin struct{ s *Store }

func (admin) CleanTombstones() error { return tsdb.ErrNotReady }

func (admin) Delete(context.Context, int64, int64, ...*labels.Matcher) error {
	return tsdb.ErrNotReady
}

func (admin) Snapshot(string, bool) error { return tsdb.ErrNotReady }

func (a admin) Stats(label string, limit int) (*tsdb.Stats, error) {
	db, err := a.s.lease()
	if err != nil {
		return nil, err
	}
	defer db.unlease()
	return db.Head().Stats(label, limit), nil
}

func (a admin) WALReplayStatus() (tsdb.WALReplayStatus, error) {
	return tsdb.WALReplayStatus{}, nil
}

func (a admin) BlockMetas() ([]tsdb.BlockMeta, error) {
	db, err := a.s.lease()
	if err != nil {
		return nil, err
	}
	defer db.unlease()
	return db.BlockMetas(), nil
}

type noAlertmanagers struct{}

func (noAlertmanagers) Alertmanagers() []*url.URL        { return nil }
func (noAlertmanagers) DroppedAlertmanagers() []*url.URL { return nil }
