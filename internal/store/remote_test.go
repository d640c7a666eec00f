package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

func remoteAt(t *testing.T, url string, change ...func(*store.RemoteOptions)) *store.Remote {
	t.Helper()
	o := store.RemoteOptions{URL: url, Client: http.DefaultClient, Query: store.DefaultEngineOptions(), Sources: map[string]string{"tee_syscalls_total": "syscalls"}}
	for _, f := range change {
		f(&o)
	}
	r, err := store.NewRemote(o)
	must(t, err)
	return r
}

// TestRemote: an engine elsewhere gives the same answers as the store that it is, to Go and over HTTP.
func TestRemote(t *testing.T) {
	o := options(t)
	o.Sources = map[string]string{"tee_syscalls_total": "syscalls"}
	s := open(t, o)
	begin := time.Now().Truncate(time.Second)
	coverage := &metric.Desc{Name: "teescope_source_coverage_ratio", Kind: metric.Gauge, Labels: []string{"source"}, Help: "Coverage."}
	deviation := &metric.Desc{Name: "teescope_source_standard_error_ratio", Kind: metric.Gauge, Labels: []string{"source", "of"}, Help: "Error."}
	blind := &metric.Desc{Name: "teescope_source_blind", Kind: metric.Gauge, Labels: []string{"source", "reason"}, Help: "Blind."}
	for i := range 20 {
		must(t, s.Append(begin.Add(time.Duration(i)*time.Second), []metric.Sample{
			call("redis", "read", float64(10*i)), call(`a "b" \c`, "write", float64(i)), {Desc: load, Value: 1.5},
			{Desc: coverage, Labels: []string{"syscalls"}, Value: 0.25}, {Desc: deviation, Labels: []string{"syscalls", "sum"}, Value: 0.03125}, {Desc: deviation, Labels: []string{"syscalls", "rest"}, Value: 0.125},
			{Desc: blind, Labels: []string{"syscalls", "the hypervisor hides it"}, Value: 1},
		}))
	}
	end := begin.Add(19 * time.Second)
	srv := httptest.NewServer(http.StripPrefix("/prometheus", s.Handler())) // as behind a proxy
	defer srv.Close()
	r := remoteAt(t, srv.URL+"/prometheus/")
	if later, err := r.Check(t.Context()); later || err != nil {
		t.Errorf("check: %v, %v", later, err)
	}
	for _, expr := range []string{
		"sort(tee_syscalls_total)", "sum by (process) (rate(tee_syscalls_total[10s]))", `tee_syscalls_total{process="a \"b\" \\c"}`, "scalar(node_load1)", "absent_metric",
		"node_load1 * NaN", "node_load1 / 0", "node_load1[1m]", `"text"`, "sum(", `label_replace(vector(1), "a", "ü", "", "")`,
	} {
		t.Run(expr, func(t *testing.T) {
			got, gotErr := r.Query(t.Context(), expr, end)
			want, wantErr := s.Query(t.Context(), expr, end)
			if fmt.Sprint(got) != fmt.Sprint(want) || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%s is %v, %v; the store says %v, %v", expr, got, gotErr, want, wantErr)
			}
			gotRange, gotErr := r.QueryRange(t.Context(), expr, begin, end, 5*time.Second)
			wantRange, wantErr := s.QueryRange(t.Context(), expr, begin, end, 5*time.Second)
			if fmt.Sprint(gotRange) != fmt.Sprint(wantRange) || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("range of %s is %v, %v; the store says %v, %v", expr, gotRange, gotErr, wantRange, wantErr)
			}
			for _, step := range []time.Duration{0, 3 * time.Second} {
				got, _, gotErr := r.Steps(t.Context(), expr, begin, end, step)
				want, _, wantErr := s.Steps(t.Context(), expr, begin, end, step)
				if wantErr == nil && len(got)+len(want) > 0 && fmt.Sprint(got) != fmt.Sprint(want) || (gotErr == nil) != (wantErr == nil) {
					t.Errorf("steps of %v of %s are %v, %v; the store says %v, %v", step, expr, got, gotErr, want, wantErr)
				}
			}
			if got, want := r.Notes(t.Context(), expr, begin, end), s.Notes(t.Context(), expr, begin, end); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("notes on %s are %q; the store says %q", expr, got, want)
			}
		})
	}
	if notes := r.Notes(t.Context(), "rate(tee_syscalls_total[10s])", begin, end); len(notes) != 2 {
		t.Errorf("notes: %q", notes)
	}
	if err := r.Err(); err != nil {
		t.Errorf("after questions that the engine refuses: %v", err)
	}
	passed := httptest.NewServer(r.Handler())
	defer passed.Close()
	at := url.Values{"query": {"tee_syscalls_total"}, "time": {fmt.Sprint(end.Unix())}, "start": {fmt.Sprint(begin.Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {"5"},
		"match[]": {"tee_syscalls_total"}}.Encode()
	for _, path := range []string{"query?" + at, "query_range?" + at, "series?" + at, "labels?" + at, "label/process/values?" + at, "metadata", "status/buildinfo", "query?query=sum("} {
		t.Run(path, func(t *testing.T) {
			got, want := body(t, passed.URL+"/api/v1/"+path), body(t, srv.URL+"/prometheus/api/v1/"+path)
			if inOrder(t, got) != inOrder(t, want) {
				t.Errorf("%s is passed as\n%s\nwant\n%s", path, got, want)
			}
		})
	}
	for _, path := range []string{"admin/tsdb/snapshot", "write", "status/config"} {
		t.Run(path, func(t *testing.T) {
			resp, err := http.Post(passed.URL+"/api/v1/"+path, "", nil)
			must(t, err)
			must(t, resp.Body.Close())
			if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("POST %s is passed on: %s", path, resp.Status)
			}
		})
	}
}

func body(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}

// inOrder writes an answer in one order.
func inOrder(t *testing.T, text string) string {
	t.Helper()
	status, b, _ := strings.Cut(text, " ")
	var v map[string]any
	must(t, json.Unmarshal([]byte(b), &v))
	if notes, ok := v["warnings"].([]any); ok { // Prometheus keeps them in no order
		slices.SortFunc(notes, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	}
	return fmt.Sprint(status, v)
}

// TestRemoteTrouble: what is no answer of an engine has a line that says what to do; one that may come back is known as
// such.
func TestRemoteTrouble(t *testing.T) {
	const ok = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}`
	say := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	endless := func(part string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[`)
			for {
				if _, err := fmt.Fprint(w, part); err != nil {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		h     http.HandlerFunc
		want  string // "" is an answer
		later bool
	}{
		"answers":         {h: say(200, ok)},
		"another server":  {h: http.NotFound, want: "404 Not Found: no Prometheus-compatible engine answers there"},
		"a page":          {h: say(200, "<html>hello</html>"), want: "not that of Prometheus' API"},
		"other JSON":      {h: say(200, `{"hello": 1}`), want: "not that of Prometheus' API"},
		"nothing":         {h: say(200, ""), want: "not that of Prometheus' API"},
		"half an answer":  {h: say(200, ok[:60]), want: "not that of Prometheus' API"},
		"no time":         {h: say(200, strings.ReplaceAll(ok, `[1,"1"]`, `["1"]`)), want: "want a time and a value"},
		"no number":       {h: say(200, strings.ReplaceAll(ok, `[1,"1"]`, `[1,"one"]`)), want: "want a time and a value"},
		"a password":      {h: say(401, "who are you"), want: "401 Unauthorized: name a user or a token (--query-config)"},
		"no right":        {h: say(403, `{"status":"error","error":""}`), want: "--query-config"},
		"down":            {h: say(503, "starting"), want: "503 Service Unavailable", later: true},
		"a proxy":         {h: say(502, "<html>bad gateway</html>"), want: "502 Bad Gateway", later: true},
		"too many":        {h: say(429, `{"status":"error","error":"too many outstanding requests"}`), want: "too many outstanding requests"},
		"refused":         {h: say(422, `{"status":"error","errorType":"execution","error":"too many samples"}`), want: "too many samples"},
		"cut off":         {h: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "cannot be reached", later: true},
		"endless series":  {h: endless(`{"metric":{"a":"b"},"value":[1,"1"]},`), want: "the answer is longer than 1 MiB"},
		"endless spaces":  {h: endless(" "), want: "the answer is longer than 1 MiB"},
		"endless name":    {h: endless("a"), want: "not that of Prometheus' API"},
		"leads elsewhere": {h: func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/login", http.StatusFound) }, want: "cannot be reached", later: true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.h)
			defer srv.Close()
			user, err := url.Parse(srv.URL)
			must(t, err)
			user.User = url.UserPassword("me", "secret")
			r := remoteAt(t, user.String(), func(o *store.RemoteOptions) { o.LimitAnswers(1 << 20) })
			later, err := r.Check(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || later != c.later {
				t.Errorf("%v, may answer later: %v; want %q, %v", err, later, c.want, c.later)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the error has a password or several lines: %v", err)
			}
		})
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	r := remoteAt(t, gone.URL)
	if later, err := r.Check(t.Context()); !later || err == nil || r.Err() == nil {
		t.Errorf("nobody listens: %v, %v, %v", later, err, r.Err())
	}
	for _, u := range []string{"", "localhost:9090", "ftp://x", "http://", "http://x/?a=b", "http://x/#a", ":"} {
		t.Run(u, func(t *testing.T) {
			if _, err := store.NewRemote(store.RemoteOptions{URL: u}); err == nil || !strings.Contains(err.Error(), "like http://127.0.0.1:9090") {
				t.Errorf("URL %q: %v", u, err)
			}
		})
	}
}

// TestRemoteHangs: whoever asks can stop waiting for an engine that says nothing, and that is no trouble of the engine.
func TestRemoteHangs(t *testing.T) {
	asked := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // else the server does not see the caller leave
		close(asked)
		<-q.Context().Done()
	}))
	defer srv.Close()
	r := remoteAt(t, srv.URL)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-asked; stop() }()
	if _, err := r.Query(ctx, "up", time.Now()); !errors.Is(err, context.Canceled) || r.Err() != nil {
		t.Errorf("%v, trouble %v", err, r.Err())
	}
}

// TestRemoteTimeout: the engine has as long as a query may take.
func TestRemoteTimeout(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		fmt.Fprint(w, `{"status":`)
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	}))
	defer srv.Close()
	r := remoteAt(t, srv.URL, func(o *store.RemoteOptions) { o.Query.Timeout = time.Millisecond })
	if later, err := r.Check(t.Context()); !later || err == nil || !strings.Contains(err.Error(), "no whole answer within 1ms") {
		t.Errorf("%v, %v", later, err)
	}
}
