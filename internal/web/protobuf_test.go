package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

var (
	callsDesc = &metric.Desc{Name: "calls_total", Kind: metric.Counter, Labels: []string{"process"}, Help: "Calls."}
	delayDesc = &metric.Desc{Name: "delay_seconds", Kind: metric.Histogram, Help: "Delay."}
	loadDesc  = &metric.Desc{Name: "load", Kind: metric.Gauge, Help: "Load."}
	pagesDesc = &metric.Desc{Name: "pages", Kind: metric.Untyped, Help: "Pages."}
)

// TestBeginOfSeries: a Prometheus that uses the times at which series began has the first value of a counter as growth;
// the other samples are those of the text.
func TestBeginOfSeries(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mu sync.Mutex
	var last time.Time // of the round before
	read := func(context.Context) []metric.Sample {
		mu.Lock()
		defer mu.Unlock()
		out := []metric.Sample{{Desc: loadDesc, Value: 1.5}, {Desc: pagesDesc, Value: 3}, {Desc: callsDesc, Labels: []string{"old"}, Value: 100}}
		if !last.IsZero() {
			out = append(out, metric.Sample{Desc: callsDesc, Labels: []string{"new"}, Value: 5, Zero: last},
				metric.Sample{Desc: delayDesc, Hist: &metric.Hist{Bounds: []float64{0.5, 1}, Counts: []uint64{1, 2, 3}, Sum: 4}, Zero: last})
		}
		if len(out) == 3 {
			last = time.Now()
		}
		metric.SortByName(out)
		return out
	}
	srv := httptest.NewServer(Handler(Options{Round: read, Metrics: func(ctx context.Context, b []byte) []byte { return metric.AppendText(b, read(ctx)) }, Ready: func() error { return nil }}))
	defer srv.Close()
	m, err := scrape.NewManager(&scrape.Options{EnableStartTimestampZeroIngestion: true, DiscoveryReloadOnStartup: true}, promslog.NewNopLogger(), nil, db, nil, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load("scrape_configs: [{job_name: a, scrape_interval: 1s, scrape_protocols: [PrometheusProto], static_configs: []}]", promslog.NewNopLogger())
	if err == nil {
		err = m.ApplyConfig(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	groups := make(chan map[string][]*targetgroup.Group, 1)
	groups <- map[string][]*targetgroup.Group{"a": {{Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(strings.TrimPrefix(srv.URL, "http://"))}}}}}
	done := make(chan error, 1)
	go func() { done <- m.Run(groups) }()
	defer func() { m.Stop(); <-done }()
	engine := store.NewEngine(store.DefaultEngineOptions(), nil, nil)
	defer engine.Close()
	await.Event(t, "the series have their zeros", func() error {
		for expr, want := range map[string]string{
			`min_over_time(calls_total{process="old"}[1h])`: "[100]",
			`min_over_time(calls_total{process="new"}[1h])`: "[0]", `max_over_time(calls_total{process="new"}[1h])`: "[5]",
			`min_over_time(delay_seconds_count[1h])`: "[0]", `max_over_time(delay_seconds_count[1h])`: "[6]",
			`sort(max_over_time(delay_seconds_bucket[1h]))`: "[1 3 6]", `max_over_time(delay_seconds_sum[1h])`: "[4]",
			"load": "[1.5]", "pages": "[3]",
		} {
			points, err := store.Eval(t.Context(), engine, db, expr, time.Now())
			var got []float64
			for _, p := range points {
				got = append(got, p.Value)
			}
			if err != nil || fmt.Sprint(got) != want {
				return errors.Join(err, fmt.Errorf("%s is %v, want %s", expr, got, want))
			}
		}
		return nil
	})
}

// TestFormats: only who names protobuf gets it.
func TestFormats(t *testing.T) {
	h := Handler(Options{Hosts: Hosts{Names: []string{"example.com"}}, Ready: func() error { return nil }, Metrics: func(_ context.Context, b []byte) []byte { return append(b, "load 1\n"...) },
		Round: func(context.Context) []metric.Sample { return []metric.Sample{{Desc: loadDesc, Value: 1}} }})
	for accept, want := range map[string]string{
		"": "text/plain", "*/*": "text/plain", "text/html": "text/plain",
		"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1":                                       "text/plain",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;version=0.0.4;q=0.3": "application/vnd.google.protobuf",
		"text/plain;version=0.0.4;q=0.6,application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.3": "text/plain",
		"application/vnd.google.protobuf;proto=other;encoding=delimited":                                                                  "text/plain",
	} {
		t.Run(accept, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Accept", accept)
			h.ServeHTTP(w, r)
			body, err := io.ReadAll(w.Body)
			if got := w.Header().Get("Content-Type"); err != nil || !strings.HasPrefix(got, want) || len(body) == 0 {
				t.Errorf("Accept %q gives %q (%d bytes, %v), want %s", accept, got, len(body), err, want)
			}
		})
	}
}
