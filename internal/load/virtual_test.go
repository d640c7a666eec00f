// clock: the network of this file is for bubbles of testing/synctest.
package load

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Latency is how long data is under way in a Virtual network.
const Latency = time.Millisecond

// Virtual is a network in memory for a bubble of testing/synctest, in which everything but data under way takes no
// time. It is the listener of its only server.
type Virtual struct {
	// Oversleep is how much too long a load sleeps until a request is due.
	Oversleep time.Duration
	// Opens is when the server begins to listen.
	Opens time.Time

	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func NewVirtual() *Virtual { return &Virtual{calls: make(chan net.Conn), closed: make(chan struct{})} }

// Over makes a load use the network.
func (o *Options) Over(v *Virtual)     { o.instead = v }
func (o *ChatOptions) Over(v *Virtual) { o.instead = v }

func (v *Virtual) Accept() (net.Conn, error) {
	select {
	case c := <-v.calls:
		return c, nil
	case <-v.closed:
		return nil, net.ErrClosed
	}
}

func (v *Virtual) Close() error { v.once.Do(func() { close(v.closed) }); return nil }

func (v *Virtual) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (v *Virtual) dial(ctx context.Context, _ *Options) (net.Conn, error) {
	near, far := newWay(), newWay()
	select {
	case <-time.After(2 * Latency):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if time.Now().Before(v.Opens) {
		return nil, fmt.Errorf("connect: %w", unix.ECONNREFUSED)
	}
	select {
	case v.calls <- &VirtualConn{in: far, out: near}:
		return &VirtualConn{in: near, out: far}, nil
	case <-v.closed:
		return nil, fmt.Errorf("connect: %w", unix.ECONNREFUSED)
	}
}

func (v *Virtual) adopt(c net.Conn) (polled, error) { return c.(*VirtualConn), nil }

func (v *Virtual) sleep(ns int64) error { time.Sleep(time.Duration(ns) + v.Oversleep); return nil }

func (v *Virtual) newPoller() (poller, error) {
	return &virtualPoller{conns: map[int]*VirtualConn{}, something: make(chan struct{}, 1)}, nil
}

// way is one direction of a connection, without a limit on the data under way.
type way struct {
	mu       sync.Mutex
	change   *sync.Cond
	under    []parcel // way
	arrived  []byte
	end      error // after what has arrived; nil while there is none
	deaf     bool  // the reader has closed it
	deadline time.Time
	notify   func() // of an arrival
}

// parcel is some data, or the end.
type parcel struct {
	data []byte
	end  error
}

func newWay() *way {
	w := &way{}
	w.change = sync.NewCond(&w.mu)
	return w
}

// send puts data or the end on its way.
func (w *way) send(p parcel) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf {
		return unix.EPIPE
	}
	w.under = append(w.under, p)
	time.AfterFunc(Latency, func() { // each delivers the first, as those of one moment come in any order
		w.mu.Lock()
		defer w.mu.Unlock()
		first := w.under[0]
		w.under = w.under[1:]
		w.arrived, w.end = append(w.arrived, first.data...), first.end
		w.changed()
	})
	return nil
}

// changed wakes those who wait. The way is locked.
func (w *way) changed() {
	w.change.Broadcast()
	if w.notify != nil {
		w.notify()
	}
}

// VirtualConn is one end of a connection.
type VirtualConn struct {
	in, out *way
	eager   bool // a read waits for nothing
	linger  bool // closing is a reset
	once    sync.Once
}

func (c *VirtualConn) Read(b []byte) (int, error) {
	w := c.in
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.deaf:
			return 0, net.ErrClosed
		case len(w.arrived) > 0:
			n := copy(b, w.arrived)
			w.arrived = w.arrived[n:]
			return n, nil
		case w.end != nil:
			return 0, w.end
		case c.eager:
			return 0, errAgain
		case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		w.change.Wait()
	}
}

func (c *VirtualConn) Write(b []byte) (int, error) {
	if err := c.out.send(parcel{data: slices.Clone(b)}); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	return len(b), nil
}

// SetLinger makes Close a reset, as of TCP.
func (c *VirtualConn) SetLinger(int) error { c.linger = true; return nil }

func (c *VirtualConn) Close() error {
	c.once.Do(func() {
		end := io.EOF
		if c.linger {
			end = fmt.Errorf("read: %w", unix.ECONNRESET)
		}
		_ = c.out.send(parcel{end: end})
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		c.in.deaf = true
		c.in.changed()
	})
	return nil
}

func (c *VirtualConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (c *VirtualConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3} }

func (c *VirtualConn) SetReadDeadline(t time.Time) error {
	w := c.in
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	w.change.Broadcast()
	if d := time.Until(t); !t.IsZero() && d > 0 {
		time.AfterFunc(d, w.change.Broadcast)
	}
	return nil
}

// SetWriteDeadline does nothing: writing takes no time.
func (c *VirtualConn) SetWriteDeadline(time.Time) error { return nil }

func (c *VirtualConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *VirtualConn) impatient()           { c.eager = true }
func (c *VirtualConn) pending() bool        { return false }
func (c *VirtualConn) flush() (bool, error) { return true, nil }

// ready reports whether a read would not wait.
func (c *VirtualConn) ready() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return !c.in.deaf && (len(c.in.arrived) > 0 || c.in.end != nil)
}

// virtualPoller is level-triggered, as epoll is.
type virtualPoller struct {
	conns     map[int]*VirtualConn
	something chan struct{} // has happened
	mu        sync.Mutex
	woken     bool
}

func (p *virtualPoller) add(c polled, index int) error {
	v := c.(*VirtualConn)
	p.conns[index] = v
	v.in.mu.Lock()
	defer v.in.mu.Unlock()
	v.in.notify = p.tell
	return nil
}

func (p *virtualPoller) tell() {
	select {
	case p.something <- struct{}{}:
	default:
	}
}

func (p *virtualPoller) writable(polled, int, bool) error { return nil }

func (p *virtualPoller) wait(events []unix.EpollEvent, ns int64) (int, error) {
	for end := time.Now().Add(time.Duration(ns)); ; {
		n := 0
		p.mu.Lock()
		if p.woken {
			events[n], n = unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeIndex}, n+1
		}
		p.mu.Unlock()
		for _, index := range slices.Sorted(maps.Keys(p.conns)) {
			if n < len(events) && p.conns[index].ready() {
				events[n], n = unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index)}, n+1
			}
		}
		left := time.Until(end)
		if n > 0 || left <= 0 {
			return n, nil
		}
		timer := time.NewTimer(left)
		select {
		case <-p.something:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (p *virtualPoller) wake() {
	p.mu.Lock()
	p.woken = true
	p.mu.Unlock()
	p.tell()
}

func (p *virtualPoller) awake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = false
}

func (p *virtualPoller) close() {}
