package load_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/teescope/teescope/internal/host"
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

// options returns those of a load that lasts a third of a second.
func options(t *testing.T, name, address string) load.Options {
	return load.Options{Protocol: protocol(t, name), Ask: load.Ask{Host: "localhost", Path: "/", Command: "hello", Keys: 10, Bytes: 100},
		Network: "tcp", Address: address, Connections: 5, Pipeline: 1, Threads: 2, Seed: 1,
		Warm: 50 * time.Millisecond, Measure: 250 * time.Millisecond, Wait: time.Hour, Timeout: time.Hour}
}

// short returns those of a load on a virtual clock.
func short(t *testing.T, name string, v *load.Virtual) load.Options {
	o := options(t, name, "virtual")
	o.Wait, o.Timeout = 5*time.Second, 5*time.Second
	o.Over(v)
	return o
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

// serve makes h, over HTTP/1 and HTTP/2, answer on a listener until the test ends; it counts the answers.
func serve(t *testing.T, l net.Listener, secure bool, h http.HandlerFunc) (config *tls.Config, answered *atomic.Int64) {
	t.Helper()
	answered = new(atomic.Int64)
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		h(w, r)
	})}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(secure)
	s.Protocols.SetUnencryptedHTTP2(!secure)
	if secure {
		cert, key, err := load.Certificate("", "localhost")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, Time: valid}
		config = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", Time: valid}
		config.RootCAs.AppendCertsFromPEM(cert)
		go func() { _ = s.ServeTLS(l, "", "") }()
	} else {
		go func() { _ = s.Serve(l) }()
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) }) // once the last answer is made
	return config, answered
}

// valid is a time at which the certificates of load.Certificate are; virtual clocks begin before.
func valid() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// server is serve in a virtual network.
func server(t *testing.T, secure bool, h http.HandlerFunc) (v *load.Virtual, config *tls.Config, answered *atomic.Int64) {
	t.Helper()
	v = load.NewVirtual()
	config, answered = serve(t, v, secure, h)
	return v, config, answered
}

// tcp is serve on the loopback.
func tcp(t *testing.T, secure bool, h http.HandlerFunc) (address string, config *tls.Config, answered *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, answered = serve(t, l, secure, h)
	return l.Addr().String(), config, answered
}

func hello(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, strings.Repeat("hello ", 100))
}

// loads are all kinds of connections and schedules. Over the virtual network, with a server that takes 8 ms, a request
// takes 10 ms, and a new connection 2 ms, or 4 ms with TLS. So exactly this many are answered in a second.
var loads = []struct {
	name, protocol string
	secure         bool
	change         func(*load.Options)
	least, most    uint64
}{
	{"http1", "http1", false, nil, 500, 500},
	{"http1 fresh", "http1", false, func(o *load.Options) { o.Fresh = true }, 5 * 83, 5 * 84},
	{"http1 tls", "http1", true, nil, 500, 500},
	{"http1 tls fresh resumed", "http1", true, func(o *load.Options) {
		o.Fresh = true
		o.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(16)
	}, 5 * 71, 5 * 72},
	{"http1 chunked pipeline", "http1", false, func(o *load.Options) { o.Pipeline = 3; o.Ask.Path = "/chunked" }, 625, 625}, // one after the other, 8 ms each
	{"http2", "http2", false, func(o *load.Options) { o.Pipeline = 7 }, 3500, 3500},
	{"http2 tls", "http2", true, func(o *load.Options) { o.Pipeline = 7 }, 3500, 3500},
	{"http1 open", "http1", false, func(o *load.Options) { o.Rate = 100 }, 100, 100},
	{"http1 open fresh", "http1", false, func(o *load.Options) { o.Rate, o.Fresh = 100, true }, 100, 100},
	{"http1 tls poisson", "http1", true, func(o *load.Options) { o.Rate, o.Poisson = 100, true }, 60, 140},
	{"http2 open", "http2", false, func(o *load.Options) { o.Rate, o.Pipeline = 100, 4 }, 100, 100},
}

// chunky answers in parts when it is asked for them.
func chunky(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/chunked" {
		_, _ = io.WriteString(w, "part")
		w.(http.Flusher).Flush()
	}
	hello(w, r)
}

// TestLoads: load and server count the same requests, over every kind of connection.
func TestLoads(t *testing.T) {
	for _, c := range loads {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, config, answered := server(t, c.secure, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(8 * time.Millisecond)
					chunky(w, r)
				})
				o := short(t, c.protocol, v)
				o.Measure = time.Second
				if o.TLS = config; config != nil {
					o.TLS.NextProtos = []string{o.Protocol.ALPN}
				}
				if c.change != nil {
					c.change(&o)
				}
				r := run(t, o)
				if len(r.Errors) > 0 {
					t.Errorf("errors: %v", r.Errors)
				}
				if n := answered.Load(); n != int64(r.Answered)+1 { // one request asked whether the server was ready
					t.Errorf("the server answered %d, the load says %d", n, r.Answered)
				}
				if r.Requests < c.least || r.Requests > c.most || r.Requests >= r.Answered || r.Digest == "" {
					t.Errorf("%d requests of %d, want %d to %d; digest %q", r.Requests, r.Answered, c.least, c.most, r.Digest)
				}
				service := histogram(t, r.Service)
				if uint64(service.TotalCount()) != r.Attempts() {
					t.Errorf("%d service times of %d requests", service.TotalCount(), r.Attempts())
				}
				took := 10 * time.Millisecond
				if o.Fresh {
					took += 2 * time.Millisecond
					if c.secure {
						took += 2 * time.Millisecond
					}
				}
				if o.Ask.Path == "/" && (!about(service.Min(), took) || !about(service.Max(), took)) {
					t.Errorf("services took %v to %v, want %v", time.Duration(service.Min()), time.Duration(service.Max()), took)
				}
				if o.Rate > 0 {
					if h := histogram(t, r.Response); uint64(h.TotalCount()) != r.Due || h.Mean() < service.Mean() {
						t.Errorf("%d response times of %d requests; mean %.0f, of service %.0f", h.TotalCount(), r.Due, h.Mean(), service.Mean())
					}
					if !o.Poisson && (r.Due != 100 || r.Late != 0) {
						t.Errorf("%d requests were due, %d of them late; want 100 in time", r.Due, r.Late)
					}
				}
				histogram(t, r.Connect)
				if (r.Handshake != "") != c.secure {
					t.Errorf("handshakes were timed: %v", r.Handshake != "")
				}
				if o.Fresh && c.secure && (r.Handshakes == 0 || r.Resumed != r.Handshakes) {
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
		})
	}
}

// about allows for the resolution of histograms.
func about(ns int64, want time.Duration) bool {
	return math.Abs(float64(ns)/float64(want)-1) < 0.002
}

// TestKernel: load and server count the same requests over the kernel's connections, too, however slow they are.
func TestKernel(t *testing.T) {
	for _, c := range loads {
		t.Run(c.name, func(t *testing.T) {
			address, config, answered := tcp(t, c.secure, chunky)
			o := options(t, c.protocol, address)
			if o.TLS = config; config != nil {
				o.TLS.NextProtos = []string{o.Protocol.ALPN}
			}
			if c.change != nil {
				c.change(&o)
			}
			r := run(t, o)
			delete(r.Errors, "unanswered") // two seconds after the end, an open loop gives up
			if len(r.Errors) > 0 || r.Requests > r.Answered || r.Digest == "" {
				t.Errorf("%d requests of %d, errors %v, digest %q", r.Requests, r.Answered, r.Errors, r.Digest)
			}
			// The server has also answered one request that asked whether it was ready, and those in flight when the
			// load gave up.
			most := int64(o.Connections*o.Pipeline) + 1
			if diff := answered.Load() - int64(r.Answered); diff < 1 || diff > most {
				t.Errorf("the server answered %d, the load says %d", answered.Load(), r.Answered)
			}
			if o.Rate > 0 && uint64(histogram(t, r.Response).TotalCount()) != r.Due {
				t.Errorf("response times are not those of %d requests", r.Due)
			}
		})
	}
}

// TestStall: requests that fall due while the server stalls wait for it, each timed from its own
// due moment; a closed loop would have sent nothing during that time.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall, gap, took = 200 * time.Millisecond, 5 * time.Millisecond, 2 * time.Millisecond
		const warm, measured, stalled = 10, 120, 30
		var asked atomic.Int64
		v, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1+warm+stalled { // the first asks whether the server is ready
				time.Sleep(stall)
			}
			hello(w, r)
		})
		o := short(t, "http1", v)
		o.Rate, o.Connections, o.Threads, o.Measure = float64(time.Second/gap), 1, 1, measured*gap
		r := run(t, o)
		// One connection serves them in turn. The first few come before the measured time.
		want, free := hdrhistogram.New(16, 600e9, 3), time.Duration(0)
		lead := time.Duration(r.Width * float64(time.Second))
		for i := 0; ; i++ {
			due := time.Duration(i) * gap
			if due >= lead+o.Measure {
				break
			}
			free = max(free, due) + took
			if i == stalled-1 {
				free += stall
			}
			if due >= lead {
				must(t, want.RecordValue(int64(free-due)))
			}
		}
		got := histogram(t, r.Response)
		if r.Due != measured || r.Late != 0 || got.TotalCount() != want.TotalCount() || !reflect.DeepEqual(got.Distribution(), want.Distribution()) {
			t.Errorf("%d due, %d late; response times %v, want %v", r.Due, r.Late, bars(got), bars(want))
		}
		if service := histogram(t, r.Service); !about(service.ValueAtPercentile(99), took) || !about(service.Max(), took+stall) {
			t.Errorf("a service took %v, one %v", time.Duration(service.ValueAtPercentile(99)), time.Duration(service.Max()))
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bars shows a histogram.
func bars(h *hdrhistogram.Histogram) (out []string) {
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			out = append(out, fmt.Sprintf("%d of %v", bar.Count, time.Duration(bar.From)))
		}
	}
	return out
}

// TestBacklog: a slow server that answers one request at a time has no requests of the warm-up
// left in the measured time.
func TestBacklog(t *testing.T) {
	for name, fresh := range map[string]bool{"connections that stay": false, "fresh connections": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := make(chan struct{}, 1)
				v, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
					one <- struct{}{}
					defer func() { <-one }()
					time.Sleep(100 * time.Millisecond)
					hello(w, r)
				})
				o := short(t, "http1", v)
				o.Fresh, o.Connections, o.Measure = fresh, 30, 3*time.Second
				if r := run(t, o); r.Requests != 30 || len(r.Errors) > 0 {
					t.Errorf("%d answers in three seconds, want 30; errors %v", r.Requests, r.Errors)
				}
			})
		})
	}
}

// TestQueue: the pause after the warm-up empties the queue of a closed loop; the queue is full
// again when the measured time begins.
func TestQueue(t *testing.T) {
	for name, fresh := range map[string]bool{"connections that stay": false, "fresh connections": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const took, clients = 10 * time.Millisecond, 40
				one := make(chan struct{}, 1) // the longest waiter is next
				v, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
					one <- struct{}{}
					defer func() { <-one }()
					time.Sleep(took)
					hello(w, r)
				})
				o := short(t, "http1", v)
				o.Fresh, o.Connections = fresh, clients
				h := histogram(t, run(t, o).Service)
				if got := time.Duration(h.Min()); got < (clients-1)*took || h.TotalCount() != 25 {
					t.Errorf("the fastest of %d answers took %v, want all 25 to wait for %d others: %v", h.TotalCount(), got, clients-1, (clients-1)*took)
				}
			})
		})
	}
}

// TestOverload: requests beyond the capacity get no answer in time, and are still counted.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(98 * time.Millisecond)
			hello(w, r)
		})
		o := short(t, "http1", v)
		o.Rate, o.Connections, o.Threads, o.Measure = 40, 1, 1, 2*time.Second
		r := run(t, o)
		// The lead of 40 ms adds two requests; what is answered in two seconds more is not part of the rate.
		if r.Due != 80 || r.Requests != 20 || r.Errors["unanswered"] != 42 {
			t.Errorf("%d were due, want 80; %d answered in 2 s at 100 ms each, want 20; errors %v, want 42 unanswered", r.Due, r.Requests, r.Errors)
		}
		if h := histogram(t, r.Response); h.TotalCount() != 80 || h.Max() < int64(2*time.Second) {
			t.Errorf("%d response times, the longest %v", h.TotalCount(), time.Duration(h.Max()))
		}
	})
}

// TestSlowWarmUp: the load waits for all requests of the warm-up, however long the queue. A
// connection given up instead would be replaced by a new one.
func TestSlowWarmUp(t *testing.T) {
	for _, rate := range []float64{0, 20_000} {
		t.Run(fmt.Sprintf("rate %g", rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made atomic.Int64
				one := make(chan struct{}, 1)
				v := faulty(t, func(_ int64, c net.Conn) {
					made.Add(1)
					for b := make([]byte, 100); ; {
						if _, err := io.ReadFull(c, b); err != nil {
							return
						}
						one <- struct{}{}
						time.Sleep(25 * time.Millisecond)
						<-one
						if _, err := c.Write(b); err != nil {
							return
						}
					}
				})
				o := short(t, "raw", v)
				o.Connections, o.Rate, o.Timeout, o.Measure = 100, rate, 30*time.Second, time.Second
				if r := run(t, o); r.Requests != 40 {
					t.Errorf("%d requests were answered, want 40", r.Requests)
				}
				if n := made.Load(); n != int64(o.Connections)+1 { // one checks whether the server is ready
					t.Errorf("%d connections were made, want %d and one before", n, o.Connections)
				}
			})
		})
	}
}

// faulty starts a server in a virtual network that handles each connection with serve.
func faulty(t *testing.T, serve func(n int64, c net.Conn)) *load.Virtual {
	t.Helper()
	v := load.NewVirtual()
	accept(t, v, serve)
	return v
}

// accept handles each connection of a listener with serve.
func accept(t *testing.T, l net.Listener, serve func(n int64, c net.Conn)) {
	t.Helper()
	var count atomic.Int64
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := count.Add(1)
			all.Go(func() {
				defer c.Close()
				serve(n, c)
			})
		}
	})
}

// reset makes closing a connection a reset.
func reset(c net.Conn) { _ = c.(interface{ SetLinger(int) error }).SetLinger(0) }

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
			reset(c)
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
				_, _ = io.Copy(io.Discard, c) // without a word
			}
		}, "timeout"},
	} {
		for _, fresh := range []bool{false, true} {
			if fresh && c.name != "lies" {
				continue // a connection for one request sees no second
			}
			t.Run(fmt.Sprintf("%s fresh=%v", c.name, fresh), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
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
					if r.Errors[c.want] == 0 {
						t.Errorf("errors %v, want %q", r.Errors, c.want)
					}
				})
			})
		}
	}
}

// TestRefusals: what cannot work fails at once, or when the wait is over.
func TestRefusals(t *testing.T) {
	address, config, _ := tcp(t, true, hello)
	plain, _, _ := tcp(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	nobody := fmt.Sprintf("127.0.0.1:%d", ports[0])
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
			o := options(t, "http1", c.address)
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
	synctest.Test(t, func(t *testing.T) {
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
		if err == nil || !strings.Contains(err.Error(), "full") || tries.Load() != refused+1 {
			t.Errorf("after %d connections: %v; want the server's own answer", tries.Load(), err)
		}
		if err := fill(100*time.Millisecond, func(int64, net.Conn) {}); err == nil || !strings.Contains(err.Error(), "fill the server") {
			t.Errorf("a server that never listens: %v", err)
		}
		began := time.Now()
		if err := fill(5*time.Second, func(_ int64, c net.Conn) { _, _ = io.Copy(io.Discard, c) }); err == nil || time.Since(began) > 210*time.Millisecond {
			t.Errorf("a silent server: %v after %v", err, time.Since(began))
		}
	})
}

// TestSlowServer: the load waits for a server that starts slowly, says so once, and measures the same as if it had been there.
func TestSlowServer(t *testing.T) {
	for _, requests := range []uint64{0, 100} {
		var reports []*load.Report
		for _, late := range []time.Duration{0, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				v, _, _ := server(t, false, hello)
				v.Opens = time.Now().Add(late)
				o := short(t, "http1", v)
				o.Requests, o.Start = requests, 24*time.Hour
				var told []string
				o.Waiting = func(what string) { told = append(told, what) }
				reports = append(reports, run(t, o))
				if late == 0 && told != nil || late > 0 && (len(told) != 1 || !strings.HasPrefix(told[0], "the server: ") || !strings.Contains(told[0], "refused")) {
					t.Errorf("late by %v: the load said %q", late, told)
				}
			})
		}
		soon, late := reports[0], reports[1]
		if soon.Requests == 0 || late.Requests != soon.Requests || late.Seconds != soon.Seconds || late.Counted != soon.Counted || late.Service != soon.Service || late.Failed() > 0 {
			t.Errorf("a server that is there: %+v, one that is an hour late: %+v", soon, late)
		}
	}
}

// TestServerThatNeverStarts: the end of the wait, and that of the run, name what was waited for.
func TestServerThatNeverStarts(t *testing.T) {
	for _, name := range []string{"http1", "resp"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := func(start time.Duration) error {
					v := load.NewVirtual()
					v.Opens = time.Now().Add(24 * time.Hour)
					o := short(t, name, v)
					o.Start, o.Populate = start, name == "resp" // which fills it first
					o.Ask.Command = "GET key:{key}"
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					_, err := load.Run(ctx, o)
					return err
				}
				if err := never(0); err == nil || !strings.Contains(err.Error(), "did not become ready within 5s: connect to virtual: connect: connection refused") {
					t.Errorf("%s, a wait of 5 s: %v", name, err)
				}
				if err := never(24 * time.Hour); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the server was not ready after 1h0m0") || !strings.Contains(err.Error(), "connect to virtual: connect: connection refused") {
					t.Errorf("%s, a run of an hour: %v", name, err)
				}
			})
		})
	}
}

// TestSlowServerAnswersWrongly: from its first answer on, a server that started late has no longer than any other to answer
// rightly.
func TestSlowServerAnswersWrongly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _, answered := server(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		began := time.Now()
		v.Opens = began.Add(time.Hour)
		o := short(t, "http1", v)
		o.Start = 24 * time.Hour
		_, err := load.Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "did not become ready within 5s") || !strings.Contains(err.Error(), "503") || answered.Load() < 2 {
			t.Errorf("%v, after %d answers", err, answered.Load())
		}
		if took := time.Since(began); took < time.Hour+o.Wait || took > time.Hour+2*o.Wait {
			t.Errorf("the load ended after %v", took)
		}
	})
}

// TestStopped: cancelling the context ends the load soon.
func TestStopped(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v, _, _ := server(t, false, hello)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			o := short(t, "http1", v)
			o.Fresh, o.Measure = fresh, time.Hour
			began := time.Now()
			if _, err := load.Run(ctx, o); err == nil || time.Since(began) > 400*time.Millisecond {
				t.Errorf("fresh=%v: error %v after %v", fresh, err, time.Since(began))
			}
		})
	}
}

// TestStoppedHandshake: cancelling the context also ends hanging handshakes, however long the
// server's timeout.
func TestStoppedHandshake(t *testing.T) {
	cert, key, err := load.Certificate("", "localhost")
	must(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		var hanging atomic.Int64
		o := short(t, "line", faulty(t, func(n int64, c net.Conn) {
			if n > 1 { // the first one checks whether the server is ready
				hanging.Add(1)
				_, _ = io.Copy(io.Discard, c)
				return
			}
			echo(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, Time: valid}), 1)
		}))
		o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", Time: valid}
		o.TLS.RootCAs.AppendCertsFromPEM(cert)
		o.Timeout, o.Measure = time.Hour, time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := load.Run(ctx, o)
			ended <- err
		}()
		time.Sleep(time.Minute)
		if n := hanging.Load(); n != int64(o.Connections) {
			t.Errorf("%d handshakes hang, want %d", n, o.Connections)
		}
		began := time.Now()
		cancel()
		if err := <-ended; err == nil || time.Since(began) > time.Second {
			t.Errorf("a load without a connection ended with %v after %v", err, time.Since(began))
		}
	})
}

// TestStatistics: the server is asked at the beginning and at the end of the measured time.
func TestStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _, answered := server(t, false, hello)
		o := short(t, "http1", v)
		o.Rate, o.Measure = 400, time.Second
		o.Statistics = &load.Statistics{Gauges: []string{"level"}, Read: func(context.Context, *load.Options) (map[string]float64, map[string]string, error) {
			return map[string]float64{"answered": float64(answered.Load()), "level": 7}, map[string]string{"version": "1"}, nil
		}}
		r := run(t, o)
		if n := r.Server["answered"]; n < 1 || n >= float64(r.Answered) || r.Server["level"] != 7 || r.Versions["version"] != "1" {
			t.Errorf("the server's statistics are %v, %v; %d requests were answered, the warm-up's with them", r.Server, r.Versions, r.Answered)
		}
	})
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
			synctest.Test(t, func(t *testing.T) {
				v, _, answered := server(t, false, hello)
				o := short(t, "http1", v)
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
		})
	}
}
