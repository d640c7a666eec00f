package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

var (
	calls = &metric.Desc{Name: "tee_syscalls_total", Kind: metric.Counter, Labels: []string{"process", "syscall"}, Help: "System calls."}
	load  = &metric.Desc{Name: "node_load1", Kind: metric.Gauge, Help: "Load."}
	delay = &metric.Desc{Name: "tee_runqueue_latency_seconds", Kind: metric.Histogram, Labels: []string{"process"}, Help: "Delay in seconds."}
)

func call(process, syscall string, v float64) metric.Sample {
	return metric.Sample{Desc: calls, Labels: []string{process, syscall}, Value: v}
}

// options returns options for tests: small reserve, a rule evaluation soon.
func options(t testing.TB) store.Options {
	o := store.DefaultOptions()
	o.Dir = t.TempDir()
	o.Instance = "here"
	o.Version = "1.2.3"
	o.Reserve = 1 << 20
	return o
}

func open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func query(t testing.TB, s *store.Store, expr string, at time.Time) []metric.Point {
	t.Helper()
	p, err := s.Query(t.Context(), expr, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// one returns the single value of a query.
func one(t testing.TB, s *store.Store, expr string, at time.Time) float64 {
	t.Helper()
	p := query(t, s, expr, at)
	if len(p) != 1 {
		t.Fatalf("%s: %d points, want one: %v", expr, len(p), p)
	}
	return p[0].Value
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAppendQuery(t *testing.T) {
	s := open(t, options(t))
	t0 := time.Now().Add(-time.Minute).Truncate(time.Second)
	for i := range 3 {
		must(t, s.Append(t0.Add(time.Duration(i)*5*time.Second), []metric.Sample{
			call("redis", "read", float64(100*i)),
			call("", "write", 1),
			call(`bad\xff`, "write", 2),
			{Desc: load, Value: 0.5},
			{Desc: delay, Labels: []string{"redis"}, Hist: &metric.Hist{Bounds: []float64{0.1, 1}, Counts: []uint64{3, 2, 1}, Sum: 4.5}},
		}))
	}
	at := t0.Add(10 * time.Second)
	want := []metric.Point{{Value: 200, Labels: map[string]string{
		"__name__": "tee_syscalls_total", "job": "teescope", "instance": "here", "process": "redis", "syscall": "read"}}}
	if got := query(t, s, `tee_syscalls_total{process="redis"}`, at); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for expr, want := range map[string]float64{
		`node_load1`: 0.5,
		`tee_syscalls_total{process="",syscall="write"}`:               1,
		`tee_syscalls_total{process="bad\\xff"}`:                       2,
		`tee_runqueue_latency_seconds_bucket{le="0.1"}`:                3,
		`tee_runqueue_latency_seconds_bucket{le="1.0"}`:                5,
		`tee_runqueue_latency_seconds_bucket{le="+Inf"}`:               6,
		`tee_runqueue_latency_seconds_count{process="redis"}`:          6,
		`tee_runqueue_latency_seconds_sum`:                             4.5,
		`round(rate(tee_syscalls_total{process="redis"}[10s]))`:        20,
		`histogram_quantile(0.5, tee_runqueue_latency_seconds_bucket)`: 0.1,
	} {
		t.Run(expr, func(t *testing.T) {
			if got := one(t, s, expr, at); got != want {
				t.Errorf("%s = %v, want %v", expr, got, want)
			}
		})
	}
	if err := s.Err(); err != nil {
		t.Errorf("a healthy store says %v", err)
	}
}

func TestVanishedSeriesEnds(t *testing.T) {
	s := open(t, options(t))
	t0 := time.Now().Add(-time.Minute).Truncate(time.Second)
	at := func(i int) time.Time { return t0.Add(time.Duration(i) * 5 * time.Second) }
	must(t, s.Append(at(0), []metric.Sample{call("a", "read", 1), call("b", "read", 1)}))
	must(t, s.Append(at(1), []metric.Sample{call("a", "read", 2)}))
	must(t, s.Append(at(2), []metric.Sample{call("a", "read", 3), call("b", "read", 5)}))
	for i, want := range []int{2, 1, 2} {
		if got := len(query(t, s, `tee_syscalls_total`, at(i).Add(time.Second))); got != want {
			t.Errorf("round %d: %d series, want %d", i, got, want)
		}
	}
}

// A series that began after the previous round gained its first value since then; for any other that is unknown.
// After a round that was not stored it is unknown for every series; a refused sample has no such effect.
func TestBegan(t *testing.T) {
	s := open(t, options(t))
	t0 := time.Now().Add(-time.Minute).Truncate(time.Second)
	round, began := 0, map[string]int{"begun": 2, "hidden": 2, "late": 5}
	next := func(samples ...metric.Sample) error {
		err := s.Append(t0.Add(time.Duration(round)*5*time.Second), append(samples, metric.Sample{Desc: load, Value: 1}))
		round++
		return err
	}
	begun := func(process string, v float64) metric.Sample {
		m := call(process, "read", v)
		m.Began = t0.Add(time.Duration(began[process]) * 5 * time.Second)
		return m
	}
	took := metric.Sample{Desc: delay, Labels: []string{"begun"}, Hist: &metric.Hist{Bounds: []float64{1}, Counts: []uint64{6, 1}, Sum: 9}, Began: t0.Add(6 * time.Second)}
	must(t, next(begun("first", 100)))
	must(t, next(begun("first", 100)))
	must(t, next(begun("first", 100), begun("begun", 100), call("found", "read", 100), took))
	must(t, next(begun("first", 100), begun("begun", 300), call("found", "read", 300), took, begun("hidden", 100)))
	wrong := call("begun", "read", 300)
	wrong.Labels = nil
	if next(begun("first", 100), begun("begun", 300), call("found", "read", 300), took, wrong) == nil {
		t.Error("a sample without its labels was stored")
	}
	must(t, next(begun("first", 100), begun("begun", 300), call("found", "read", 300), took, begun("late", 100)))
	must(t, next(begun("first", 100), begun("begun", 300), call("found", "read", 300), took, begun("late", 150)))
	// A window from the 0 to the last round, so nothing is extrapolated.
	at := t0.Add(time.Duration(round-1) * 5 * time.Second)
	for expr, want := range map[string]float64{
		`tee_syscalls_total{process="begun"} offset 25s`:                     0,
		`max_over_time(tee_syscalls_total{process="begun"}[30s])`:            300,
		`min_over_time(tee_syscalls_total{process="begun"}[30s])`:            0,
		`min_over_time(tee_syscalls_total{process="found"}[30s])`:            100,
		`min_over_time(tee_syscalls_total{process="first"}[30s])`:            100,
		`min_over_time(tee_syscalls_total{process="hidden"}[30s])`:           100,
		`min_over_time(tee_syscalls_total{process="late"}[30s])`:             0,
		`min_over_time(tee_runqueue_latency_seconds_bucket{le="+Inf"}[30s])`: 0,
		`min_over_time(tee_runqueue_latency_seconds_sum[30s])`:               0,
		`increase(tee_syscalls_total{process="begun"}[25001ms])`:             300,
	} {
		t.Run(expr, func(t *testing.T) {
			if got := one(t, s, expr, at); got != want {
				t.Errorf("%s is %v, want %v", expr, got, want)
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	t0 := time.Now().Add(-time.Minute)
	tests := []struct {
		name    string
		at      time.Time
		samples []metric.Sample
		want    string
		stored  float64 // of the second round
	}{
		{"label missing", t0.Add(time.Second), []metric.Sample{call("a", "read", 1), {Desc: calls, Labels: []string{"x"}}}, "labels do not match", 1},
		{"no declaration", t0.Add(time.Second), []metric.Sample{call("a", "read", 1), {}}, "labels do not match", 1},
		{"twice", t0.Add(time.Second), []metric.Sample{call("a", "read", 1), call("a", "read", 2)}, "twice in one round", 1},
		{"histogram without one", t0.Add(time.Second), []metric.Sample{call("a", "read", 1), {Desc: delay, Labels: []string{"a"}}}, "not a whole histogram", 1},
		{"histogram cut short", t0.Add(time.Second), []metric.Sample{call("a", "read", 1), {Desc: delay, Labels: []string{"a"}, Hist: &metric.Hist{Bounds: []float64{1}, Counts: []uint64{1}}}}, "not a whole histogram", 1},
		{"clock went back", t0.Add(-time.Second), []metric.Sample{call("a", "read", 1)}, "the clock went back", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, options(t))
			must(t, s.Append(t0, []metric.Sample{call("a", "read", 0)}))
			err := s.Append(tt.at, tt.samples)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if s.Err() == nil {
				t.Error("the store says that all is well")
			}
			self := collect(s)
			if got := self["teescope_store_samples_appended_total"]; got != 1+tt.stored {
				t.Errorf("%v samples appended, want %v", got, 1+tt.stored)
			}
			if self["teescope_store_lost_samples_total"] == 0 {
				t.Error("no lost sample was counted")
			}
			must(t, s.Append(t0.Add(2*time.Second), []metric.Sample{call("a", "read", 3)}))
			if err := s.Err(); err != nil {
				t.Errorf("after a good round: %v", err)
			}
		})
	}
}

// TestOneRefused: a sample that is refused in each round has no effect on the others, on the zero of new counters and
// on the target.
func TestOneRefused(t *testing.T) {
	again := *calls // two declarations of one series
	s := open(t, options(t))
	t0 := time.Now().Add(-time.Minute).Truncate(time.Second)
	at := func(i int) time.Time { return t0.Add(time.Duration(i) * 5 * time.Second) }
	for _, tt := range []struct {
		reason string
		bad    []metric.Sample // in the round after a first one
	}{
		{"twice in one round", []metric.Sample{call("twice", "read", 1), call("twice", "read", 2)}},
		{"twice in one round", []metric.Sample{call("twice", "read", 1), {Desc: &again, Labels: []string{"twice", "read"}, Value: 2}}},
		{"bad labels", []metric.Sample{{Desc: calls, Labels: []string{"one"}}}},
		{"bad labels", []metric.Sample{{Desc: &metric.Desc{Name: "node_bad", Kind: metric.Gauge, Labels: []string{""}}, Labels: []string{"x"}}}},
		{"bad labels", []metric.Sample{{Desc: &metric.Desc{Name: "node_bad", Kind: metric.Gauge, Labels: []string{"__name__"}}, Labels: []string{"x"}}}},
		{"bad labels", []metric.Sample{{Desc: &metric.Desc{Kind: metric.Gauge}}}},
		{"not a whole histogram", []metric.Sample{{Desc: delay, Labels: []string{"a"}}}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := open(t, options(t))
			for i := range 4 {
				round := append(tt.bad, metric.Sample{Desc: load, Value: float64(i)})
				if i >= 2 {
					fresh := call("fresh", "read", float64(100*(i-1)))
					fresh.Began = at(i).Add(-time.Second)
					if i > 2 {
						fresh.Began = at(2).Add(-time.Second)
					}
					round = append(round, fresh)
				}
				var some *store.Refused
				if err := s.Append(at(i), round); !errors.As(err, &some) || some.Samples != 1 || len(some.First) != 1 {
					t.Fatalf("round %d: %v, want one refused sample", i, err)
				}
			}
			if got := one(t, s, `increase(tee_syscalls_total{process="fresh"}[10001ms])`, at(3)); got != 200 {
				t.Errorf("the counter that began grew by %v, want 200", got)
			}
			if got := one(t, s, `max_over_time(tee_syscalls_total{process="fresh"}[10s])`, at(2)) - one(t, s, `min_over_time(tee_syscalls_total{process="fresh"}[10s])`, at(2)); got != 100 {
				t.Errorf("in its first round it grew by %v, want 100", got)
			}
			if got := one(t, s, "node_load1", at(3)); got != 3 {
				t.Errorf("the other series is %v, want 3", got)
			}
			if got := refusedBy(s); len(got) != 1 || got[tt.reason] != 4 {
				t.Errorf("refused: %v, want 4 for %q", got, tt.reason)
			}
			srv := httptest.NewServer(s.Handler())
			defer srv.Close()
			var d struct {
				ActiveTargets []struct{ Health, LastError string }
			}
			get(t, srv.URL, "targets", &d)
			if len(d.ActiveTargets) != 1 || d.ActiveTargets[0].Health != "up" || d.ActiveTargets[0].LastError != "" {
				t.Errorf("the target is %+v", d.ActiveTargets)
			}
		})
	}
	must(t, s.Append(at(0), []metric.Sample{{Desc: load, Value: 1}}))
	if err := s.Append(at(0), []metric.Sample{{Desc: load, Value: 2}, call("a", "read", 1)}); err == nil || refusedBy(s)["another value of that time"] != 1 {
		t.Errorf("another value of the same time: %v, %v", err, refusedBy(s))
	}
	one(t, s, `tee_syscalls_total{process="a"}`, at(0))
}

// collect returns the store's own metrics and checks their declarations.
func collect(s *store.Store) map[string]float64 {
	m := map[string]float64{}
	s.Collect(func(p metric.Sample) { m[p.Desc.Name] = p.Value })
	return m
}

func TestSelfMetrics(t *testing.T) {
	for _, d := range store.Metrics {
		if err := d.Check(); err != nil {
			t.Error(err)
		}
	}
	s := open(t, options(t))
	must(t, s.Append(time.Now(), []metric.Sample{call("a", "read", 0), call("b", "read", 0)}))
	got := collect(s)
	for name := range got {
		if !slices.ContainsFunc(store.Metrics, func(d *metric.Desc) bool { return d.Name == name }) {
			t.Errorf("%s is emitted but not declared", name)
		}
	}
	if got["teescope_store_series"] != 2 || got["teescope_store_samples_appended_total"] != 2 {
		t.Errorf("got %v, want two series and two samples", got)
	}
}

// get asks the API and decodes its data into v.
func get(t testing.TB, base, path string, v any) {
	t.Helper()
	resp, err := http.Get(base + "/api/v1/" + path)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", path, resp.Status, body)
	}
	if err := json.Unmarshal(body, &struct{ Data any }{v}); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
}

func TestAPI(t *testing.T) {
	s := open(t, options(t))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	now := time.Now()
	for i := range 12 {
		must(t, s.Append(now.Add(time.Duration(i-11)*5*time.Second), []metric.Sample{call("redis", "read", float64(50*i)), {Desc: load, Value: 1}}))
	}

	t.Run("query", func(t *testing.T) {
		var d struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
		get(t, srv.URL, "query?query="+url.QueryEscape(`tee_syscalls_total`), &d)
		if len(d.Result) != 1 || d.Result[0].Value[1] != "550" {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("query_range", func(t *testing.T) {
		var d struct{ Result []struct{ Values [][2]any } }
		get(t, srv.URL, fmt.Sprintf("query_range?query=tee_syscalls_total&start=%d&end=%d&step=5", now.Unix()-50, now.Unix()), &d)
		if len(d.Result) != 1 || len(d.Result[0].Values) < 10 {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("series", func(t *testing.T) {
		var d []map[string]string
		get(t, srv.URL, "series?match[]=tee_syscalls_total", &d)
		if len(d) != 1 || d[0]["process"] != "redis" {
			t.Errorf("got %v", d)
		}
	})
	t.Run("labels", func(t *testing.T) {
		var d []string
		get(t, srv.URL, "labels", &d)
		if !slices.Contains(d, "syscall") {
			t.Errorf("got %v", d)
		}
		get(t, srv.URL, "label/process/values", &d)
		if !slices.Equal(d, []string{"redis"}) {
			t.Errorf("got %v", d)
		}
	})
	t.Run("metadata", func(t *testing.T) {
		var d map[string][]struct{ Type, Help string }
		get(t, srv.URL, "metadata", &d)
		if m := d["tee_syscalls_total"]; len(m) != 1 || m[0].Type != "counter" || m[0].Help != "System calls." {
			t.Errorf("got %v", d)
		}
	})
	t.Run("targets", func(t *testing.T) {
		var d struct {
			ActiveTargets []struct {
				Labels                map[string]string
				ScrapePool, Health    string
				LastError, LastScrape string
			}
		}
		get(t, srv.URL, "targets", &d)
		if len(d.ActiveTargets) != 1 {
			t.Fatalf("got %+v", d)
		}
		a := d.ActiveTargets[0]
		last, err := time.Parse(time.RFC3339Nano, a.LastScrape)
		if a.ScrapePool != "teescope" || a.Health != "up" || a.Labels["job"] != "teescope" || a.Labels["instance"] != "here" || err != nil || !last.Equal(now) {
			t.Errorf("got %+v, %v", a, err)
		}
	})
	t.Run("status", func(t *testing.T) {
		var build, tsdb, run map[string]any
		get(t, srv.URL, "status/buildinfo", &build)
		get(t, srv.URL, "status/tsdb", &tsdb)
		get(t, srv.URL, "status/runtimeinfo", &run)
		// Clients compare the version: it is that of the embedded Prometheus.
		var major, minor, patch int
		module, err := os.ReadFile("../../go.mod")
		if n, _ := fmt.Sscanf(fmt.Sprint(build["version"]), "%d.%d.%d", &major, &minor, &patch); n != 3 || err != nil ||
			!strings.Contains(string(module), fmt.Sprintf("github.com/prometheus/prometheus v0.%d%02d.%d\n", major, minor, patch)) {
			t.Errorf("%v is not the release in go.mod (%v)", build["version"], err)
		}
		if build["revision"] != "teescope 1.2.3" || run["storageRetention"] != "15d" || tsdb["headStats"] == nil {
			t.Errorf("got %v\n%v\n%v", build, tsdb, run)
		}
		for _, path := range []string{"status/config", "status/flags", "status/walreplay", "status/self_metrics", "status/tsdb/blocks", "alerts", "alertmanagers", "scrape_pools", "targets/metadata", "notifications", "features"} {
			var any any
			get(t, srv.URL, path, &any)
		}
	})
	t.Run("nothing is written", func(t *testing.T) {
		for _, path := range []string{"admin/tsdb/delete_series?match[]=node_load1", "admin/tsdb/snapshot", "admin/tsdb/clean_tombstones", "write", "otlp/v1/metrics"} {
			resp, err := http.Post(srv.URL+"/api/v1/"+path, "application/x-protobuf", strings.NewReader(""))
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode < 400 {
				t.Errorf("POST %s: %s", path, resp.Status)
			}
		}
	})
	t.Run("no other origin", func(t *testing.T) {
		req, err := http.NewRequest("GET", srv.URL+"/api/v1/query?query=1", nil)
		must(t, err)
		req.Header.Set("Origin", "http://evil.example")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if v := resp.Header.Get("Access-Control-Allow-Origin"); v != "" {
			t.Errorf("Access-Control-Allow-Origin is %q", v)
		}
	})
	t.Run("promtool", func(t *testing.T) {
		if _, err := exec.LookPath("promtool"); err != nil {
			t.Skip("promtool is not installed")
		}
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"query", "instant", srv.URL, `tee_syscalls_total`}, `tee_syscalls_total{instance="here", job="teescope", process="redis", syscall="read"} => 550`},
			{[]string{"query", "range", "--start", fmt.Sprint(now.Unix() - 50), "--end", fmt.Sprint(now.Unix()), "--step", "10s", srv.URL, `node_load1`}, `node_load1{instance="here", job="teescope"}`},
			{[]string{"query", "labels", srv.URL, "process"}, "redis"},
			{[]string{"query", "series", "--match", "node_load1", srv.URL}, `{__name__="node_load1", instance="here", job="teescope"}`},
		} {
			out, err := exec.Command("promtool", tt.args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("promtool %v: %v: %s, want %s", tt.args, err, out, tt.want)
			}
		}
	})
}

// TestRules: the recording rules are evaluated, and record the right values, of a counter that grows by 10 a second.
func TestRules(t *testing.T) {
	o := options(t)
	o.RuleInterval = 100 * time.Millisecond
	s := open(t, o)
	began := time.Now().Add(-time.Minute)
	grow := func(at time.Time) {
		must(t, s.Append(at, []metric.Sample{call("redis", "read", 10*at.Sub(began).Seconds())}))
	}
	for i := range 11 {
		grow(began.Add(time.Duration(i) * 5 * time.Second))
	}
	want := map[string]string{"__name__": "process:tee_syscalls:rate1m", "process": "redis", "job": "teescope", "instance": "here"}
	await.Event(t, "about 10 calls a second are recorded", func() error {
		now := time.Now()
		grow(now) // however late it is, there is a last minute
		p := query(t, s, `process:tee_syscalls:rate1m`, now)
		if len(p) != 1 || !reflect.DeepEqual(p[0].Labels, want) || p[0].Value < 9 || p[0].Value > 11 {
			return fmt.Errorf("recorded %v, want about 10 with %v", p, want)
		}
		return nil
	})
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	var d struct {
		Groups []struct {
			Interval float64
			Rules    []struct{ Name, Query, Health, LastError string }
		}
	}
	get(t, srv.URL, "rules", &d)
	if len(d.Groups) != 1 || len(d.Groups[0].Rules) != len(store.Rules) {
		t.Fatalf("got %+v", d)
	}
	for i, r := range d.Groups[0].Rules {
		if r.Name != store.Rules[i].Record || r.LastError != "" {
			t.Errorf("rule %+v, want %s", r, store.Rules[i].Record)
		}
	}
}

func TestQueryIsBounded(t *testing.T) {
	o := options(t)
	o.Query.MaxSamples = 10
	s := open(t, o)
	t0 := time.Now()
	for i := range 20 {
		must(t, s.Append(t0.Add(time.Duration(i)*time.Second), []metric.Sample{{Desc: load, Value: 1}}))
	}
	if _, err := s.Query(t.Context(), `max_over_time(node_load1[1m])`, t0.Add(19*time.Second)); err == nil || !strings.Contains(err.Error(), "too many samples") {
		t.Errorf("error %v, want too many samples", err)
	}
}

// TestCallIsBounded: texts that would cost the parser gigabytes are refused.
func TestCallIsBounded(t *testing.T) {
	srv := httptest.NewServer(open(t, options(t)).Handler())
	defer srv.Close()
	long := url.Values{"query": {strings.Repeat("-", 70_000) + "1"}}
	for name, send := range map[string]func() (*http.Response, error){
		"POST": func() (*http.Response, error) { return http.PostForm(srv.URL+"/api/v1/query", long) },
		"GET":  func() (*http.Response, error) { return http.Get(srv.URL + "/api/v1/query?" + long.Encode()) },
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := send()
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), "64 KiB") {
				t.Errorf("%s: %s %s, want 413", name, resp.Status, body)
			}
		})
	}
	short := url.Values{"query": {strings.Repeat(" ", 60_000) + "1"}}
	resp, err := http.PostForm(srv.URL+"/api/v1/query", short)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a query within the bound: %s", resp.Status)
	}
}
