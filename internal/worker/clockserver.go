package worker

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clockServer is slow for a known cause: its clock calls leave the vDSO, as they do in an
// enclave runtime without a clock of its own. From the rate of clock_gettime, TEEMon (Middleware
// 2020, section 6.5) explained why Redis in such a runtime reached less than half of the
// throughput that it had in a later version of the runtime.
var clockServer = Command{
	Name: "clockserver",
	Doc:  "answer RESP commands and read the clock for each, by the vDSO or by the kernel (a known cause)",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		address := f.String("address", "127.0.0.1:6379", "address to listen on")
		clock := f.String("clock", "vdso", "how the clock is read: vdso or syscall")
		var reads int
		count(f, &reads, "reads", 16, 0, mostRounds, "how often the clock is read for each command")
		return func(ctx context.Context, s Streams) error {
			read, err := clockNamed(*clock)
			if err != nil {
				return err
			}
			runtime.GOMAXPROCS(1) // like Redis: one thread does the work
			l, err := listenTCP(ctx, *address)
			if err != nil {
				return err
			}
			return serveEach(ctx, l, func(c net.Conn) {
				answerAll(c, func() error {
					for range reads {
						if err := read(); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	},
}

// clockNamed returns a way to read the clock; the time itself is discarded.
func clockNamed(name string) (func() error, error) {
	switch name {
	case "vdso":
		return func() error { _ = time.Now(); return nil }, nil
	case "syscall":
		var now unix.Timespec
		return func() error {
			// As in C: without notifying Go's scheduler, which would cost as much again.
			if _, _, e := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0); e != 0 {
				return fmt.Errorf("read the clock: %w", e)
			}
			return nil
		}, nil
	}
	return nil, fmt.Errorf("-clock %q: want vdso or syscall", name)
}
