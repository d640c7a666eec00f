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

// clockServer is a case of which the cause is known: a server whose clock calls leave
// the vDSO, as those of an enclave runtime without a clock of its own do. TEEMon
// (Middleware 2020, section 6.5) found by the rate of clock_gettime why Redis in
// such a runtime did less than half of what a later version of it let it do.
var clockServer = Command{
	Name: "clockserver",
	Doc:  "answer RESP commands and read the clock for each, by the vDSO or by the kernel (a known cause)",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		address := f.String("address", "127.0.0.1:6379", "address to listen on")
		clock := f.String("clock", "vdso", "how the clock is read: vdso or syscall")
		var reads int
		count(f, &reads, "reads", 16, 0, mostRounds, "how often it is read for each command")
		return func(ctx context.Context, s Streams) error {
			read, err := clockNamed(*clock)
			if err != nil {
				return err
			}
			runtime.GOMAXPROCS(1) // as Redis is: one thread does the work
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

// clockNamed is a way to read the clock, of which only the cost is of interest.
func clockNamed(name string) (func() error, error) {
	switch name {
	case "vdso":
		return func() error { _ = time.Now(); return nil }, nil
	case "syscall":
		var now unix.Timespec
		return func() error {
			// As C does it: without a word to Go's scheduler, which would cost as much again.
			if _, _, e := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0); e != 0 {
				return fmt.Errorf("read the clock: %w", e)
			}
			return nil
		}, nil
	}
	return nil, fmt.Errorf("-clock %q: want vdso or syscall", name)
}
