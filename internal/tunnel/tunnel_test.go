package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/teescope/teescope/channel"
	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
)

// log is where a tunnel writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is that of io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a side that serves.
type running struct {
	*Tunnel
	log  *log
	stop context.CancelFunc
	done chan error
}

func (r *running) address() string { return r.Listener.Addr().String() }

// ended waits until the side has counted n ends for this reason, or for one of these ("a or b").
func (r *running) ended(t *testing.T, reasons string, n float64) {
	t.Helper()
	await.Event(t, fmt.Sprintf("%v connections end with %s", n, reasons), func() error {
		got := 0.0
		for reason := range strings.SplitSeq(reasons, " or ") {
			got += max(0, value(r.Tunnel, "teescope_channel_connections_ended_total", reason))
		}
		if got != n {
			return fmt.Errorf("%v: %s", got, r.log)
		}
		return nil
	})
}

// value is that of one series, the count if it is a histogram.
func value(t *Tunnel, name string, labels ...string) float64 {
	for _, s := range t.Samples() {
		if s.Desc.Name == name && strings.Join(s.Labels, ",") == strings.Join(labels, ",") {
			if s.Hist != nil {
				n := uint64(0)
				for _, c := range s.Hist.Counts {
					n += c
				}
				return float64(n)
			}
			return s.Value
		}
	}
	return -1
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start serves a side until the test ends.
func start(t *testing.T, serves bool, to string, change ...func(*Options)) *running {
	t.Helper()
	said := &log{}
	o := Options{Serves: serves, Listener: listening(t), To: to, Connections: 100, Handshakes: 100, Retry: 0, Grace: time.Hour, Record: 16 << 10,
		Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelInfo})), Now: time.Now,
		Channel: channel.Config{Suite: channel.AESGCM, Service: "test", HandshakeTimeout: time.Hour}}
	mock := channel.NewMock("test")
	if serves {
		o.Channel.Attester = mock
	} else {
		o.Channel.Verifier = mock
	}
	for _, c := range change {
		c(&o)
	}
	r := &running{Tunnel: New(o), log: said, done: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.done <- r.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// service answers each connection with handle until the test ends. It keeps them all: the
// garbage collector closes a connection that nobody holds.
func service(t *testing.T, handle func(*net.TCPConn)) string {
	t.Helper()
	l := listening(t)
	var all []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all = append(all, c)
			go handle(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range all {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// echo sends back what it gets, and ends when that ends.
func echo(c *net.TCPConn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
}

// quick lets connections that are open when a test ends be cut at once.
func quick(o *Options) { o.Grace = 0 }

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// try is say over a new connection. One that is refused may be cut before it is made.
func try(t *testing.T, address string, text []byte) ([]byte, error) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return say(c.(*net.TCPConn), text)
}

// say sends a text, ends this direction and reads all of the answer.
func say(c *net.TCPConn, text []byte) ([]byte, error) {
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(text)
		sent <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(c)
	return got, errors.Join(err, <-sent)
}

// TestTunnel: a client and a service that know nothing of channels talk as over TCP, later
// connections are resumed, and both sides count all of it.
func TestTunnel(t *testing.T) {
	far := start(t, true, service(t, echo))
	near := start(t, false, far.address())
	text := make([]byte, 1<<20)
	_, _ = rand.Read(text)
	for i, size := range []int{0, 5, len(text)} {
		if got, err := try(t, near.address(), text[:size]); err != nil || !bytes.Equal(got, text[:size]) {
			t.Fatalf("%d of %d bytes came back: %v\n%s%s", len(got), size, err, near.log, far.log)
		}
		near.ended(t, done, float64(i+1))
		far.ended(t, done, float64(i+1))
	}
	all := float64(5 + len(text))
	for _, side := range []*running{near, far} {
		for _, want := range []struct {
			name, label string
			value       float64
		}{
			{"teescope_channel_handshake_seconds", "fresh", 1}, {"teescope_channel_handshake_seconds", "resumed", 2},
			{"teescope_channel_bytes_total", "in", all}, {"teescope_channel_bytes_total", "out", all},
		} {
			if got := value(side.Tunnel, want.name, want.label); got != want.value {
				t.Errorf("%s %s is %v, want %v", want.name, want.label, got, want.value)
			}
		}
		if got := value(side.Tunnel, "teescope_channel_connections"); got != 0 {
			t.Errorf("%v connections are open", got)
		}
		if side.log.String() != "" {
			t.Errorf("it said %s", side.log)
		}
	}
}

// TestAtOnce: many connections at once do not disturb each other, whoever resumes.
func TestAtOnce(t *testing.T) {
	far := start(t, true, service(t, echo))
	near := start(t, false, far.address())
	var all sync.WaitGroup
	for i := range 40 {
		c := dial(t, near.address())
		all.Go(func() {
			text := bytes.Repeat([]byte{byte(i)}, 50_000)
			if got, err := say(c, text); err != nil || !bytes.Equal(got, text) {
				t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
}

// TestRestart: a far side that has forgotten everything is a fresh handshake, not an error,
// and one that comes late is waited for.
func TestRestart(t *testing.T) {
	to := service(t, echo)
	first := start(t, true, to)
	address := first.address()
	near := start(t, false, address, func(o *Options) { o.Retry = time.Hour })
	if got, err := try(t, near.address(), []byte("one")); err != nil || string(got) != "one" {
		t.Fatalf("%q, %v", got, err)
	}
	first.ended(t, done, 1)
	first.stop()
	first.done <- <-first.done // it has closed its listener
	c := dial(t, near.address())
	answer := make(chan string, 1)
	go func() {
		got, err := say(c, []byte("two"))
		answer <- fmt.Sprintf("%s, %v", got, err)
	}()
	start(t, true, to, func(o *Options) {
		_ = o.Listener.Close()
		var err error
		if o.Listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
	})
	if got := <-answer; got != "two, <nil>" {
		t.Error(got)
	}
	if fresh := value(near.Tunnel, "teescope_channel_handshake_seconds", "fresh"); fresh != 2 {
		t.Errorf("%v fresh handshakes, want 2", fresh)
	}
}

// TestFaults: what goes wrong cuts the client off, is counted by its reason, and harms no
// other connection.
func TestFaults(t *testing.T) {
	stranger := channel.NewMock("stranger")
	gone := func() string {
		l := listening(t)
		defer l.Close()
		return l.Addr().String()
	}()
	for _, tc := range []struct {
		name       string
		near, far  func(*Options)
		to         string // of the far side; "" is an echo
		nearReason string // "" is any
		farReason  string
	}{
		{name: "a stranger's evidence", far: func(o *Options) { o.Channel.Attester = stranger }, nearReason: "evidence", farReason: "refused"},
		{name: "no evidence", far: func(o *Options) { o.Channel.Attester = nil }, nearReason: "evidence", farReason: "refused"},
		{name: "evidence that cannot be made", far: func(o *Options) {
			o.Channel.Attester = channel.AttesterFunc(func(context.Context, [64]byte) ([]byte, error) { return nil, errors.New("no device") })
		}, nearReason: "truncated", farReason: "other"},
		{name: "another service", far: func(o *Options) { o.Channel.Service = "other" }, nearReason: "refused", farReason: "mismatch"},
		{name: "another suite", far: func(o *Options) { o.Channel.Suite = channel.ChaChaPoly }, nearReason: "refused", farReason: "mismatch"},
		{name: "a client without evidence", far: func(o *Options) { o.Channel.Verifier = stranger }, farReason: "evidence", nearReason: "refused"},
		{name: "the service is away", to: gone, nearReason: "truncated", farReason: "unreachable"},
		{name: "the far side is away", near: func(o *Options) { o.To = gone }, nearReason: "unreachable"},
		{name: "too many connections", near: func(o *Options) { o.Connections = 0 }, nearReason: "busy"},
		{name: "evidence takes too long", far: func(o *Options) {
			o.Channel.HandshakeTimeout = time.Millisecond
			o.Channel.Attester = channel.AttesterFunc(func(ctx context.Context, _ [64]byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		}, farReason: "timeout", nearReason: "truncated or refused"}, // the far side may close the connection before it has said why
		{name: "the device for evidence has a limit of its own", far: func(o *Options) {
			o.Channel.Attester = channel.AttesterFunc(func(context.Context, [64]byte) ([]byte, error) {
				return nil, fmt.Errorf("the device: %w", context.DeadlineExceeded)
			})
		}, farReason: "timeout", nearReason: "truncated or refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := tc.to
			if to == "" {
				to = service(t, echo)
			}
			all := func(f func(*Options)) []func(*Options) {
				if f == nil {
					return nil
				}
				return []func(*Options){f}
			}
			far := start(t, true, to, all(tc.far)...)
			near := start(t, false, far.address(), all(tc.near)...)
			if got, err := try(t, near.address(), []byte("hello")); err == nil || len(got) > 0 {
				t.Errorf("the client got %q, %v: want a connection that was cut", got, err)
			}
			if tc.nearReason != "" {
				near.ended(t, tc.nearReason, 1)
			}
			if tc.farReason != "" {
				far.ended(t, tc.farReason, 1)
			}
		})
	}
}

// TestStrangers: who speaks something else, or nothing, is cut off, and others are served.
func TestStrangers(t *testing.T) {
	far := start(t, true, service(t, echo), quick, func(o *Options) { o.Handshakes = 3 })
	near := start(t, false, far.address())
	for i, said := range [][]byte{[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), make([]byte, 100), bytes.Repeat([]byte{0xff}, 5000), {1, 0, 0, 2, 9, 9}} {
		c := dial(t, far.address())
		_, _ = c.Write(said)
		_, _ = io.Copy(io.Discard, c) // until the tunnel closes it
		await.Event(t, "the stranger is counted", func() error {
			n := value(far.Tunnel, "teescope_channel_connections_ended_total", "malformed") + value(far.Tunnel, "teescope_channel_connections_ended_total", "mismatch")
			if n != float64(i+1) {
				return fmt.Errorf("%v, want %d", n, i+1)
			}
			return nil
		})
	}
	// Two who never finish their hello hold two of three places.
	oldest := dial(t, far.address())
	_, _ = oldest.Write([]byte{1})
	await.Event(t, "it is the first", func() error {
		if n := value(far.Tunnel, "teescope_channel_connections_without_session"); n != 1 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	_, _ = dial(t, far.address()).Write([]byte{1})
	await.Event(t, "they are waited for", func() error {
		if n := value(far.Tunnel, "teescope_channel_connections_without_session"); n != 2 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	if got, err := try(t, near.address(), []byte("hello")); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	// While strangers hold all places, a new connection takes that of the oldest.
	_, _ = dial(t, far.address()).Write([]byte{1})
	await.Event(t, "all places are taken", func() error {
		if n := value(far.Tunnel, "teescope_channel_connections_without_session"); n != 3 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	if got, err := try(t, near.address(), []byte("hello")); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	far.ended(t, "busy", 1)
	_, _ = io.Copy(io.Discard, oldest) // it was cut
}

// TestCut: a peer that dies in the middle is no end of a stream: the other one's connection is
// reset.
func TestCut(t *testing.T) {
	hold := make(chan *net.TCPConn, 1)
	for name, tc := range map[string]struct {
		cut    func(client, server *net.TCPConn, near, far *running)
		client bool // its connection is looked at, else that of the service
	}{
		"the service dies":    {func(_, s *net.TCPConn, _, _ *running) { reset(s) }, true},
		"the client dies":     {func(c, _ *net.TCPConn, _, _ *running) { reset(c) }, false},
		"the near side stops": {func(_, _ *net.TCPConn, near, _ *running) { near.stop() }, false},
		"the far side stops":  {func(_, _ *net.TCPConn, _, far *running) { far.stop() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			far := start(t, true, service(t, func(c *net.TCPConn) { hold <- c }), quick)
			near := start(t, false, far.address(), quick)
			client := dial(t, near.address())
			if _, err := client.Write([]byte("begin")); err != nil {
				t.Fatal(err)
			}
			server := <-hold
			defer server.Close()
			if _, err := io.ReadFull(server, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			if _, err := server.Write([]byte("half of")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(client, make([]byte, 7)); err != nil {
				t.Fatal(err)
			}
			tc.cut(client, server, near, far)
			watched := server
			if tc.client {
				watched = client
			}
			if got, err := io.ReadAll(watched); err == nil {
				t.Errorf("it looks like an end in order after %q", got)
			}
		})
	}
}

// TestHalf: each direction ends by itself, as with TCP.
func TestHalf(t *testing.T) {
	heard := make(chan string, 1)
	far := start(t, true, service(t, func(c *net.TCPConn) {
		defer c.Close()
		_, _ = c.Write([]byte("bye"))
		_ = c.CloseWrite()
		got, _ := io.ReadAll(c)
		heard <- string(got)
	}))
	near := start(t, false, far.address())
	c := dial(t, near.address())
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := c.Write([]byte("still there")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "still there" {
		t.Errorf("the service got %q", got)
	}
	near.ended(t, done, 1)
	far.ended(t, done, 1)
}

// TestLimits: connections that do nothing, or live too long, are ended.
func TestLimits(t *testing.T) {
	for reason, limit := range map[string]func(*Options){
		"idle":    func(o *Options) { o.Idle = time.Millisecond },
		"session": func(o *Options) { o.Session = time.Second },
	} {
		t.Run(reason, func(t *testing.T) {
			far := start(t, true, service(t, func(*net.TCPConn) {}))
			near := start(t, false, far.address(), limit)
			c, err := net.Dial("tcp", near.address())
			if err == nil { // else it was cut before it was made
				_, err = io.ReadAll(c)
				_ = c.Close()
			}
			if err == nil {
				t.Errorf("%s: an end in order", reason)
			}
			near.ended(t, reason, 1)
			far.ended(t, "truncated", 1)
		})
	}
}

// TestGrace: what is under way when a side stops may end by itself; new connections are not
// accepted.
func TestGrace(t *testing.T) {
	far := start(t, true, service(t, echo))
	near := start(t, false, far.address())
	c := dial(t, near.address())
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	near.stop()
	await.Event(t, "the listener is closed", func() error {
		if n, err := net.Dial("tcp", near.address()); err == nil {
			_ = n.Close()
			return errors.New("it still listens")
		}
		return nil
	})
	if got, err := say(c, []byte(" again")); err != nil || string(got) != " again" {
		t.Errorf("%q, %v", got, err)
	}
	near.done <- <-near.done
}

// TestLimiter: a reason is logged now and then, with how many were not.
func TestLimiter(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := &limiter{now: func() time.Time { return now }}
	for i, want := range []struct {
		later time.Duration
		why   string
		left  int
		ok    bool
	}{{0, "a", 0, true}, {time.Second, "a", 0, false}, {time.Second, "b", 0, true}, {time.Second, "a", 0, false}, {seldom, "a", 2, true}, {seldom, "a", 0, true}} {
		now = now.Add(want.later)
		if left, ok := l.allow(want.why); left != want.left || ok != want.ok {
			t.Errorf("%d: %d, %v, want %d, %v", i, left, ok, want.left, want.ok)
		}
	}
}

// TestSamples: each metric is one that can be shown, and each declared one is there.
func TestSamples(t *testing.T) {
	var c Tunnel
	seen := map[string]bool{}
	samples := c.Samples()
	for _, s := range samples {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		seen[s.Desc.Name] = true
	}
	for _, d := range Metrics {
		if err := d.Check(); err != nil || !seen[d.Name] {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	if text := metric.AppendText(nil, samples); bytes.Count(text, []byte("# TYPE")) != len(Metrics) {
		t.Errorf("samples of one metric are apart:\n%s", text)
	}
	for _, r := range append(names(), done, "other") {
		if value(&c, "teescope_channel_connections_ended_total", r) != 0 {
			t.Errorf("no series for %s", r)
		}
	}
}

// TestReasons: each end has the reason of its error, however deep that is, and the first in
// the list where an error has several.
func TestReasons(t *testing.T) {
	want := map[error]string{errBusy: "busy", errStopped: "stopped", errIdle: "idle", errSession: "session", errUnreachable: "unreachable", errPlain: "plain",
		channel.ErrTimeout: "timeout", channel.ErrEvidence: "evidence", channel.ErrRefused: "refused", channel.ErrMismatch: "mismatch", channel.ErrForged: "forged",
		channel.ErrTooLarge: "too_large", channel.ErrMalformed: "malformed", channel.ErrTruncated: "truncated", errors.New("no device"): "other"}
	if len(want) != len(reasons)+1 {
		t.Errorf("%d reasons are tried, there are %d", len(want), len(reasons)+1)
	}
	twice := func(err error) error { return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err)) }
	for err, name := range want {
		if got := reason(twice(err)); got != name {
			t.Errorf("%v: %s, want %s", err, got, name)
		}
	}
	for name, err := range map[string]error{
		"stopped": errors.Join(context.Canceled, twice(channel.ErrTruncated), errStopped),
		"session": fmt.Errorf("%w: %w", errSession, context.DeadlineExceeded),
		"timeout": fmt.Errorf("handshake: %w", errors.Join(channel.ErrTruncated, channel.ErrEvidence, channel.ErrTimeout)),
		"done":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			if got := reason(err); got != name {
				t.Errorf("%v: %s, want %s", err, got, name)
			}
		})
	}
}
