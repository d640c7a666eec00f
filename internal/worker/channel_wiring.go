package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/vsock"

	"github.com/teescope/teescope/channel"
	"github.com/teescope/teescope/internal/host"
)

// wiring makes connections between the two sides.
type wiring struct {
	dial   func(context.Context) (net.Conn, error)
	accept func() (net.Conn, error)
	close  func()
}

// newWiring opens a transport: both ends in this process, or one if listen or connect gives an
// address. pipe is the capacity of a pipe in bytes, in each direction.
func newWiring(transport, listen, connect string, pipe int) (*wiring, error) {
	if connect != "" {
		dial, err := dialer(transport, connect)
		return &wiring{dial: dial, close: func() {}}, err
	}
	switch transport {
	case "pipe":
		return pipeWiring(pipe), nil
	case "vsock":
		return vsockWiring(listen)
	case "unix":
		const name = "socket"
		dir, err := host.Local().MkdirShort("teescope-channel", name, host.MostSocketPath)
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return listener(l, "unix", func() { _ = os.RemoveAll(dir) })
	default:
		if listen == "" {
			listen = "127.0.0.1:0"
		}
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return nil, err
		}
		return listener(l, "tcp", func() {})
	}
}

// listener wires a listener of this process.
func listener(l net.Listener, transport string, closed func()) (*wiring, error) {
	dial, err := dialer(transport, l.Addr().String())
	return &wiring{dial: dial, accept: l.Accept, close: func() { _ = l.Close(); closed() }}, err
}

func vsockWiring(listen string) (*wiring, error) {
	port := uint64(0)
	if listen != "" {
		var err error
		if port, err = strconv.ParseUint(listen, 10, 32); err != nil {
			return nil, fmt.Errorf("-listen %q: a vsock port is a number", listen)
		}
	}
	l, err := vsock.ListenContextID(vsock.Local, uint32(port), nil)
	if listen != "" {
		l, err = vsock.Listen(uint32(port), nil)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on vsock: %w (within one machine it needs the module vsock_loopback)", err)
	}
	a := l.Addr().(*vsock.Addr)
	dial, err := dialer("vsock", fmt.Sprintf("%d:%d", a.ContextID, a.Port))
	return &wiring{dial: dial, accept: l.Accept, close: func() { _ = l.Close() }}, err
}

// dialer returns a function that connects to an address. It waits for a far side that does not
// listen yet.
func dialer(transport, address string) (func(context.Context) (net.Conn, error), error) {
	if transport != "vsock" {
		return func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			for until := monotonic().Add(30 * time.Second); ; {
				c, err := d.DialContext(ctx, transport, address)
				if err == nil || monotonic().After(until) || ctx.Err() != nil {
					return c, err
				}
				time.Sleep(10 * time.Millisecond)
			}
		}, nil
	}
	cid, port, ok := strings.Cut(address, ":")
	c, err := strconv.ParseUint(cid, 10, 32)
	p, err2 := strconv.ParseUint(port, 10, 32)
	if !ok || err != nil || err2 != nil {
		return nil, fmt.Errorf("-connect %q: want CID:PORT for vsock", address)
	}
	return func(context.Context) (net.Conn, error) { return vsock.Dial(uint32(c), uint32(p), nil) }, nil
}

// pipeSize is the capacity of a pipe in each direction, that of the original experiment. Each
// handshake has a new pipe, whose memory should not be the garbage collector's main work.
const (
	pipeSize  = 1 << 20
	helloSize = 8 << 10
)

func pipeWiring(size int) *wiring {
	dialed, closed := make(chan net.Conn), make(chan struct{})
	return &wiring{
		dial: func(ctx context.Context) (net.Conn, error) {
			a, b := channel.Pipe(size)
			select {
			case dialed <- pipeConn{b}:
				return pipeConn{a}, nil
			case <-closed:
				return nil, net.ErrClosed
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		accept: func() (net.Conn, error) {
			select {
			case c := <-dialed:
				return c, nil
			case <-closed:
				return nil, net.ErrClosed
			}
		},
		close: func() { close(closed) },
	}
}

// pipeConn makes a pipe's end a net.Conn. It has no deadlines.
type pipeConn struct{ io.ReadWriteCloser }

func (pipeConn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
func (pipeConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
func (pipeConn) SetDeadline(time.Time) error      { return nil }
func (pipeConn) SetReadDeadline(time.Time) error  { return nil }
func (pipeConn) SetWriteDeadline(time.Time) error { return nil }
