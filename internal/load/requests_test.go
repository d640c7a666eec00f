package load_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/load"
)

// TestRequests: a number of requests ends the load, whatever the server's speed: as many are sent, answered, counted and
// in the windows, with nothing in flight around them.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*load.Options)
		took   time.Duration // of virtual time; 0: of random length
	}{
		{"closed", func(*load.Options) {}, 2 * time.Second}, // 5 connections, 10 ms for an answer
		{"one connection", func(o *load.Options) { o.Connections, o.Threads = 1, 1 }, 10 * time.Second},
		{"more connections than requests", func(o *load.Options) { o.Connections = 2000 }, 10 * time.Millisecond},
		{"pipeline", func(o *load.Options) { o.Pipeline = 7 }, 0},
		{"no warm-up", func(o *load.Options) { o.Warm = 0 }, 2 * time.Second},
		{"open", func(o *load.Options) { o.Rate = 100 }, 9990*time.Millisecond + 10*time.Millisecond},
		{"open, faster than the server", func(o *load.Options) { o.Rate = 10_000 }, 2 * time.Second},
		{"open, poisson", func(o *load.Options) { o.Rate, o.Poisson = 100, true }, 0},
		{"fresh", func(o *load.Options) { o.Fresh = true }, 2400 * time.Millisecond}, // and 2 ms to connect
		{"open, fresh", func(o *load.Options) { o.Rate, o.Fresh = 100, true }, 9990*time.Millisecond + 12*time.Millisecond},
		{"counts late", func(o *load.Options) { o.Statistics.Late, o.Warm = true, 0 }, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _, answered := server(t, false, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(8 * time.Millisecond)
					hello(w, r)
				})
				const n = 1000
				o := short(t, "http1", v)
				o.Measure, o.Requests = 0, n
				o.Statistics = &load.Statistics{Read: func(context.Context, *load.Options) (map[string]float64, map[string]string, error) {
					return map[string]float64{"answered": float64(answered.Load())}, nil, nil
				}}
				var first, counted int64
				o.Counting = func(_ context.Context, begins bool) error {
					first, counted = answered.Load(), answered.Load()-first
					return nil
				}
				c.change(&o)
				r := run(t, o)
				if r.Requests != n || r.Counted != n || r.Expected != n || counted != n || r.Server["answered"] != n || r.Attempts() != n || r.Failed() != 0 {
					t.Errorf("%d requests, counted %d, expected %d; the server answered %d and says %v; %d made, errors %v; want %d of each",
						r.Requests, r.Counted, r.Expected, counted, r.Server["answered"], r.Attempts(), r.Errors, n)
				}
				if h := histogram(t, r.Service); h.TotalCount() != n {
					t.Errorf("%d service times", h.TotalCount())
				}
				took := time.Duration(r.Seconds * 1e9)
				if c.took > 0 && !about(int64(took), c.took) {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				sum := 0.0
				for _, in := range r.Windows {
					sum += in
				}
				if length := float64(len(r.Windows)) * r.Width; len(r.Windows) >= 100 || length > r.Seconds || length+r.Width <= r.Seconds || sum > n || sum < n/2 && len(r.Windows) > 10 {
					t.Errorf("%d windows of %g s of %g s, with %g of %d requests", len(r.Windows), r.Width, r.Seconds, sum, n)
				}
			})
		})
	}
}

// TestFailedRequests: those that fail are among the number.
func TestFailedRequests(t *testing.T) {
	for name, fresh := range map[string]bool{"kept": false, "fresh": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				v, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
					if n := n.Add(1); n > 1 && n%3 == 0 { // the first asks whether it is ready
						w.WriteHeader(http.StatusInternalServerError)
					}
					hello(w, r)
				})
				o := short(t, "http1", v)
				o.Measure, o.Warm, o.Requests, o.Connections, o.Threads, o.Fresh = 0, 0, 300, 1, 1, fresh
				if r := run(t, o); r.Requests != 200 || r.Failed() != 100 || r.Counted != 200 {
					t.Errorf("%d requests, %d counted, errors %v; want 200 and 100", r.Requests, r.Counted, r.Errors)
				}
			})
		})
	}
}

// TestServerThatGoes: a load that waits for its last requests ends when the server takes no connection any more.
func TestServerThatGoes(t *testing.T) {
	for name, change := range map[string]func(*load.Options){
		"closed":      func(*load.Options) {},
		"open":        func(o *load.Options) { o.Rate = 100 },
		"fresh":       func(o *load.Options) { o.Fresh = true },
		"open, fresh": func(o *load.Options) { o.Rate, o.Fresh = 100, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var v *load.Virtual
				var n atomic.Int64
				v, _, _ = server(t, false, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Connection", "close")
					if n.Add(1) == 100 {
						_ = v.Close()
					}
					hello(w, r)
				})
				o := short(t, "http1", v)
				o.Measure, o.Warm, o.Requests = 0, 0, 1e9
				change(&o)
				_, err := load.Run(t.Context(), o)
				if err == nil || !strings.Contains(err.Error(), "accepted no connection for 5s") || !strings.Contains(err.Error(), "1000000000 requests") || !strings.Contains(err.Error(), "refused") {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}
