// Package tunnel carries TCP connections over attested channels: one session for each
// connection. The serving side accepts sessions and connects to a service that knows nothing of
// channels; the other side accepts connections of clients that know as little.
package tunnel

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/teescope/teescope/channel"
)

// Options are those of a tunnel's side. All limits are required.
type Options struct {
	// Serves: this side accepts sessions. Otherwise it makes them.
	Serves   bool
	Listener net.Listener // of sessions, or of plain connections
	To       string       // where the other ones go, HOST:PORT
	// Channel has the suite, the service, the evidence and the time limit of a handshake.
	Channel channel.Config
	// Connections are how many may be open; further ones are closed at once. Handshakes are how
	// many of them may have no session yet; a further one takes the place of the oldest, which
	// is a stranger that is slow on purpose, or silent, if there is one.
	Connections, Handshakes int
	// Retry is how long a connection to an address that refuses is tried.
	Retry time.Duration
	// Idle ends a connection on which nothing moves, Session any connection; 0 is never.
	Idle, Session time.Duration
	// Grace is how long open connections may go on when the tunnel stops.
	Grace time.Duration
	// Record is the number of bytes that are sealed at once.
	Record int
	Log    *slog.Logger
	Now    func() time.Time
}

// Sizes of Options.Record.
const (
	LeastRecord = 512
	MostRecord  = 48 << 10
)

// Faults of a tunnel, next to those of the channel.
var (
	errBusy        = errors.New("too many connections")
	errUnreachable = errors.New("the other end cannot be reached")
	errPlain       = errors.New("the plain connection was cut")
	errIdle        = errors.New("nothing has moved for too long")
	errSession     = errors.New("the connection is older than allowed")
	errStopped     = errors.New("the tunnel stops")
)

// Tunnel is a side.
type Tunnel struct {
	Options
	tickets tickets
	waiting waiting
	count   counters
	said    limiter
}

// New makes a side. It owns the listener from then on.
func New(o Options) *Tunnel {
	o.Channel.MaxMessage = MostRecord
	t := &Tunnel{Options: o}
	if o.Serves {
		t.Channel.Sessions = channel.NewSessions(kept)
	}
	t.Channel.Counters = &t.count.channel
	t.said.now = o.Now
	return t
}

// kept bounds the sessions that can be resumed.
const kept = 10_000

// Serve accepts connections until ctx ends. Open ones then have Options.Grace to end by
// themselves.
func (t *Tunnel) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = t.Listener.Close() })
	defer stop()
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(errStopped)
	var open sync.WaitGroup
	err := t.accept(ctx, func(c net.Conn) {
		open.Go(func() { t.handle(work, c) })
	})
	if err != nil {
		end(errStopped)
	}
	late := time.AfterFunc(t.Grace, func() { end(errStopped) })
	defer late.Stop()
	open.Wait()
	return err
}

// accept hands on connections until ctx ends.
func (t *Tunnel) accept(ctx context.Context, handle func(net.Conn)) error {
	for {
		c, err := t.Listener.Accept()
		switch {
		case err == nil:
			handle(c)
		case ctx.Err() != nil:
			return nil
		case isShortage(err):
			t.warn(ctx, "accept", nil, err)
			select {
			case <-time.After(100 * time.Millisecond): // others may give back what lacks
			case <-ctx.Done():
			}
		default:
			return fmt.Errorf("accept on %s: %w", t.Listener.Addr(), err)
		}
	}
}

// isShortage reports whether an error of accept(2) says nothing of the listener.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// handle carries one connection to its end.
func (t *Tunnel) handle(ctx context.Context, c net.Conn) {
	err := t.carry(ctx, c)
	_ = c.Close()
	t.count.countEnd(reason(err))
	if err != nil {
		t.warn(ctx, "connection", c.RemoteAddr(), err)
	}
}

func (t *Tunnel) carry(ctx context.Context, c net.Conn) error {
	open := t.count.open.Add(1)
	defer t.count.open.Add(-1)
	if int(open) > t.Connections {
		reset(c)
		return fmt.Errorf("%w: %d are open", errBusy, open)
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	began := t.waiting.enter(t.Handshakes, func() { cut(fmt.Errorf("%w: %d have no session, and this is the oldest", errBusy, t.Handshakes)) })
	defer began()
	if t.Session > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t.Session, errSession)
		defer stop()
	}
	s, plain, err := t.connectEnds(ctx, c)
	if err != nil {
		return err
	}
	began()
	defer plain.Close()
	return t.join(ctx, channel.NewStream(s, t.Record), plain)
}

// connectEnds makes both ends of a connection: the session, and the plain one.
func (t *Tunnel) connectEnds(ctx context.Context, c net.Conn) (*channel.Conn, net.Conn, error) {
	if t.Serves {
		s, err := t.session(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		plain, err := t.dial(ctx)
		if err != nil {
			_ = s.Close() // the peer sees a stream that was cut
			return nil, nil, err
		}
		return s, plain, nil
	}
	far, err := t.dial(ctx)
	if err == nil {
		var s *channel.Conn
		if s, err = t.session(ctx, far); err == nil {
			return s, c, nil
		}
	}
	reset(c)
	return nil, nil, err
}

// session makes a session over a connection. A client resumes an earlier one if it can.
func (t *Tunnel) session(ctx context.Context, c net.Conn) (*channel.Conn, error) {
	config, began, begin := t.Channel, t.Now(), channel.Server
	if !t.Serves {
		config.Resume, begin = t.tickets.pop(), channel.Client
	}
	s, err := begin(ctx, c, config)
	if err != nil {
		return nil, err
	}
	t.count.handshake(s.Resumed(), t.Now().Sub(began))
	t.tickets.push(s.Ticket())
	return s, nil
}

// dial connects to where connections go.
func (t *Tunnel) dial(ctx context.Context) (net.Conn, error) {
	limited, stop := context.WithTimeout(ctx, t.Channel.HandshakeTimeout)
	defer stop()
	retry, end := context.WithTimeout(limited, t.Retry)
	defer end()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := new(net.Dialer).DialContext(limited, "tcp", t.To)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		select {
		case <-retry.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%w: %w", errUnreachable, err)
		case <-time.After(pause):
		}
	}
}

// join copies both directions until both have ended, or one is cut.
func (t *Tunnel) join(ctx context.Context, s *channel.Stream, plain net.Conn) error {
	ctx, cut := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() {
		reset(plain)
		_ = s.Close()
	})
	moved := func() {}
	if t.Idle > 0 {
		idle := time.AfterFunc(t.Idle, func() { cut(errIdle) })
		defer idle.Stop()
		moved = func() { idle.Reset(t.Idle) }
	}
	var both sync.WaitGroup
	var unsent error
	both.Go(func() {
		unsent = t.outward(s, plain, moved)
		if unsent != nil && !errors.Is(unsent, channel.ErrTruncated) { // else the other direction learns why
			cut(unsent)
		}
	})
	both.Go(func() {
		if err := t.inward(s, plain, moved); err != nil {
			cut(err)
		}
	})
	both.Wait()
	stop()
	err := context.Cause(ctx)
	cut(nil)
	if err == nil {
		err = unsent
	}
	if err != nil {
		reset(plain)
	}
	_ = s.Close() // if both directions have ended, the peer may be gone
	return err
}

// outward carries bytes of the plain connection over the channel.
func (t *Tunnel) outward(s *channel.Stream, plain net.Conn, moved func()) error {
	buf := make([]byte, t.Record)
	for {
		n, err := plain.Read(buf)
		if n > 0 {
			if _, err := s.Write(buf[:n]); err != nil {
				return err
			}
			t.count.out.Add(uint64(n))
			moved()
		}
		switch {
		case errors.Is(err, io.EOF):
			return s.CloseWrite()
		case err != nil:
			return fmt.Errorf("%w: %w", errPlain, err)
		}
	}
}

// inward carries bytes of the channel to the plain connection.
func (t *Tunnel) inward(s *channel.Stream, plain net.Conn, moved func()) error {
	if _, err := s.WriteTo(writer(func(p []byte) (int, error) {
		n, err := plain.Write(p)
		t.count.in.Add(uint64(n))
		moved()
		if err != nil {
			err = fmt.Errorf("%w: %w", errPlain, err)
		}
		return n, err
	})); err != nil {
		return err
	}
	if half, ok := plain.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return fmt.Errorf("%w: %w", errPlain, err)
		}
	}
	return nil
}

// writer is a function as an io.Writer.
type writer func([]byte) (int, error)

// Write calls w.
func (w writer) Write(p []byte) (int, error) { return w(p) }

// reset closes a connection so that its peer sees a cut, not an end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// waiting are the connections without a session, the oldest first, each with what ends it.
type waiting struct {
	mu  sync.Mutex
	all list.List // of func()
}

// enter adds a connection, and ends the oldest if there are more than most. What it returns
// takes the connection out again.
func (w *waiting) enter(most int, end func()) (leave func()) {
	w.mu.Lock()
	e := w.all.PushBack(end)
	var oldest func()
	if w.all.Len() > most {
		oldest, _ = w.all.Remove(w.all.Front()).(func())
	}
	w.mu.Unlock()
	if oldest != nil {
		oldest()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all.Remove(e) // nothing if it is out
	}
}

func (w *waiting) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Len()
}

// tickets are those of sessions that can be resumed, the newest last. Each is used once.
type tickets struct {
	mu  sync.Mutex
	all []*channel.Ticket
}

// mostTickets is more than a burst of new connections can use.
const mostTickets = 64

func (t *tickets) push(one *channel.Ticket) {
	if one == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all = append(t.all, one); len(t.all) > mostTickets {
		t.all = append([]*channel.Ticket(nil), t.all[1:]...)
	}
}

func (t *tickets) pop() *channel.Ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 {
		return nil
	}
	last := t.all[len(t.all)-1]
	t.all = t.all[:len(t.all)-1]
	return last
}

// warn logs a fault, at most once in a while for each reason: a stranger can make many.
func (t *Tunnel) warn(ctx context.Context, what string, of net.Addr, err error) {
	why := reason(err)
	left, ok := t.said.allow(why)
	if !ok {
		return
	}
	attrs := []any{"reason", why, "error", err}
	if of != nil {
		attrs = append(attrs, "client", of)
	}
	if left > 0 {
		attrs = append(attrs, "not_logged", left)
	}
	level := slog.LevelWarn
	if slices.Contains(usual, why) {
		level = slog.LevelInfo
	}
	t.Log.Log(ctx, level, what, attrs...)
}

// usual are the reasons of ends that are no fault of a tunnel, its configuration or its service.
var usual = []string{"stopped", "idle", "session", "plain", "truncated"}

// limiter lets each reason be logged now and then.
type limiter struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]time.Time
	left map[string]int
}

// seldom is the time between two lines of one reason.
const seldom = 10 * time.Second

// allow returns how many were left out since the last line, and whether there may be one now.
func (l *limiter) allow(why string) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last, l.left = map[string]time.Time{}, map[string]int{}
	}
	now := l.now()
	if last, had := l.last[why]; had && now.Sub(last) < seldom {
		l.left[why]++
		return 0, false
	}
	left = l.left[why]
	l.last[why], l.left[why] = now, 0
	return left, true
}
