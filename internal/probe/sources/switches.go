package sources

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	contextSwitches = counter("tee_context_switches_total",
		"Switches of a CPU away from a thread since the monitor started, by process name and kind, from the kernel's nvcsw and nivcsw of each thread; kernel threads are named by the part before the slash.",
		"process", "kind")
	processCPU = counter("tee_process_cpu_seconds_total",
		"CPU time in seconds since the monitor started, by process name, from the scheduler's sum_exec_runtime of each thread; of a thread that is on its CPU, until the last tick.",
		"process")
	ioCalls = counter("tee_process_io_calls_total",
		"Calls that read or write a file or a socket by file operations since the monitor started, by process name and operation, from the kernel's syscr and syscw of each thread: read, pread, readv and the like, sendfile and copy_file_range in both; not recv, send, io_uring, nor calls that are refused before they reach the file.",
		"process", "operation")
	processStart = gauge("tee_process_start_time_seconds",
		"When the oldest living process of a name started, in seconds since 1970; absent if none lives. Only names with activity since the monitor started have this series. If the processes of a name live for less than the time between two readings, the value may be the start of an ended process.",
		"process")
	pidSwitches = counter("tee_pid_context_switches_total",
		"Switches of a CPU away from a thread since the source was narrowed to process ids, by id, name of the process now and kind; also included in tee_context_switches_total.",
		"pid", "process", "kind")
	pidCPU = counter("tee_pid_cpu_seconds_total",
		"CPU time in seconds since the source was narrowed to process ids, by id and name of the process now; also included in tee_process_cpu_seconds_total.",
		"pid", "process")
)

var switches = probe.Source{
	Name:    "switches",
	Doc:     "Context switches, CPU time, and calls that read and write, by process, from the kernel's own counts for each thread",
	Metrics: []*metric.Desc{contextSwitches, processCPU, ioCalls, processStart, pidSwitches, pidCPU, retiredEvents},
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost: "no program runs on a switch. A reading takes 0.2 µs for each thread of the machine (`go test -run=NONE -bench Visit ./internal/probe/bpf`), and the end of a thread is two events. " +
		"61 kB, and about 120 bytes for each thread",
	Blind: "earlier names of a thread: everything since the last reading counts for the thread's name at the reading, or at its end. Time that the hypervisor takes from a guest counts as CPU time of the interrupted thread",
	Open:  openSwitches,
}

// switchReader is the Reader of switches. It is never detached: its counts are exact, and its events, threads that end, too few to matter.
type switchReader struct {
	ungoverned
	boot *bootClock
}

func openSwitches(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
	boot := &bootClock{host: h}
	r, err := openByProcess(bpf.Switches, nil, func(c *counters, emit emitter) uint64 { return readSwitches(c, boot.at, emit) })(h, facts)
	if err != nil {
		return nil, err
	}
	return switchReader{r.(ungoverned), boot}, nil
}

// Read implements probe.Reader.
func (s switchReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	return errors.Join(s.boot.read(), s.ungoverned.Read(ctx, emit))
}

// bootClock is the time of boot by the clock of the machine.
type bootClock struct {
	host *host.Host
	at   float64 // in seconds since 1970; 0 while unknown
}

// read follows a clock that was set. It ignores less than a second: starts would seem to change.
func (b *bootClock) read() error {
	text, err := b.host.ReadString("/proc/uptime")
	if err != nil {
		b.at = 0
		return fmt.Errorf("read when processes started: %w", err)
	}
	up, _, _ := strings.Cut(text, " ")
	seconds, err := metric.ParseNumber(up)
	if err != nil {
		b.at = 0
		return fmt.Errorf("parse /proc/uptime: %.40q does not begin with a number of seconds", text)
	}
	if at := float64(b.host.Now().UnixNano())/1e9 - seconds; math.Abs(at-b.at) > 1 {
		b.at = math.Round(at*100) / 100
	}
	return nil
}

func readSwitches(c *counters, boot float64, emit emitter) uint64 {
	counts := bpf.SwitchCounts{Counters: c.Counters}
	folded := counts.ByProcess(func(process string, n bpf.Switched) {
		emit.send(contextSwitches, float64(n.Voluntary), c.label(process, "voluntary")...)
		emit.send(contextSwitches, float64(n.Involuntary), c.label(process, "involuntary")...)
		emit.send(processCPU, float64(n.NS)/1e9, c.label(process)...)
		if n.Reads+n.Writes > 0 { // otherwise it made none, or this kernel does not count them
			emit.send(ioCalls, float64(n.Reads), c.label(process, "read")...)
			emit.send(ioCalls, float64(n.Writes), c.label(process, "write")...)
		}
		if n.Started > 0 && boot > 0 && process != bpf.Other {
			emit.send(processStart, boot+float64(n.Started/1e7)/100, c.label(process)...)
		}
	})
	counts.Own(func(pid int, process string, n bpf.Switched) {
		id := strconv.Itoa(pid)
		emit.send(pidSwitches, float64(n.Voluntary), c.label(id, process, "voluntary")...)
		emit.send(pidSwitches, float64(n.Involuntary), c.label(id, process, "involuntary")...)
		emit.send(pidCPU, float64(n.NS)/1e9, c.label(id, process)...)
	})
	return folded
}

// ungoverned is what the engine sees of the reader: not that it could be governed.
type ungoverned interface {
	probe.FromZero
	probe.Adjustable
}
