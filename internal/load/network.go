//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// network is the kernel's part in a load. Tests replace it, because a virtual clock (testing/synctest) stands still
// while a thread waits in the kernel.
type network interface {
	dial(ctx context.Context, o *Options) (net.Conn, error)
	// adopt takes a connection out of Go's poller, for an event loop.
	adopt(c net.Conn) (polled, error)
	newPoller() (poller, error)
	// sleep waits more exactly than Go's timers, which are late by up to a millisecond. The thread is locked.
	sleep(ns int64) error
}

// polled is a connection for an event loop. Until it is impatient, it waits as any net.Conn does. Then a read without
// data returns errAgain, and a write accepts everything.
type polled interface {
	net.Conn
	impatient()
	// pending reports whether some of what was written still waits to be sent, flush sends it and reports whether
	// nothing remains.
	pending() bool
	flush() (bool, error)
}

// poller waits for the connections of an event loop. Events have the index of a connection, or wakeIndex.
type poller interface {
	add(c polled, index int) error
	// writable asks for an event when a connection can send, too, or no longer.
	writable(c polled, index int, want bool) error
	wait(events []unix.EpollEvent, ns int64) (int, error)
	// wake makes wait return, until awake is called.
	wake()
	awake()
	close()
}

// network returns the network of a load.
func (o *Options) network() network {
	if o.instead != nil {
		return o.instead
	}
	return kernel{}
}

// kernel is the real network.
type kernel struct{}

func (kernel) dial(ctx context.Context, o *Options) (net.Conn, error) {
	dialer := net.Dialer{Timeout: o.Timeout}
	return dialer.DialContext(ctx, o.Network, o.Address)
}

func (kernel) adopt(c net.Conn) (polled, error) { return newSocket(c) }

func (kernel) sleep(ns int64) error {
	t := unix.NsecToTimespec(min(ns, int64(100*time.Millisecond)))
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("sleep until a request is due: %w", err)
	}
	return nil
}

func (kernel) newPoller() (poller, error) {
	var e epoll
	var err error
	if e.set, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll set: %w", err)
	}
	if e.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("make an eventfd: %w", err), unix.Close(e.set))
	}
	err = unix.EpollCtl(e.set, unix.EPOLL_CTL_ADD, e.event, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeIndex})
	if err != nil {
		e.close()
		return nil, fmt.Errorf("watch an eventfd: %w", err)
	}
	return &e, nil
}

// epoll is the kernel's poller; event is an eventfd that wakes it.
type epoll struct{ set, event int }

func (e *epoll) add(c polled, index int) error {
	err := unix.EpollCtl(e.set, unix.EPOLL_CTL_ADD, c.(*socket).fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(index)})
	if err != nil {
		return fmt.Errorf("watch a connection: %w", err)
	}
	return nil
}

func (e *epoll) writable(c polled, index int, want bool) error {
	v := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(index)}
	if want {
		v.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(e.set, unix.EPOLL_CTL_MOD, c.(*socket).fd, &v)
}

// wait waits for at most ns nanoseconds. Before Linux 5.11, which lacks this call,
// waits are in milliseconds, and late requests are counted.
func (e *epoll) wait(events []unix.EpollEvent, ns int64) (int, error) {
	t := unix.NsecToTimespec(max(ns, 0))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.set), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&t)), 0, 0)
	var err error
	if errno != 0 {
		err = errno
	}
	count := int(n)
	if errors.Is(err, unix.ENOSYS) {
		count, err = unix.EpollWait(e.set, events, int(max(ns, 0)/1e6))
	}
	switch {
	case errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("wait for events: %w", err)
	}
	return count, nil
}

func (e *epoll) wake() { _, _ = unix.Write(e.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (e *epoll) awake() {
	var b [8]byte
	_, _ = unix.Read(e.event, b[:])
}

func (e *epoll) close() {
	_ = unix.Close(e.set)
	_ = unix.Close(e.event)
}
