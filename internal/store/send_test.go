package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// receiver is Prometheus' own receiver of remote write over a real database. It takes only samples in order, so one that
// has all of them got them in order.
type receiver struct {
	db      *tsdb.DB
	handler http.Handler
	engine  *store.Engine
	// instead answers in place of the handler, if it reports true.
	instead atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	calls   atomic.Int64
	*httptest.Server
}

func newReceiver(t *testing.T, late time.Duration) *receiver {
	t.Helper()
	o := tsdb.DefaultOptions()
	o.OutOfOrderTimeWindow = late.Milliseconds()
	db, err := tsdb.Open(t.TempDir(), nil, nil, o, nil)
	must(t, err)
	r := &receiver{db: db, engine: store.NewEngine(store.DefaultEngineOptions(), nil, nil)}
	r.handler = remote.NewWriteHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), db,
		remoteapi.MessageTypes{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType}, false, false, false)
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.Server.Close()
		must(t, errors.Join(r.engine.Close(), db.Close()))
	})
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	defer r.calls.Add(1)
	if f := r.instead.Load(); f != nil && (*f)(w, req) {
		return
	}
	r.handler.ServeHTTP(w, req)
}

func (r *receiver) answer(f func(http.ResponseWriter, *http.Request) bool) { r.instead.Store(&f) }

func (r *receiver) query(t *testing.T, expr string, at time.Time) []metric.Point {
	t.Helper()
	p, err := store.Eval(t.Context(), r.engine, r.db, expr, at)
	must(t, err)
	return p
}

// config is a configuration that sends to a receiver.
func sendTo(t *testing.T, url, more string) *store.ScrapeConfig {
	t.Helper()
	c, err := store.ParseScrape([]byte("global: {external_labels: {cluster: north}}\nremote_write:\n- {url: '"+url+"/api/v1/write', name: central, "+more+
		"queue_config: {batch_send_deadline: 10ms, min_backoff: 1ms, max_backoff: 10ms, max_shards: 1}}\n"), "")
	must(t, err)
	return c
}

// ahead is how far in the future the rounds of these tests are: what was before a queue began is not sent, and it
// begins in its own time.
const ahead = 5 * time.Minute

// rounds appends rounds of one second and returns the time of the last.
func rounds(t *testing.T, s interface {
	Append(time.Time, []metric.Sample) error
}, from time.Time, n int) time.Time {
	t.Helper()
	for i := range n {
		from = from.Add(time.Second)
		must(t, s.Append(from, []metric.Sample{call("redis", "read", float64(i)), call("redis", "write", float64(10*i)), {Desc: load, Value: 0.5},
			{Desc: delay, Labels: []string{"redis"}, Hist: &metric.Hist{Bounds: []float64{0.1, 1}, Counts: []uint64{uint64(i), 2, 3}, Sum: float64(i)}}}))
	}
	return from
}

// allOf are queries whose results tell whether all samples of rounds are there.
var allOf = []string{
	`sort(count_over_time(tee_syscalls_total[1h]))`, `sort(sum_over_time(tee_syscalls_total[1h]))`, `sum_over_time(node_load1[1h])`,
	`sort(sum_over_time(tee_runqueue_latency_seconds_bucket[1h]))`, `sum_over_time(tee_runqueue_latency_seconds_sum[1h])`,
}

// sends is a store or a queue.
type sends interface {
	Poke()
	Collect(func(metric.Sample))
}

// arrives waits until the receiver has from q what the store has, with the external label.
func arrives(t *testing.T, r *receiver, q sends, s *store.Store, at time.Time) {
	t.Helper()
	await.Event(t, "the receiver has all samples", func() error {
		q.Poke()
		for _, expr := range allOf {
			got, want := r.query(t, expr, at), query(t, s, expr, at)
			for i := range want {
				want[i].Labels["cluster"] = "north"
			}
			if len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("%s is %v, want %v", expr, got, want)
			}
		}
		return nil
	})
}

// own returns one of the store's own metrics about its receiver.
func own(s sends, name string) (v float64) {
	s.Poke()
	s.Collect(func(m metric.Sample) {
		if m.Desc.Name == name {
			v += m.Value
		}
	})
	return v
}

// TestRemoteWrite: a receiver gets what the store has, by both versions of the protocol.
func TestRemoteWrite(t *testing.T) {
	for _, message := range []remoteapi.WriteMessageType{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType} {
		t.Run(string(message), func(t *testing.T) {
			r, s := newReceiver(t, 0), open(t, options(t))
			must(t, s.ApplyConfig(sendTo(t, r.URL, "protobuf_message: "+string(message)+", headers: {X-Scope-OrgID: me}, ")))
			var header atomic.Value
			r.answer(func(_ http.ResponseWriter, q *http.Request) bool {
				header.Store(q.Header.Get("X-Scope-OrgID") + " " + q.Header.Get("Content-Type"))
				return false
			})
			end := rounds(t, s, time.Now().Add(ahead), 30)
			arrives(t, r, s, s, end)
			if h := header.Load().(string); !strings.HasPrefix(h, "me application/x-protobuf") || strings.Contains(h, "v2.Request") != (message == remoteapi.WriteV2MessageType) {
				t.Errorf("the headers are %s", h)
			}
			if n := own(s, "prometheus_remote_storage_samples_total"); n < 30 {
				t.Errorf("%v samples are counted as sent", n)
			}
			// The queue handles the answer after the receiver has the samples.
			await.Event(t, "the receiver of samples of the future is not behind", func() error {
				if behind := own(s, "teescope_remote_write_delay_seconds"); behind != 0 {
					return fmt.Errorf("%v s", behind)
				}
				return nil
			})
			must(t, s.ApplyConfig(parsed(t, ""))) // without receivers
			calls := r.calls.Load()
			rounds(t, s, end, 3)
			if n := r.calls.Load(); n != calls {
				t.Errorf("%d calls after the receiver was taken out of the configuration", n-calls)
			}
		})
	}
}

func parsed(t *testing.T, text string) *store.ScrapeConfig {
	t.Helper()
	c, err := store.ParseScrape([]byte(text), "")
	must(t, err)
	return c
}

// TestReceiverAway: what is written while a receiver is away, answers 503 or does not answer arrives when it is back,
// in order; the store goes on meanwhile.
func TestReceiverAway(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, r *receiver) (back func()){
		"503": func(_ *testing.T, r *receiver) func() {
			r.answer(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			return func() { r.instead.Store(nil) }
		},
		"cut off": func(_ *testing.T, r *receiver) func() {
			r.answer(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
			return func() { r.instead.Store(nil) }
		},
		"not listening": func(t *testing.T, r *receiver) func() {
			r.Server.Close()
			r.calls.Add(3) // nobody counts them
			return func() {
				var lc net.ListenConfig
				l, err := lc.Listen(context.Background(), "tcp", r.Listener.Addr().String())
				must(t, err)
				r.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: r}}
				r.Start()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newReceiver(t, 0), open(t, options(t))
			must(t, s.ApplyConfig(sendTo(t, r.URL, "")))
			end := rounds(t, s, time.Now().Add(ahead), 3)
			arrives(t, r, s, s, end)
			r.calls.Store(0)
			back := fail(t, r)
			end = rounds(t, s, end, 20)
			await.Event(t, "samples are sent again", func() error {
				if n := own(s, "prometheus_remote_storage_samples_retried_total"); n == 0 || r.calls.Load() < 3 {
					return fmt.Errorf("%v samples, %d calls", n, r.calls.Load())
				}
				return nil
			})
			end = rounds(t, s, end, 20)
			back()
			arrives(t, r, s, s, end)
			if n := own(s, "prometheus_remote_storage_samples_failed_total"); n != 0 {
				t.Errorf("%v samples failed", n)
			}
		})
	}
}

// TestReceiverSlow: a receiver that does not answer for a while costs a bounded number of samples in memory; the others
// wait in the log.
func TestReceiverSlow(t *testing.T) {
	r, s := newReceiver(t, 0), open(t, options(t))
	c, err := store.ParseScrape([]byte("global: {external_labels: {cluster: north}}\nremote_write: [{url: '"+r.URL+
		"', queue_config: {capacity: 20, max_samples_per_send: 10, max_shards: 1, batch_send_deadline: 10ms}}]"), "")
	must(t, err)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	r.answer(func(http.ResponseWriter, *http.Request) bool { <-held; return false })
	must(t, s.ApplyConfig(c))
	end := rounds(t, s, time.Now().Add(ahead), 100)
	await.Event(t, "the queue is full", func() error {
		if n := own(s, "prometheus_remote_storage_samples_pending"); n < 20 {
			return fmt.Errorf("%v samples wait", n)
		}
		return nil
	})
	if n := own(s, "prometheus_remote_storage_samples_pending"); n > 20+2*10 {
		t.Errorf("%v samples wait in memory", n)
	}
	release()
	arrives(t, r, s, s, end)
}

// TestReceiverRefuses: a batch that is answered 4xx is not sent again; it is counted, and the log has the reason once. What
// comes after it arrives.
func TestReceiverRefuses(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) { testReceiverRefuses(t, code) })
	}
}

func testReceiverRefuses(t *testing.T, code int) {
	t.Helper()
	var log kept
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r, s := newReceiver(t, 0), open(t, o)
	var refused atomic.Int64
	r.answer(func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		http.Error(w, "this tenant has too many series", code)
		return true
	})
	must(t, s.ApplyConfig(sendTo(t, r.URL, "")))
	end := time.Now().Add(ahead)
	for refused.Load() < 3 {
		before := refused.Load()
		end = rounds(t, s, end, 1)
		await.Event(t, "the batch is refused", func() error {
			s.Poke()
			if refused.Load() == before {
				return errors.New("no call")
			}
			return nil
		})
	}
	await.Event(t, "nothing waits any more", func() error {
		if n := own(s, "prometheus_remote_storage_samples_pending"); n > 0 {
			return fmt.Errorf("%v samples", n)
		}
		return nil
	})
	failed, all := own(s, "prometheus_remote_storage_samples_failed_total"), own(s, "teescope_store_samples_appended_total")
	if failed != all {
		t.Errorf("%v samples failed, want all %v", failed, all)
	}
	if n := strings.Count(log.String(), "this tenant has too many series"); n != 1 {
		t.Errorf("the log has the reason %d times:\n%s", n, log.String())
	}
	r.instead.Store(nil)
	last := rounds(t, s, end, 5)
	await.Event(t, "later samples arrive", func() error {
		s.Poke()
		if p := r.query(t, `sum(count_over_time(node_load1[1h]))`, last); len(p) != 1 || p[0].Value != 5 {
			return fmt.Errorf("%v", p)
		}
		return nil
	})
}

// TestReceiverLimitsRate: where the configuration says so, what is answered 429 is sent again, not before the time of
// Retry-After, and nothing is lost.
func TestReceiverLimitsRate(t *testing.T) {
	r, s := newReceiver(t, 0), open(t, options(t))
	began := make(chan time.Time, 2)
	r.answer(func(w http.ResponseWriter, _ *http.Request) bool {
		select {
		case began <- time.Now():
		default:
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	must(t, s.ApplyConfig(parsed(t, "global: {external_labels: {cluster: north}}\nremote_write: [{url: '"+r.URL+
		"', queue_config: {retry_on_http_429: true, batch_send_deadline: 10ms, min_backoff: 1ms, max_backoff: 10ms, max_shards: 1}}]")))
	end := rounds(t, s, time.Now().Add(ahead), 30)
	arrives(t, r, s, s, end)
	if first, second := <-began, <-began; second.Sub(first) < time.Second {
		t.Errorf("sent again after %s, want 1 s at least", second.Sub(first))
	}
	if n := own(s, "prometheus_remote_storage_samples_failed_total"); n != 0 {
		t.Errorf("%v samples failed", n)
	}
}

// TestReceiverAfterTheClockWentBack: then the log begins anew, and its references name other series.
func TestReceiverAfterTheClockWentBack(t *testing.T) {
	r, s := newReceiver(t, time.Hour), open(t, options(t))
	must(t, s.ApplyConfig(sendTo(t, r.URL, "")))
	begin := time.Now().Add(ahead)
	end := rounds(t, s, begin, 3)
	arrives(t, r, s, s, end)
	at := begin.Add(-2 * time.Minute)
	for i := range 5 { // other series get the references of the first ones
		at = at.Add(time.Second)
		must(t, s.Append(at, []metric.Sample{{Desc: load, Value: float64(i)}, call("nginx", "accept", 100), call("redis", "write", 7), call("redis", "read", 3)}))
	}
	await.Event(t, "the receiver has the samples before", func() error {
		s.Poke()
		for expr, want := range map[string]string{
			`sum_over_time(node_load1[1m])`:                                  "10",
			`sum_over_time(tee_syscalls_total{syscall="accept"}[1m])`:        "500",
			`sort(sum by (syscall) (sum_over_time(tee_syscalls_total[1m])))`: "15 35 500",
		} {
			var got []string
			for _, p := range r.query(t, expr, at) {
				got = append(got, fmt.Sprint(p.Value))
			}
			// The round that set the clock's future aside may be older than the queue's new begin.
			if strings.Join(got, " ") != want {
				return fmt.Errorf("%s is %v, want %s", expr, got, want)
			}
		}
		return nil
	})
}
