package sources

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// perfDescs are the metrics of one event: for the machine, for the processes of a name,
// and for one process. Their names differ, so a sum over any of them is right.
type perfDescs struct{ host, process, pid *metric.Desc }

func describePerf(name, what, event string) perfDescs {
	event = " (perf event " + event + ")."
	return perfDescs{
		counter("tee_"+name+"_total", what+" on all CPUs since the monitor started"+event),
		counter("tee_process_"+name+"_total", what+" by the processes that the source is narrowed to, by process name"+event, "process"),
		counter("tee_pid_"+name+"_total", what+" by a process while the source is narrowed to its id, by id and name; also included in tee_process_"+name+"_total"+event, "pid", "process"),
	}
}

// perfSetOf makes a set of events of one type.
func perfSetOf(kind uint32, configs []uint64, descs ...perfDescs) (s perfSet) {
	for i, d := range descs {
		s.events = append(s.events, host.PerfEvent{Type: kind, Config: configs[i]})
		s.host, s.process, s.pid = append(s.host, d.host), append(s.process, d.process), append(s.pid, d.pid)
	}
	return s
}

// llcSets are two groups of two: the important ratios, misses to references and
// instructions to cycles, are between events that count together, and two counters are
// free more often than four.
var llcSets = []perfSet{
	perfSetOf(unix.PERF_TYPE_HARDWARE, []uint64{unix.PERF_COUNT_HW_CACHE_REFERENCES, unix.PERF_COUNT_HW_CACHE_MISSES},
		describePerf("llc_references", "References to the last-level cache", "PERF_COUNT_HW_CACHE_REFERENCES"),
		describePerf("llc_misses", "Misses of the last-level cache", "PERF_COUNT_HW_CACHE_MISSES")),
	perfSetOf(unix.PERF_TYPE_HARDWARE, []uint64{unix.PERF_COUNT_HW_INSTRUCTIONS, unix.PERF_COUNT_HW_CPU_CYCLES},
		describePerf("instructions", "Instructions retired", "PERF_COUNT_HW_INSTRUCTIONS"),
		describePerf("cycles", "CPU cycles, excluding those in which a CPU was halted,", "PERF_COUNT_HW_CPU_CYCLES")),
}

// llc counts and never samples: a sample on every miss, as some exporters take,
// costs more than the miss.
var llc = probe.Source{
	Name:    "llc",
	Doc:     "Last-level cache references and misses, instructions and cycles, of all CPUs and of the processes that the source is narrowed to",
	Metrics: slices.Concat(llcSets[0].descs(), llcSets[1].descs()),
	Needs: []probe.Need{
		{Capability: "cap_perfmon", For: "to count on whole CPUs and in processes of other users, including processes that start later"},
		{Capability: "cap_sys_ptrace", For: "to narrow the source to control groups or containers if /proc hides other users' processes (hidepid)", Optional: true},
	},
	Kernels: "Linux 5.13 and later with CONFIG_PERF_EVENTS, on a CPU or hypervisor with performance counters",
	Cost:    "no cost per event, because the hardware counts. A reading interrupts each CPU twice. If the source is narrowed to processes, their counters are saved and restored at each switch between threads, and each thread uses 4 descriptors (not measured, because our test machines have no counters)",
	Blind:   "production SGX enclaves, where the hardware stops the counters (enclaves in debug mode are counted); TDX guests without the attribute PERFMON, and VMs without virtual counters, because they have no counters; trust domains with their own counters, which a host's counters exclude; processes before the first reading that includes them. On AMD Zen the kernel's two cache events are events of the second-level cache. If several programs share the counters, each program has the counters for part of the time, and the values are extrapolated",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		r, err := openPerf(h, llcSets, func(err error) error { return perfProblem(h, facts, err) })
		if err != nil {
			return nil, err
		}
		if has(facts, "sgx", tee.Host) {
			r.note = &probe.Problem{Err: errors.New("the counts exclude the time in production enclaves, in which SGX stops the counters"), Blind: true}
		}
		return r, nil
	},
}

// WhenNarrowed reports whether sources emit a metric only for the processes that they
// are narrowed to.
func WhenNarrowed(d *metric.Desc) bool {
	return slices.Contains(d.Labels, "pid") ||
		slices.ContainsFunc(llcSets, func(s perfSet) bool { return slices.Contains(s.process, d) })
}

// has reports whether a TEE is active in a role.
func has(facts []tee.Facts, kind string, role tee.Role) bool {
	return slices.ContainsFunc(facts, func(f tee.Facts) bool { return f.Kind == kind && f.Role == role && f.Active })
}

// perfProblem explains an error of perf_event_open(2).
func perfProblem(h *host.Host, facts []tee.Facts, err error) error {
	p := &probe.Problem{Err: err}
	switch {
	case errors.Is(err, unix.ENOSYS):
		return probe.NotHere("the kernel has no perf events (CONFIG_PERF_EVENTS)")
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENXIO):
		_, _, ecx, _ := h.CPUID(1, 0)
		const hypervisor = 1 << 31
		why := "the kernel does not support this CPU's performance counters"
		switch {
		case has(facts, "tdx", tee.Guest):
			why = "this trust domain was created without the attribute PERFMON, so it has no performance counters"
		case ecx&hypervisor != 0:
			why = "the hypervisor exposes no cache counters to this VM"
		}
		p.Err, p.Blind = fmt.Errorf("%s: %w", why, err), true
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		if level, rerr := h.ReadString("/proc/sys/kernel/perf_event_paranoid"); rerr == nil {
			p.Err = fmt.Errorf("%w (kernel.perf_event_paranoid is %s)", err, level)
		}
		p.Remedy = "run as root, or grant CAP_PERFMON, or set kernel.perf_event_paranoid to 0; in a container, the seccomp filter must allow perf_event_open"
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL):
		p.Remedy = "another program may hold the counters exclusively (NMI watchdog, a pinned perf event): stop it"
	default:
		p.Remedy = "report this message with the kernel's version"
	}
	return p
}
