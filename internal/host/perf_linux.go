package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// perfInheritThread is inherit_thread of struct perf_event_attr (Linux 5.13):
// threads are counted with the one that makes them, child processes are not.
const perfInheritThread = 1 << 35

// perfGroup holds the descriptors of a group, the leader's first.
type perfGroup []int

func openPerf(target PerfTarget, events ...PerfEvent) (PerfGroup, error) {
	if len(events) == 0 {
		return nil, errors.New("open performance counters: no events")
	}
	var g perfGroup
	for i, e := range events {
		attr := unix.PerfEventAttr{Type: e.Type, Config: e.Config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Read_format: unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING}
		thread, cpu, leader := -1, target.CPU, -1
		if target.Thread > 0 {
			thread, cpu = target.Thread, -1
			attr.Bits |= unix.PerfBitInherit | perfInheritThread
		}
		if i == 0 {
			attr.Bits |= unix.PerfBitDisabled // until the group is complete
		} else {
			leader = g[0]
		}
		fd, err := unix.PerfEventOpen(&attr, thread, cpu, leader, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open performance counter %d:%#x of %s: %w", e.Type, e.Config, target, err), g.Close())
		}
		g = append(g, fd)
		if Spared(fd) {
			return nil, errors.Join(fmt.Errorf("open performance counters of %s: %w", target, unix.EMFILE), g.Close())
		}
	}
	if err := unix.IoctlSetInt(g[0], unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("start performance counters of %s: %w", target, err), g.Close())
	}
	return g, nil
}

// Read implements PerfGroup. The kernel's answer is the number of events, the
// two times, and the values (PERF_FORMAT_GROUP of perf_event_open(2)).
func (g perfGroup) Read() (PerfReading, error) {
	b := make([]byte, 8*(3+len(g)))
	n, err := unix.Read(g[0], b)
	if err != nil {
		return PerfReading{}, fmt.Errorf("read performance counters: %w", err)
	}
	// Nothing is left of a group whose CPU went away, or its leader alone.
	if n < len(b) || binary.NativeEndian.Uint64(b) != uint64(len(g)) {
		return PerfReading{}, fmt.Errorf("read performance counters: the group counts no more: %w", unix.ENODEV)
	}
	r := PerfReading{
		Enabled: time.Duration(binary.NativeEndian.Uint64(b[8:])),
		Running: time.Duration(binary.NativeEndian.Uint64(b[16:])),
	}
	for i := range g {
		r.Values = append(r.Values, binary.NativeEndian.Uint64(b[24+8*i:]))
	}
	return r, nil
}

// Close implements PerfGroup.
func (g perfGroup) Close() error {
	var errs []error
	for _, fd := range g {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}
