package load_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimedOut: an abandoned request is in the tail with its time until then.
func TestTimedOut(t *testing.T) {
	for name, rate := range map[string]float64{"closed": 0, "open": 40} {
		for way, fresh := range map[string]bool{"kept": false, "fresh": true} {
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := short(t, "line", faulty(t, func(n int64, c net.Conn) {
						if n%2 == 0 || n < 2 {
							echo(c, 2)
						} else {
							_, _ = io.Copy(io.Discard, c) // without a word
						}
					}))
					o.Rate, o.Fresh, o.Connections, o.Threads = rate, fresh, 4, 1
					o.Timeout, o.Measure = 300*time.Millisecond, time.Second
					r := run(t, o)
					times, timed := r.Response, r.Due-(r.Failed()-r.Errors["timeout"]-r.Errors["unanswered"])
					if rate == 0 {
						times, timed = r.Service, r.Requests+r.Errors["timeout"]
					}
					h := histogram(t, times)
					if r.Errors["timeout"] == 0 || h.Max() < int64(o.Timeout) || uint64(h.TotalCount()) != timed {
						t.Errorf("%d times, want %d, the longest %v; errors %v", h.TotalCount(), timed, time.Duration(h.Max()), r.Errors)
					}
				})
			})
		}
	}
}

// TestUnasked: an answer without a request counts as an error while nothing is in flight.
func TestUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := short(t, "line", faulty(t, func(n int64, c net.Conn) {
			echo(c, 1)
			time.Sleep(2 * time.Millisecond)
			_, _ = io.WriteString(c, "more\n")
			_, _ = io.Copy(io.Discard, c)
		}))
		o.Rate, o.Connections, o.Threads, o.Measure = 40, 2, 1, time.Second
		if r := run(t, o); r.Errors["protocol"] == 0 || r.Words["protocol"] == "" {
			t.Errorf("errors %v, words %v", r.Errors, r.Words)
		}
	})
}
