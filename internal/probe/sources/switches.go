package sources

import (
	"strconv"

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
	pidSwitches = counter("tee_pid_context_switches_total",
		"Switches of a CPU away from a thread since the source was narrowed to process ids, by id, name of the process now and kind; also included in tee_context_switches_total.",
		"pid", "process", "kind")
	pidCPU = counter("tee_pid_cpu_seconds_total",
		"CPU time in seconds since the source was narrowed to process ids, by id and name of the process now; also included in tee_process_cpu_seconds_total.",
		"pid", "process")
)

var switches = probe.Source{
	Name:    "switches",
	Doc:     "Context switches, CPU time and calls that read and write by process, as the kernel counts them for each thread",
	Metrics: []*metric.Desc{contextSwitches, processCPU, ioCalls, pidSwitches, pidCPU, retiredEvents},
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost: "nothing runs on a switch; a reading takes 0.2 µs for each thread of the machine (`go test -run=NONE -bench Visit ./internal/probe/bpf`), and a thread that ends two events. " +
		"44 kB, and about 120 bytes for each thread",
	Blind: "what a thread did under an earlier name since the last reading: it counts for the name at the reading, or at the thread's end. Time that the hypervisor takes from a guest counts as CPU time of the interrupted thread",
	Open:  openUngoverned(openByProcess(bpf.Switches, nil, readSwitches)),
}

func readSwitches(c *counters, emit emitter) uint64 {
	counts := bpf.SwitchCounts{Counters: c.Counters}
	folded := counts.ByProcess(func(process string, n bpf.Switched) {
		emit.send(contextSwitches, float64(n.Voluntary), c.label(process, "voluntary")...)
		emit.send(contextSwitches, float64(n.Involuntary), c.label(process, "involuntary")...)
		emit.send(processCPU, float64(n.NS)/1e9, c.label(process)...)
		if n.Reads+n.Writes > 0 { // otherwise it made none, or this kernel does not count them
			emit.send(ioCalls, float64(n.Reads), c.label(process, "read")...)
			emit.send(ioCalls, float64(n.Writes), c.label(process, "write")...)
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

// ungoverned is a Reader that is never detached: its counts are exact, and its events,
// threads that end, too few to matter.
type ungoverned interface {
	probe.FromZero
	probe.Adjustable
}

// openUngoverned hides from the engine that the reader could be governed.
func openUngoverned(open func(*host.Host, []tee.Facts) (probe.Reader, error)) func(*host.Host, []tee.Facts) (probe.Reader, error) {
	return func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		r, err := open(h, facts)
		if err != nil {
			return nil, err
		}
		return struct{ ungoverned }{r.(ungoverned)}, nil
	}
}
