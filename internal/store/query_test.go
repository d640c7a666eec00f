package store_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// stuck is a storage whose query has begun when in is closed and ends with out.
type stuck struct{ in, out chan struct{} }

func (s stuck) Querier(_, _ int64) (storage.Querier, error) {
	close(s.in)
	<-s.out
	return storage.NoopQuerier(), nil
}

// TestQueryWaits: a query that finds no place reports that it waited, in the words by which the API and the rules
// distinguish this from an invalid query.
func TestQueryWaits(t *testing.T) {
	o := store.DefaultEngineOptions()
	o.Concurrent = 1
	e := store.NewEngine(o, nil, nil)
	s := stuck{make(chan struct{}), make(chan struct{})}
	first := make(chan error)
	go func() {
		_, err := store.Eval(t.Context(), e, s, "up", time.Now())
		first <- err
	}()
	<-s.in

	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := store.Eval(late, e, s, "up", time.Now()); !errors.As(err, new(promql.ErrQueryTimeout)) {
		t.Errorf("past its time: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := store.Eval(stopped, e, s, "up", time.Now()); !errors.As(err, new(promql.ErrQueryCanceled)) {
		t.Errorf("cancelled: %v", err)
	}
	close(s.out)
	if err := <-first; err != nil {
		t.Errorf("the one that ran: %v", err)
	}
}

// slow is a storage that takes as long as the query may.
type slow struct{ ctx context.Context }

func (s slow) Querier(_, _ int64) (storage.Querier, error) {
	<-s.ctx.Done()
	return storage.NoopQuerier(), nil
}

// TestQueryLimits: a query that was too slow names the limit that has passed: the engine's, or the request's.
func TestQueryLimits(t *testing.T) {
	o := store.DefaultEngineOptions()
	o.Timeout, o.Concurrent = time.Hour, 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := store.Eval(ctx, store.NewEngine(o, nil, nil), slow{ctx}, "up", time.Now())
	if !errors.As(err, new(promql.ErrQueryTimeout)) || !strings.Contains(err.Error(), "the limit is that of the request") {
		t.Errorf("the request's limit: %v", err)
	}
	o.Timeout = time.Nanosecond
	_, err = store.Eval(t.Context(), store.NewEngine(o, nil, nil), slow{ctx}, "up", time.Now())
	if !errors.As(err, new(promql.ErrQueryTimeout)) || !strings.Contains(err.Error(), "the limit is 1ns") {
		t.Errorf("the engine's limit: %v", err)
	}
}

// TestCallsHaveRoomOfTheirOwn: calls over HTTP and the monitor's own queries do not wait for each other.
func TestCallsHaveRoomOfTheirOwn(t *testing.T) {
	o := options(t)
	o.Query.Concurrent = 1
	db := open(t, o)
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	s := stuck{make(chan struct{}), make(chan struct{})}
	own := make(chan error)
	go func() {
		_, err := store.Eval(t.Context(), db.Engine(), s, "up", time.Now())
		own <- err
	}()
	<-s.in
	resp, err := http.Get(srv.URL + "/api/v1/query?query=1&timeout=5s")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a call while the monitor asks: %s", resp.Status)
	}
	close(s.out)
	must(t, <-own)
}

// TestQueryNamesItsLimit: a query over ten million samples is refused, from Go and
// over HTTP, with the limit and what to ask instead.
func TestQueryNamesItsLimit(t *testing.T) {
	o := options(t)
	db := open(t, o)
	now := time.Now()
	var samples []metric.Sample
	d := &metric.Desc{Name: "tee_test_total", Help: "Test.", Kind: metric.Counter, Labels: []string{"n"}}
	for i := range 1000 {
		samples = append(samples, metric.Sample{Desc: d, Labels: []string{strconv.Itoa(i)}, Value: 1})
	}
	must(t, db.Append(now, samples))
	// Each of 1,000 series has one sample, which is valid at 10,000 moments.
	const want = "the limit is 2000000 at once; ask for fewer series, less time or a longer step"
	step := 20 * time.Millisecond
	if _, err := db.QueryRange(t.Context(), "tee_test_total", now, now.Add(10_000*step), step); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("from Go: %v", err)
	}
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	resp, err := http.Get(srv.URL + "/api/v1/query?" + url.Values{"query": {"tee_test_total[200s:20ms]"}, "time": {strconv.FormatInt(now.Unix()+200, 10)}}.Encode())
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(body), want) {
		t.Errorf("over HTTP: %s %s", resp.Status, body)
	}
}

// TestCheckExpr: an expression that cannot be drawn is refused before it is stored.
func TestCheckExpr(t *testing.T) {
	for expr, want := range map[string]string{"rate(x[5m])": "", "1 + 1": "", "sum(": "unclosed", "x[5m]": "gives a range vector", `"text"`: "gives a string"} {
		t.Run(expr, func(t *testing.T) {
			if err := store.CheckExpr(expr); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", expr, err, want)
			}
		})
	}
}
