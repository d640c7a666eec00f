package worker

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockServer is slow for a known cause: its threads contend for one lock, so most
// of their turns begin and end in futex.
var lockServer = Command{
	Name: "lockserver",
	Doc:  "answer RESP commands and take a lock several times for each: one lock for all connections or one per connection (a known cause)",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var s turns
		address := f.String("address", "127.0.0.1:6379", "address to listen on")
		f.StringVar(&s.locks, "locks", "split", "split (one lock for each connection) or shared (one lock for all)")
		count(f, &s.number, "turns", 64, 1, mostRounds, "how often a command takes the lock")
		count(f, &s.pause, "pause", 0, 0, mostRounds, "microseconds to sleep while holding it, as for a disk")
		count(f, &s.rounds, "rounds", 500, 1, mostRounds, "rounds of computing while holding it, about a nanosecond each")
		count(f, &s.connections, "connections", 8, 1, 1024, "connections at once, with a thread each")
		return func(ctx context.Context, _ Streams) error { return s.run(ctx, *address) }
	},
}

// mostRounds bounds the work for one command.
const mostRounds = 1_000_000

// turns holds the settings of the work for one command.
type turns struct {
	locks                              string
	number, rounds, pause, connections int
}

func (s turns) run(ctx context.Context, address string) error {
	if s.locks != "split" && s.locks != "shared" {
		return fmt.Errorf("-locks %q: want split or shared", s.locks)
	}
	// Each thread that sleeps in futex occupies one of these.
	runtime.GOMAXPROCS(max(s.connections, runtime.NumCPU()))
	l, err := listenTCP(ctx, address)
	if err != nil {
		return err
	}
	shared := new(guarded)
	return serveEach(ctx, l, func(c net.Conn) {
		data := shared
		if s.locks == "split" {
			data = new(guarded)
		}
		answerAll(c, func() error {
			for range s.number {
				data.compute(s.rounds, time.Duration(s.pause)*time.Microsecond)
			}
			return nil
		})
	})
}

// guarded is data under a lock.
type guarded struct {
	mutex mutex
	value uint64
}

// compute is work that needs the data.
func (g *guarded) compute(rounds int, pause time.Duration) {
	g.mutex.lock()
	defer g.mutex.unlock()
	if pause > 0 {
		t := unix.NsecToTimespec(pause.Nanoseconds())
		_ = unix.Nanosleep(&t, nil) // a signal that ends it early does no harm
	}
	for range rounds {
		g.value = g.value*6364136223846793005 + 1442695040888963407 // Knuth, MMIX
	}
}

// mutex is the lock of C programs, whose waiters sleep in the kernel (Ulrich
// Drepper, Futexes Are Tricky, section 5): 0 is free, 1 taken, 2 taken with
// waiters. Go's own lock parks goroutines, which hides the contention from the
// kernel.
type mutex struct{ state atomic.Uint32 }

// Operations of futex(2) within a process (include/uapi/linux/futex.h).
const (
	futexPrivate = 128
	futexWait    = 0 | futexPrivate
	futexWake    = 1 | futexPrivate
)

func (m *mutex) lock() {
	if m.state.CompareAndSwap(0, 1) {
		return
	}
	for m.state.Swap(2) != 0 {
		m.futex(futexWait, 2) // woken, interrupted or too late: look again
	}
}

func (m *mutex) unlock() {
	if m.state.Swap(0) == 2 {
		m.futex(futexWake, 1)
	}
}

func (m *mutex) futex(operation, value uintptr) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m.state)), operation, value, 0, 0, 0)
}
