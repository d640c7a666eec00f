//go:build linux

package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a connected socket outside Go's poller. While it is patient it waits for
// the kernel as any net.Conn does, for handshakes. Then the event loop takes over, and
// a read without data returns errAgain. A write always accepts everything: what the
// kernel has no room for waits in rest.
//
// The event loop lets one thread serve a thousand connections on a schedule of
// microseconds: Go's own poller rounds its waits up to a millisecond, and wakes a
// goroutine for each answer.
type socket struct {
	fd       int
	patient  bool
	deadline atomic.Int64 // of patient waits, in Unix nanoseconds; 0 is none
	rest     []byte
	wrote    uint64 // bytes, those of TLS included
	addr     [2]net.Addr
}

// errAgain means that there is nothing to read yet. It is a temporary net.Error, so
// crypto/tls keeps the part of a record that it has read and continues later.
var errAgain error = again{}

type again struct{}

func (again) Error() string   { return "nothing to read yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// newSocket takes a connection from Go's poller.
func newSocket(c net.Conn) (*socket, error) {
	s := &socket{fd: -1, patient: true, addr: [2]net.Addr{c.LocalAddr(), c.RemoteAddr()}}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the connection: %w", err), c.Close())
	}
	var derr error
	err = raw.Control(func(fd uintptr) { s.fd, derr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, derr, c.Close()); err != nil {
		if s.fd >= 0 {
			_ = unix.Close(s.fd)
		}
		return nil, fmt.Errorf("take the connection: %w", err)
	}
	return s, nil
}

func (s *socket) Read(b []byte) (int, error) {
	for {
		n, err := s.call(unix.SYS_READ, b)
		switch {
		case n > 0:
			return n, nil
		case err == nil && len(b) > 0:
			return 0, io.EOF
		case err == nil:
			return 0, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			return 0, fmt.Errorf("read: %w", err)
		case !s.patient:
			return 0, errAgain
		default:
			if err := s.await(unix.POLLIN); err != nil {
				return 0, err
			}
		}
	}
}

func (s *socket) Write(b []byte) (int, error) {
	s.wrote += uint64(len(b))
	if len(s.rest) > 0 {
		s.rest = append(s.rest, b...)
		return len(b), nil
	}
	n, err := s.write(b)
	if err != nil {
		return n, err
	}
	if n < len(b) {
		s.rest = append(s.rest, b[n:]...)
	}
	return len(b), nil
}

// write writes as much as the kernel has room for, or everything if patient.
func (s *socket) write(b []byte) (done int, err error) {
	for done < len(b) {
		n, err := s.call(unix.SYS_WRITE, b[done:])
		switch {
		case n > 0:
			done += n
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			return done, fmt.Errorf("write: %w", err)
		case !s.patient:
			return done, nil
		default:
			if err := s.await(unix.POLLOUT); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// call is read(2) or write(2). Neither waits, so Go's scheduler is not notified: it
// would hand the thread's processor to another if the kernel takes a while, as for a
// packet.
func (s *socket) call(trap uintptr, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(trap, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// flush writes what is left, and reports whether nothing remains.
func (s *socket) flush() (bool, error) {
	n, err := s.write(s.rest)
	s.rest = s.rest[:copy(s.rest, s.rest[n:])]
	return len(s.rest) == 0, err
}

// await waits until the kernel is ready, in slices so that a new deadline takes effect.
func (s *socket) await(events int16) error {
	const slice = 50 * time.Millisecond
	for {
		wait := slice
		if end := s.deadline.Load(); end != 0 {
			if wait = min(wait, time.Until(time.Unix(0, end))); wait <= 0 {
				return fmt.Errorf("wait for the server: %w", errTimeout)
			}
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: events}}, int(wait/time.Millisecond)+1)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for the server: %w", err)
		case n > 0:
			return nil
		}
	}
}

// errTimeout means that a server did not answer in time.
var errTimeout error = timeout{}

type timeout struct{}

func (timeout) Error() string   { return "the server did not answer in time" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return false }

func (s *socket) impatient() { s.patient = false }

func (s *socket) pending() bool { return len(s.rest) > 0 }

func (s *socket) Close() error {
	fd := s.fd
	s.fd = -1
	if fd < 0 {
		return net.ErrClosed
	}
	return unix.Close(fd)
}

func (s *socket) LocalAddr() net.Addr  { return s.addr[0] }
func (s *socket) RemoteAddr() net.Addr { return s.addr[1] }

// SetDeadline bounds patient waits; the event loop has its own timeouts.
func (s *socket) SetDeadline(t time.Time) error {
	if t.IsZero() {
		s.deadline.Store(0)
	} else {
		s.deadline.Store(t.UnixNano())
	}
	return nil
}
func (s *socket) SetReadDeadline(t time.Time) error  { return s.SetDeadline(t) }
func (s *socket) SetWriteDeadline(t time.Time) error { return s.SetDeadline(t) }
