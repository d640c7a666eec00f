package load_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/load/protocols"
)

func protocol(t *testing.T, name string) *load.Protocol {
	t.Helper()
	for _, p := range protocols.All {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no protocol %s", name)
	return nil
}

// short returns the options of a load that lasts a third of a second.
func short(t *testing.T, name, address string) load.Options {
	return load.Options{Protocol: protocol(t, name), Ask: load.Ask{Host: "localhost", Path: "/", Command: "hello", Keys: 10, Bytes: 100},
		Network: "tcp", Address: address, Connections: 5, Pipeline: 1, Threads: 2, Seed: 1,
		Warm: 50 * time.Millisecond, Measure: 250 * time.Millisecond, Wait: 5 * time.Second, Timeout: 5 * time.Second}
}

func run(t *testing.T, o load.Options) *load.Report {
	t.Helper()
	r, err := load.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func histogram(t *testing.T, encoded string) *hdrhistogram.Histogram {
	t.Helper()
	if encoded == "" {
		t.Fatal("a histogram is missing")
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// server starts an HTTP server that counts its answers.
func server(t *testing.T, secure bool, h http.HandlerFunc) (address string, config *tls.Config, answered *atomic.Int64) {
	t.Helper()
	answered = new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		h(w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	if secure {
		s.StartTLS()
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		config = &tls.Config{RootCAs: pool, ServerName: "example.com"}
	} else {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), config, answered
}

func hello(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, strings.Repeat("hello ", 100))
}

// TestLoads: load and server count the same requests, over every kind of connection.
func TestLoads(t *testing.T) {
	for _, c := range []struct {
		name, protocol string
		secure         bool
		change         func(*load.Options)
	}{
		{"http1", "http1", false, nil},
		{"http1 fresh", "http1", false, func(o *load.Options) { o.Fresh = true }},
		{"http1 tls", "http1", true, nil},
		{"http1 tls fresh resumed", "http1", true, func(o *load.Options) {
			o.Fresh = true
			o.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(16)
		}},
		{"http1 chunked pipeline", "http1", false, func(o *load.Options) { o.Pipeline = 3; o.Ask.Path = "/chunked" }},
		{"http2", "http2", false, func(o *load.Options) { o.Pipeline = 7 }},
		{"http2 tls", "http2", true, func(o *load.Options) { o.Pipeline = 7 }},
		{"http1 open", "http1", false, func(o *load.Options) { o.Rate = 100 }},
		{"http1 open fresh", "http1", false, func(o *load.Options) { o.Rate, o.Fresh = 100, true }},
		{"http1 tls poisson", "http1", true, func(o *load.Options) { o.Rate, o.Poisson = 100, true }},
		{"http2 open", "http2", false, func(o *load.Options) { o.Rate, o.Pipeline = 100, 4 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, config, answered := server(t, c.secure, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/chunked" {
					_, _ = io.WriteString(w, "part")
					w.(http.Flusher).Flush()
				}
				hello(w, r)
			})
			o := short(t, c.protocol, address)
			o.Measure = time.Second
			o.TLS = config
			if config != nil {
				o.TLS.NextProtos = []string{o.Protocol.ALPN}
			}
			if c.change != nil {
				c.change(&o)
			}
			r := run(t, o)
			if len(r.Errors) > 0 {
				t.Errorf("errors: %v", r.Errors)
			}
			// The server has also answered one request that checked whether it was ready, and
			// those in flight at the end.
			most := int64(o.Connections*o.Pipeline) + 1
			if diff := answered.Load() - int64(r.Answered); diff < 1 || diff > most {
				t.Errorf("the server answered %d, the load says %d", answered.Load(), r.Answered)
			}
			if r.Requests == 0 || r.Requests > r.Answered || r.Digest == "" {
				t.Errorf("%d requests of %d, digest %q", r.Requests, r.Answered, r.Digest)
			}
			if h := histogram(t, r.Service); uint64(h.TotalCount()) != r.Made() {
				t.Errorf("%d service times of %d requests", h.TotalCount(), r.Made())
			}
			if o.Rate > 0 {
				if h := histogram(t, r.Response); uint64(h.TotalCount()) != r.Due || h.Mean() < histogram(t, r.Service).Mean() {
					t.Errorf("%d response times of %d requests; mean %.0f, of service %.0f", h.TotalCount(), r.Due, h.Mean(), histogram(t, r.Service).Mean())
				}
				if !o.Poisson && (r.Due < 99 || r.Due > 101) {
					t.Errorf("%d requests were due, want 100", r.Due)
				}
			}
			histogram(t, r.Connect)
			if (r.Handshake != "") != c.secure {
				t.Errorf("handshakes were timed: %v", r.Handshake != "")
			}
			if o.Fresh && c.secure && (r.Handshakes == 0 || r.Resumed < r.Handshakes-5) {
				t.Errorf("%d handshakes, %d resumed", r.Handshakes, r.Resumed)
			}
			sum := 0.0
			for _, n := range r.Windows {
				sum += n
			}
			if uint64(sum) != r.Requests {
				t.Errorf("windows add up to %.0f of %d requests", sum, r.Requests)
			}
			if r.CPUSeconds <= 0 || r.Received == 0 {
				t.Errorf("CPU %v s, received %d", r.CPUSeconds, r.Received)
			}
		})
	}
}

// TestStall: requests that fall due while the server stalls wait for it, each timed from its own
// due moment; a closed loop would have sent nothing during that time.
func TestStall(t *testing.T) {
	const stall, rate = 200 * time.Millisecond, 200
	var asked atomic.Int64
	address, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 30 { // the first checks whether the server is ready, ten more are the warm-up's
			time.Sleep(stall)
		}
		hello(w, r)
	})
	o := short(t, "http1", address)
	o.Rate, o.Connections, o.Threads, o.Measure = rate, 1, 1, 600*time.Millisecond
	r := run(t, o)
	// 40 were due during the stall, evenly spaced, so half of them waited for at least half of
	// it.
	slow := int64(0)
	for _, bar := range histogram(t, r.Response).Distribution() {
		if bar.From > int64(stall/2) {
			slow += bar.Count
		}
	}
	if slow < 18 {
		t.Errorf("%d responses took more than half of the stall, want 20", slow)
	}
}

// TestBacklog: a slow server that answers one request at a time has no requests of the warm-up
// left in the measured time.
func TestBacklog(t *testing.T) {
	for name, fresh := range map[string]bool{"connections that stay": false, "fresh connections": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var one sync.Mutex
			address, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
				one.Lock()
				defer one.Unlock()
				time.Sleep(100 * time.Millisecond)
				hello(w, r)
			})
			o := short(t, "http1", address)
			o.Fresh, o.Connections, o.Measure = fresh, 30, 3*time.Second
			if r := run(t, o); r.Requests < 9 || r.Requests > 31 {
				t.Errorf("%d answers in three seconds, want about 30", r.Requests)
			}
		})
	}
}

// TestQueue: the pause after the warm-up empties the queue of a closed loop; the queue is full
// again when the measured time begins.
func TestQueue(t *testing.T) {
	for name, fresh := range map[string]bool{"connections that stay": false, "fresh connections": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const took, clients = 10 * time.Millisecond, 40
			one := make(chan struct{}, 1) // the longest waiter is next
			address, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
				one <- struct{}{}
				defer func() { <-one }()
				time.Sleep(took)
				hello(w, r)
			})
			o := short(t, "http1", address)
			o.Fresh, o.Connections = fresh, clients
			h := histogram(t, run(t, o).Service)
			if got := time.Duration(h.ValueAtPercentile(10)); got < clients/2*took {
				t.Errorf("a tenth of %d answers took no more than %v, want all to wait for %d others: %v", h.TotalCount(), got, clients-1, (clients-1)*took)
			}
		})
	}
}

// TestOverload: requests beyond the capacity get no answer in time, and are still counted.
func TestOverload(t *testing.T) {
	address, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		hello(w, r)
	})
	o := short(t, "http1", address)
	o.Rate, o.Connections, o.Threads, o.Measure = 40, 1, 1, 2*time.Second
	r := run(t, o)
	if r.Due < 79 || r.Due > 81 || r.Errors["unanswered"] == 0 {
		t.Errorf("%d were due, want 80; errors %v", r.Due, r.Errors)
	}
	if r.Requests == 0 || r.Requests > 21 { // answers to the backlog after the measured time are not part of the rate
		t.Errorf("%d answered in 2 s at 100 ms each", r.Requests)
	}
	if h := histogram(t, r.Response); h.TotalCount() < 79 || h.Max() < int64(time.Second) {
		t.Errorf("%d response times, the longest %v", h.TotalCount(), time.Duration(h.Max()))
	}
}

// TestSlowWarmUp: the load waits for all requests of the warm-up, however long the queue. A
// connection given up instead would be replaced by a new one.
func TestSlowWarmUp(t *testing.T) {
	for _, rate := range []float64{0, 20_000} {
		t.Run(fmt.Sprintf("rate %g", rate), func(t *testing.T) {
			t.Parallel()
			var made atomic.Int64
			var one sync.Mutex // answer at a time
			address := faulty(t, func(_ int64, c net.Conn) {
				made.Add(1)
				for b := make([]byte, 100); ; {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					one.Lock()
					time.Sleep(25 * time.Millisecond)
					one.Unlock()
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			})
			o := short(t, "raw", address)
			o.Connections, o.Rate, o.Timeout, o.Measure = 100, rate, 30*time.Second, time.Second
			if r := run(t, o); r.Requests == 0 {
				t.Error("no request was answered")
			}
			if n := made.Load(); n != int64(o.Connections)+1 { // one checks whether the server is ready
				t.Errorf("%d connections were made, want %d and one before", n, o.Connections)
			}
		})
	}
}

// faulty starts a server that handles each connection with serve.
func faulty(t *testing.T, serve func(n int64, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var count atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := count.Add(1)
			go func() {
				defer c.Close()
				serve(n, c)
			}()
		}
	}()
	return l.Addr().String()
}

// echo answers every line with itself, at most n of them.
func echo(c net.Conn, n int) {
	b := make([]byte, 1)
	var line []byte
	for n > 0 {
		if _, err := c.Read(b); err != nil {
			return
		}
		if line = append(line, b...); b[0] == '\n' {
			if _, err := c.Write(line); err != nil {
				return
			}
			line = line[:0]
			n--
		}
	}
}

// TestFaults: misbehaving servers are counted by kind, and the load continues on new
// connections.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(n int64, c net.Conn)
		want  string
	}{
		{"closes", func(n int64, c net.Conn) { echo(c, 3) }, ""}, // between requests: no error, only a new connection
		{"resets", func(n int64, c net.Conn) {
			echo(c, 3)
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
		}, "reset"},
		{"cuts", func(n int64, c net.Conn) {
			echo(c, 3)
			_, _ = c.Read(make([]byte, 6))
			_, _ = io.WriteString(c, "hel")
		}, "closed"},
		{"lies", func(n int64, c net.Conn) {
			if n == 1 {
				echo(c, 1)
				return
			}
			for {
				if _, err := c.Read(make([]byte, 6)); err != nil {
					return
				}
				_, _ = io.WriteString(c, "other\n")
			}
		}, "wrong answer"},
		{"chatters", func(n int64, c net.Conn) {
			echo(c, 1)
			_, _ = io.WriteString(c, "more\nand\nmore\n")
			_, _ = io.Copy(io.Discard, c)
		}, "wrong answer"}, // its surplus is read as the answer to the next request
		{"sleeps", func(n int64, c net.Conn) {
			echo(c, 1)
			if n > 1 {
				time.Sleep(time.Minute)
			}
		}, "timeout"},
	} {
		for _, fresh := range []bool{false, true} {
			if fresh && c.name != "lies" {
				continue // a connection for one request sees no second
			}
			t.Run(fmt.Sprintf("%s fresh=%v", c.name, fresh), func(t *testing.T) {
				t.Parallel()
				o := short(t, "line", faulty(t, c.serve))
				o.Fresh, o.Measure = fresh, 2*time.Second
				if c.want == "timeout" {
					o.Timeout = time.Second
				}
				r := run(t, o)
				if c.want == "" {
					if len(r.Errors) > 0 && r.Errors["closed"]+r.Errors["reset"] == 0 || r.Requests == 0 {
						t.Errorf("%d requests, errors %v", r.Requests, r.Errors)
					}
					return
				}
				if r.Errors[c.want] == 0 && !(c.want == "closed" && r.Errors["reset"] > 0) {
					t.Errorf("errors %v, want %q", r.Errors, c.want)
				}
			})
		}
	}
}

// TestRefusals: what cannot work fails at once, or when the wait is over.
func TestRefusals(t *testing.T) {
	address, config, _ := server(t, true, hello)
	plain, _, _ := server(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	for _, c := range []struct {
		name, address string
		change        func(*load.Options)
		want          string
	}{
		{"nobody there", nobody, nil, "did not become ready within 100ms"},
		{"unknown certificate", address, func(o *load.Options) { o.TLS = &tls.Config{ServerName: "example.com"} }, "certificate"},
		{"another name", address, func(o *load.Options) {
			o.TLS = config.Clone()
			o.TLS.ServerName = "other.example"
		}, "certificate"},
		{"no TLS there", plain, func(o *load.Options) { o.TLS = config }, "TLS"},
		{"error answers", plain, nil, "status 500"},
		{"no connections", plain, func(o *load.Options) { o.Connections = 0 }, "connections"},
		{"threads", plain, func(o *load.Options) { o.Threads = 9 }, "threads"},
		{"pipeline", plain, func(o *load.Options) { o.Pipeline, o.Fresh = 2, true }, "pipeline"},
		{"rate", plain, func(o *load.Options) { o.Rate = -1 }, "rate"},
		{"measure", plain, func(o *load.Options) { o.Measure = 1 }, "measure"},
		{"path", plain, func(o *load.Options) { o.Ask.Path = "x y" }, "path"},
		{"populate", plain, func(o *load.Options) { o.Populate = true }, "no data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := short(t, "http1", c.address)
			o.Wait = 100 * time.Millisecond
			if c.change != nil {
				c.change(&o)
			}
			if _, err := load.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one of %q", err, c.want)
			}
		})
	}
}

// TestFillBehindForwarder: a port forwarder accepts connections before the server listens, and
// closes them; the load waits for the server. A server that falls silent ends the load.
func TestFillBehindForwarder(t *testing.T) {
	fill := func(wait time.Duration, serve func(n int64, c net.Conn)) error {
		o := short(t, "resp", faulty(t, serve))
		o.Ask.Command, o.Populate, o.Wait, o.Timeout = "GET key:{key}", true, wait, 200*time.Millisecond
		_, err := load.Run(t.Context(), o)
		return err
	}
	var tries atomic.Int64
	const refused = 3
	err := fill(5*time.Second, func(n int64, c net.Conn) {
		if tries.Store(n); n > refused {
			_, _ = io.WriteString(c, "-ERR full\r\n")
			_, _ = io.Copy(io.Discard, c)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "full") || tries.Load() <= refused {
		t.Errorf("after %d connections: %v; want the server's own answer", tries.Load(), err)
	}
	if err := fill(100*time.Millisecond, func(int64, net.Conn) {}); err == nil || !strings.Contains(err.Error(), "fill the server") {
		t.Errorf("a server that never listens: %v", err)
	}
	began := time.Now()
	if err := fill(5*time.Second, func(_ int64, c net.Conn) { _, _ = io.Copy(io.Discard, c) }); err == nil || time.Since(began) > 4*time.Second {
		t.Errorf("a silent server: %v after %v", err, time.Since(began))
	}
}

// TestStopped: cancelling the context ends the load soon.
func TestStopped(t *testing.T) {
	address, _, _ := server(t, false, hello)
	for _, fresh := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		o := short(t, "http1", address)
		o.Fresh, o.Measure = fresh, time.Hour
		began := time.Now()
		if _, err := load.Run(ctx, o); err == nil || time.Since(began) > time.Minute {
			t.Errorf("fresh=%v: error %v after %v", fresh, err, time.Since(began))
		}
	}
}

// TestStoppedHandshake: cancelling the context also ends hanging handshakes, however long the
// server's timeout.
func TestStoppedHandshake(t *testing.T) {
	cert, key, err := load.Certificate("", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	var hanging atomic.Int64
	o := short(t, "line", faulty(t, func(n int64, c net.Conn) {
		if n > 1 { // the first one checks whether the server is ready
			hanging.Add(1)
			_, _ = io.Copy(io.Discard, c)
			return
		}
		echo(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}), 1)
	}))
	o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	o.TLS.RootCAs.AppendCertsFromPEM(cert)
	o.Timeout, o.Measure = time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := load.Run(ctx, o)
		ended <- err
	}()
	for hanging.Load() < int64(o.Connections) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a load without a connection has ended well")
		}
	case <-time.After(time.Minute):
		t.Error("the load waits for handshakes after its end")
	}
}

// TestStatistics: the server is asked at the beginning and at the end of the measured time.
func TestStatistics(t *testing.T) {
	address, _, answered := server(t, false, hello)
	o := short(t, "http1", address)
	o.Rate, o.Measure = 400, time.Second
	o.Statistics = &load.Statistics{Gauges: []string{"level"}, Read: func(context.Context, *load.Options) (map[string]float64, map[string]string, error) {
		return map[string]float64{"answered": float64(answered.Load()), "level": 7}, map[string]string{"version": "1"}, nil
	}}
	r := run(t, o)
	if n := r.Server["answered"]; n < 1 || n >= float64(r.Answered) || r.Server["level"] != 7 || r.Versions["version"] != "1" {
		t.Errorf("the server's statistics are %v, %v; %d requests were answered, the warm-up's with them", r.Server, r.Versions, r.Answered)
	}
}

// TestCounting: the server's counts, read while the load waits, match the load's own count of
// requests, however long measuring and reading take.
func TestCounting(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*load.Options)
	}{
		{"closed", func(*load.Options) {}},
		{"closed, longer", func(o *load.Options) { o.Measure = time.Second }},
		{"closed, no warm-up", func(o *load.Options) { o.Warm = 0 }},
		{"pipeline", func(o *load.Options) { o.Pipeline = 7 }},
		{"open", func(o *load.Options) { o.Rate = 2000 }},
		{"fresh", func(o *load.Options) { o.Fresh = true }},
		{"open, fresh", func(o *load.Options) { o.Rate, o.Fresh = 400, true }},
		{"counts late", func(o *load.Options) { o.Statistics.Late = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, _, answered := server(t, false, hello)
			o := short(t, "http1", address)
			o.Statistics = &load.Statistics{Read: func(context.Context, *load.Options) (map[string]float64, map[string]string, error) {
				return map[string]float64{"answered": float64(answered.Load())}, nil, nil
			}}
			var counted, first int64
			o.Counting = func(_ context.Context, begins bool) error {
				counted, first = answered.Load()-first, answered.Load()
				time.Sleep(100 * time.Millisecond)
				if now := answered.Load(); now != first {
					t.Errorf("%d requests were answered while counters were read", now-first)
				}
				return nil
			}
			c.change(&o)
			r := run(t, o)
			if uint64(counted) != r.Counted || r.Counted < r.Requests || r.Counted >= r.Answered == (o.Warm > 0) {
				t.Errorf("counted %d, the load says %d; %d in the measured time of %d in all", counted, r.Counted, r.Requests, r.Answered)
			}
			if n := r.Server["answered"]; n != float64(r.Expected) || (n > float64(r.Counted)) != o.Statistics.Late {
				t.Errorf("the server says that it has answered %v, want %d; %d were counted", n, r.Expected, r.Counted)
			}
		})
	}
}
