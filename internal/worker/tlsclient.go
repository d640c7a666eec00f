package worker

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/teescope/teescope/internal/load"
)

var tlsClient = Command{
	Name: "tlsclient",
	Doc:  "clients of the newline protocol: a fixed number of messages, strong or weak scaling, every answer checked",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var o scalingOptions
		f.StringVar(&o.address, "address", "127.0.0.1:8443", "server, HOST:PORT")
		f.StringVar(&o.ca, "ca", "certs/server.pem", "certificate of the server in PEM")
		f.StringVar(&o.name, "server-name", "localhost", "name that the certificate must have")
		f.StringVar(&o.version, "tls", "1.3", "TLS version, 1.2 or 1.3")
		count(f, &o.clients, "clients", 1, 1, load.MostConnections, "clients, each with a connection of its own")
		count(f, &o.total, "messages", 0, 0, load.MostMessages, "messages of all clients together (strong scaling)")
		count(f, &o.each, "per-client", 0, 0, load.MostMessages, "messages of each client, instead (weak scaling)")
		f.StringVar(&o.warm, "warm", "0s", "before: a time in which all clients send (5s), or a number of messages of one client (10)")
		count(f, &o.warmMost, "warm-most", 1, 1, 1000, "longest warm-up, as a multiple of -warm, while the rate still rises")
		f.StringVar(&o.connect, "connect", "before", "before: the measured time begins when all clients are connected; inside: they connect in it")
		f.DurationVar(&o.pause, "pause", 0, "pause of a client after each answer")
		f.DurationVar(&o.wait, "wait", 30*time.Second, "time that the server has to accept the first connection, and for each answer")
		f.Uint64Var(&o.seed, "seed", 1, "seed of the messages")
		f.StringVar(&o.build, "build", "", "file with the seconds that it took to build the server, for the report; it need not be there")
		return func(ctx context.Context, s Streams) error { return o.run(ctx, s) }
	},
}

// scalingOptions holds the flags.
type scalingOptions struct {
	address, ca, name, version string
	clients, total, each       int
	warmMost                   int
	warm, connect, build       string
	pause, wait                time.Duration
	seed                       uint64
}

// scalingClient is a load of fixed size.
type scalingClient struct {
	scalingOptions
	config   *tls.Config
	messages []ackExchange
	answered atomic.Uint64
}

// ackExchange is a line to send, and the expected answer without its time.
type ackExchange struct{ line, want []byte }

// warmWindows is the number of windows in which the end of the warm-up is searched.
const warmWindows = 50

func (o scalingOptions) run(ctx context.Context, s Streams) error {
	warmTime, warmMessages, err := o.check()
	if err != nil {
		return err
	}
	needed := max(o.total, o.clients*o.each, warmMessages, rehearsals)
	if warmTime > 0 {
		needed = recorded
	}
	c := &scalingClient{scalingOptions: o}
	if err := c.prepare(ctx, min(needed, recorded)); err != nil {
		return err
	}
	r := load.Scaling{Began: "connected", PauseSeconds: c.pause.Seconds(), BuildSeconds: buildSeconds(c.build),
		Report: load.Report{Protocol: "ack", Loop: "closed", Connections: c.clients, Cores: runtime.GOMAXPROCS(0)}}
	if err := c.first(ctx, &r, warmMessages); err != nil {
		return err
	}
	f := fleet{client: c, conns: make([]atomic.Pointer[ackConn], c.clients)}
	defer f.hangUp()
	if c.connect == "inside" {
		r.Began = "unconnected"
	} else if err := f.each(ctx, f.open); err != nil {
		return err
	}
	before, err := cpuSeconds()
	if err != nil {
		return err
	}
	if warmTime > 0 {
		r.Width = warmTime.Seconds() / warmWindows
		// How long a just-in-time compiler takes depends on what else its CPUs do.
		for times, warm := 0, false; times == 0 || !warm && times < c.warmMost; times++ {
			windows, err := f.warm(ctx, warmTime)
			if err != nil {
				return err
			}
			r.Windows = append(r.Windows, windows...)
			_, warm, _ = load.WarmUp(r.Windows)
		}
	}
	if err := f.measure(ctx, &r); err != nil {
		return err
	}
	for k := range f.conns {
		_ = f.conns[k].Load().conn.Close() // nothing is left to say; the server may have gone
	}
	r.CPUSeconds, r.Answered = r.CPUSeconds-before, c.answered.Load()
	return json.NewEncoder(s.Out).Encode(r)
}

// check reads -warm and returns an error for flags that make no sense.
func (o scalingOptions) check() (warmTime time.Duration, warmMessages int, err error) {
	switch {
	case o.clients < 1 || o.clients > load.MostConnections:
		return 0, 0, fmt.Errorf("-clients %d: want 1 to %d", o.clients, load.MostConnections)
	case (o.total > 0) == (o.each > 0) || o.total < 0 || o.each < 0:
		return 0, 0, errors.New("want a number above 0 for -messages (of all clients) or for -per-client")
	case o.total > 0 && o.total < o.clients:
		return 0, 0, fmt.Errorf("-messages %d: want at least one for each of %d clients", o.total, o.clients)
	case o.each > load.MostMessages/o.clients:
		return 0, 0, fmt.Errorf("-per-client %d: want at most %d messages of all %d clients together", o.each, load.MostMessages, o.clients)
	case o.connect != "before" && o.connect != "inside":
		return 0, 0, fmt.Errorf("-connect %q: want before or inside", o.connect)
	case o.pause < 0 || o.wait <= 0:
		return 0, 0, errors.New("-pause and -wait: want times that are not negative, and a wait above 0")
	}
	if n, err := strconv.Atoi(o.warm); err == nil && n > load.MostMessages {
		return 0, 0, fmt.Errorf("-warm %d: want at most %d messages", n, load.MostMessages)
	} else if err == nil && n >= 0 {
		return 0, n, nil
	}
	d, err := time.ParseDuration(o.warm)
	if err != nil || d < 0 || d > 0 && d < warmWindows*time.Millisecond {
		return 0, 0, fmt.Errorf("-warm %q: want a time of at least %v, or a number of messages", o.warm, warmWindows*time.Millisecond)
	}
	if d > 0 && o.connect == "inside" {
		return 0, 0, errors.New("-warm with a time needs connections: want -connect before, or a number of messages")
	}
	return d, 0, nil
}

// prepare computes the answers to n messages, which also warms this program up, and makes
// handshakes with itself, so the server's first handshake is not timed together with this
// program's first.
func (c *scalingClient) prepare(ctx context.Context, n int) error {
	config, err := tlsConfig(c.version)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return err
	}
	config.RootCAs, config.ServerName = x509.NewCertPool(), c.name
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s has no certificate in PEM", c.ca)
	}
	c.config = config
	lines := recordedLines(c.seed, n)
	c.messages = make([]ackExchange, len(lines))
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(lines); i = next.Add(1) - 1 {
				c.messages[i] = ackExchange{append(lines[i], '\n'), appendAnswer(nil, lines[i])}
			}
		})
	}
	all.Wait()
	return c.rehearse(ctx)
}

// rehearsals is the number of connections that this program first makes to itself.
const rehearsals = 20

func (c *scalingClient) rehearse(ctx context.Context) error {
	cert, key, err := load.Certificate("", c.name)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	config, err := tlsConfig(c.version)
	if err != nil {
		return err
	}
	config.Certificates = []tls.Certificate{pair}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	own := ackServer{threads: 1}
	ended := make(chan error, 1)
	go func() { ended <- own.serve(ctx, tls.NewListener(l, config)) }()
	self := c.clientFor(l.Addr().String(), cert)
	for i := 0; i < rehearsals && err == nil; i++ {
		var one *ackConn
		if one, err = self.dial(ctx); err == nil {
			_, err = one.exchange(i)
			one.conn.Close()
		}
	}
	cancel()
	return errors.Join(err, <-ended)
}

// clientFor returns a client that sends the same messages to another server.
func (c *scalingClient) clientFor(address string, cert []byte) *scalingClient {
	config := c.config.Clone()
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(cert)
	return &scalingClient{scalingOptions: scalingOptions{address: address, wait: handshakeLimit}, config: config, messages: c.messages}
}

// first times the first request to a server, and sends it the messages of a warm-up that is
// given as a number.
func (c *scalingClient) first(ctx context.Context, r *load.Scaling, more int) error {
	one, err := c.patient(ctx)
	if err != nil {
		return err
	}
	defer one.conn.Close()
	r.FirstHandshake = one.took.Seconds()
	took, err := one.exchange(0)
	if err != nil {
		return err
	}
	r.FirstAnswer = took.Seconds()
	state := one.conn.ConnectionState()
	r.Versions = map[string]string{"tls": tls.VersionName(state.Version), "cipher": tls.CipherSuiteName(state.CipherSuite)}
	for i := range more {
		if _, err := one.exchange(i); err != nil {
			return err
		}
	}
	return nil
}

// patient dials until the server listens.
func (c *scalingClient) patient(ctx context.Context) (*ackConn, error) {
	const between = 10 * time.Millisecond
	for until := time.Now().Add(c.wait); ; {
		one, err := c.dial(ctx)
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(until) {
			return one, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(between):
		}
	}
}

// ackConn is a connection to the server.
type ackConn struct {
	client *scalingClient
	conn   *tls.Conn
	in     *bufio.Reader
	took   time.Duration // to connect, TLS included
}

func (c *scalingClient) dial(ctx context.Context) (*ackConn, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn := tls.Client(raw, c.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS handshake with %s: %w", c.address, err), raw.Close())
	}
	return &ackConn{client: c, conn: conn, in: bufio.NewReader(conn), took: time.Since(began)}, nil
}

// exchange sends message i and checks its answer.
func (l *ackConn) exchange(i int) (time.Duration, error) {
	c := l.client
	x := &c.messages[i%len(c.messages)]
	began := time.Now()
	if err := l.conn.SetDeadline(began.Add(c.wait)); err != nil {
		return 0, err
	}
	if _, err := l.conn.Write(x.line); err != nil {
		return 0, fmt.Errorf("send message %d: %w", i, err)
	}
	got, err := l.in.ReadSlice('\n')
	if err != nil {
		return 0, fmt.Errorf("answer to message %d: %w", i, err)
	}
	took := time.Since(began)
	if !sameAnswer(got, x.want) {
		return 0, fmt.Errorf("wrong answer to message %d (seed %d): %.400q, want %.400q with a time in the place of %q", i, c.seed, got, x.want, timeMark)
	}
	c.answered.Add(1)
	return took, nil
}

// fleet holds all clients. At most one goroutine at a time uses each.
type fleet struct {
	client *scalingClient
	conns  []atomic.Pointer[ackConn]
}

// hangUp closes open connections without TLS's closing message, so it never waits.
func (f *fleet) hangUp() {
	for k := range f.conns {
		if l := f.conns[k].Load(); l != nil {
			_ = l.conn.NetConn().Close()
		}
	}
}

func (f *fleet) open(ctx context.Context, k int) error {
	l, err := f.client.dial(ctx)
	if err != nil {
		return err
	}
	f.conns[k].Store(l)
	return context.Cause(ctx)
}

// each runs do for all clients in parallel. The first error ends them all.
func (f *fleet) each(ctx context.Context, do func(ctx context.Context, k int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, f.hangUp)
	defer stop()
	var all sync.WaitGroup
	for k := range f.conns {
		all.Go(func() {
			if err := do(ctx, k); err != nil {
				cancel(fmt.Errorf("client %d: %w", k+1, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// warm sends for a time and returns the number of answers in each window.
func (f *fleet) warm(ctx context.Context, d time.Duration) ([]float64, error) {
	began, width := time.Now(), d/warmWindows
	windows := make([][warmWindows]float64, len(f.conns))
	err := f.each(ctx, func(_ context.Context, k int) error {
		for i := k; ; i += len(f.conns) {
			if _, err := f.conns[k].Load().exchange(i); err != nil {
				return err
			}
			at := time.Since(began) / width
			if at >= warmWindows {
				return nil
			}
			windows[k][at]++
		}
	})
	sum := make([]float64, warmWindows)
	for k := range windows {
		for i, n := range windows[k] {
			sum[i] += n
		}
	}
	return sum, err
}

// share returns the messages of client k: every step-th of the total, or its own number of
// messages.
func (c *scalingClient) share(k int) (first, step, n int) {
	if c.each > 0 {
		return k * c.each, 1, c.each
	}
	n = c.total / c.clients
	if k < c.total%c.clients {
		n++
	}
	return k, c.clients, n
}

// measure sends every client's share. The measured time ends with the last answer; CPUSeconds is
// the process's total up to then. A client that connects inside the measured time closes its connection
// after its share: a server with fewer threads than clients then serves the next one.
func (f *fleet) measure(ctx context.Context, r *load.Scaling) error {
	c := f.client
	digests, times := make([]uint64, c.clients), make([][]time.Duration, c.clients)
	ended := make([]time.Duration, c.clients)
	var sent, received atomic.Uint64
	for k := range times {
		_, _, n := c.share(k)
		times[k] = make([]time.Duration, 0, n)
	}
	began := time.Now()
	err := f.each(ctx, func(ctx context.Context, k int) error {
		if f.conns[k].Load() == nil {
			if err := f.open(ctx, k); err != nil {
				return err
			}
		}
		conn := f.conns[k].Load()
		first, step, n := c.share(k)
		for j := range n {
			i := first + j*step
			took, err := conn.exchange(i)
			if err != nil {
				return err
			}
			times[k] = append(times[k], took)
			x := &c.messages[i%len(c.messages)]
			digests[k] += answerHash(i, x.want)
			sent.Add(uint64(len(x.line)))
			received.Add(uint64(len(x.want)))
			if c.pause > 0 && j+1 < n {
				time.Sleep(c.pause)
			}
		}
		ended[k] = time.Since(began)
		if c.connect == "inside" {
			_ = conn.conn.Close() // nothing is left to say; the server may have gone
		}
		return nil
	})
	r.Seconds = slices.Max(ended).Seconds()
	if err != nil {
		return err
	}
	if r.CPUSeconds, err = cpuSeconds(); err != nil {
		return err
	}
	r.Sent, r.Received = sent.Load(), received.Load()
	service, handshake, digest := newTimes(), newTimes(), uint64(0)
	for k := range times {
		digest += digests[k]
		addTime(handshake, f.conns[k].Load().took)
		for _, d := range times[k] {
			addTime(service, d)
			r.Requests++
		}
	}
	text := sha256.Sum256(fmt.Appendf(nil, "%d %d %016x", c.seed, r.Requests, digest))
	r.Digest, r.Handshakes = hex.EncodeToString(text[:]), uint64(c.clients)
	var err2 error
	r.Service, err = encodeTimes(service)
	r.Handshake, err2 = encodeTimes(handshake)
	return errors.Join(err, err2)
}

// answerHash returns a number for an expected answer at its position; the sum over messages does
// not depend on their order.
func answerHash(i int, want []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt(nil, int64(i), 10)) // never fails (hash.Hash)
	_, _ = h.Write(want)
	return h.Sum64()
}

// newTimes returns a histogram of nanoseconds up to 10 minutes, accurate to three digits.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(10*time.Minute), 3) }

func addTime(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 1), 10*time.Minute))) // it is in the range
}

func encodeTimes(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return string(b), nil
}

// cpuSeconds returns the CPU time of this process.
func cpuSeconds() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read this program's CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), nil
}

// buildSeconds reads the build time recorded in a file, if there is one.
func buildSeconds(file string) *float64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil || !(v > 0) {
		return nil
	}
	return &v
}
