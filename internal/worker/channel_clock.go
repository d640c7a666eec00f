package worker

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// monotonic reads the clock of the measurements.
func monotonic() time.Time { return time.Now() }

// processorSeconds returns the CPU time of this process (getrusage(2)).
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// durations holds the times of operations.
type durations struct{ h *hdrhistogram.Histogram }

// From 1 nanosecond to 10 minutes with three digits.
const longestOperation = int64(10 * time.Minute)

func newDurations() *durations { return &durations{hdrhistogram.New(1, longestOperation, 3)} }

func (x *durations) record(d time.Duration) {
	_ = x.h.RecordValue(min(max(int64(d), 1), longestOperation))
}

// encode returns "" if nothing was timed.
func (x *durations) encode() (string, error) {
	if x.h.TotalCount() == 0 {
		return "", nil
	}
	b, err := x.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return string(b), nil
}

// cycleCounter counts the cycles of the calling thread in user space
// (perf_event_open(2)). A nil one counts nothing.
type cycleCounter struct{ fd int }

func openCycles() (*cycleCounter, error) {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Size: unix.PERF_ATTR_SIZE_VER0,
		Config: unix.PERF_COUNT_HW_CPU_CYCLES, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("count the CPU's cycles: perf_event_open: %w", err)
	}
	return &cycleCounter{fd}, nil
}

func (c *cycleCounter) read() uint64 {
	var b [8]byte
	if c == nil {
		return 0
	}
	if n, err := unix.Read(c.fd, b[:]); err != nil || n != len(b) {
		return 0
	}
	return binary.NativeEndian.Uint64(b[:])
}

func (c *cycleCounter) close() {
	if c != nil {
		_ = unix.Close(c.fd)
	}
}
