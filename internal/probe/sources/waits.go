package sources

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var sampledWaits = counter("tee_sampled_wait_seconds_total",
	"Time in seconds since the monitor started that threads were not on a CPU, summed over the threads of a process name, by what they waited for: a CPU (cpu), something uninterruptible such as a disk (disk), a lock in user space (lock: in futex without a time limit, on a word marked locked with waiters), anything else (sleep), and by the system call that they were in. From walks over all threads at random moments; each walk counts for the time since the previous walk (BPF iterator over tasks).",
	"process", "state", "call")

var (
	lockWaits = counter("tee_sampled_lock_wait_seconds_total",
		"Part of the time in state lock of tee_sampled_wait_seconds_total, by lock: the variable that holds the lock, with its library; or else \"in\" and the function that takes the lock; or else the kind of memory. For files outside of package folders (such as /usr), only the program or library and the address in it. Locks of one name are added up. At most eight locks per process name, each after threads were found waiting for it three times; all other time is other.",
		"process", "lock")
	fileWaits = counter("tee_sampled_file_wait_seconds_total",
		"Part of the time in state disk of tee_sampled_wait_seconds_total in calls that read, write or synchronise a file, by file: device (MAJOR:MINOR) and inode, as stat(1) prints them, except on btrfs and overlay file systems, which show other devices. At most eight pairs of file and call per process name, each after threads were found waiting for it three times; all other time is other.",
		"process", "call", "device", "inode")
	unitTimes = counter("tee_sampled_unit_seconds_total",
		"Time in seconds that threads were on a CPU (running), or waited as in tee_sampled_wait_seconds_total (cpu, disk, lock), of process names that run in several service units or containers, by unit, since several units were found. Units are as in /proc/PID/cgroup, and empty for processes outside of both. A program in Gramine has a unit of its own, such as Gramine (redis-server), as the kernel calls all of them exe. Other process names have no such series. From the same walks; needs cgroup v2. At most eight units per name; the rest is other.",
		"process", "unit", "state")
)

var waits = probe.Source{
	Name:    "waits",
	Doc:     "Time that threads wait, by process, cause and system call, from samples",
	Metrics: []*metric.Desc{sampledWaits, lockWaits, fileWaits, unitTimes, sampleInterval},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the program; before Linux 5.19 for every walk", Open: true},
		{Capability: "cap_perfmon", For: "to load a program that reads the kernel's structures", Open: true},
		{Capability: "cap_sys_ptrace", For: "to name the locks of other users' processes, from their memory maps, program files and stacks", Optional: true},
	},
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF, x86-64 only",
	Cost:    "a walk costs 0.5 µs per thread right after another walk, and 1 to 2 µs at the usual interval, on a machine with 170 threads (Linux 6.18 in a VM, BenchmarkWalk). There are 20 walks a second, or fewer to stay within a limit: 0.05 % of one core; 0.2 % for 30 s after a walk found a thread that waited for a CPU or a disk; 0.5 % after a walk found one that waited for a lock",
	Blind: "the threads of teescope's own process, which are awake because of the walk (tee_process_stat_wait_seconds_total has their waiting for a CPU); what happens between two walks; who holds a lock; the name of a lock where the program's file has no symbols, and the function that takes it where the compiler inlined it or the stack holds an older call; waiting for a lock by spinning or with a time limit does not count as lock, nor does a lock in a local variable of the waiting function; the unit of processes outside of teescope's own cgroup namespace. Wrongly counted as a lock: a barrier of glibc after two threads have passed it, and a condition variable of glibc 2.41 and later while its word of signals is 2. " +
		"Waiting for requests of io_uring, the futex of 32-bit programs. Everything where teescope has a PID namespace of its own, in which it would see its own threads only. disk includes everything uninterruptible: also locks in the kernel, and the parent of a vfork",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if runtime.GOARCH != "amd64" {
			return nil, probe.NotHere("samples of waiting on %s: the arguments of system calls are known on x86-64 only", runtime.GOARCH)
		}
		w, err := bpf.OpenWaits(h, bpf.Names{Lock: lockNames{h}.name, Unit: func(pid int, group uint64) (string, error) { return unitOf(h, pid, group) },
			Apart: machine.HoldsPrograms, Program: func(pid int, group uint64) (string, error) { return programOf(h, pid, group) }})
		if err != nil {
			return nil, err
		}
		return &waiting{Waits: w}, nil
	},
}

// waiting is the Reader of waits.
type waiting struct {
	*bpf.Waits
	last     bpf.Walked
	interval float64 // mean time between walks of the last round that had any
}

// FromZero implements probe.FromZero: walks begin when the source is opened.
func (w *waiting) FromZero() {}

// Read implements probe.Reader.
func (w *waiting) Read(_ context.Context, emit func(metric.Sample)) error {
	out := emitter(emit)
	folded, err := w.Waited(func(k bpf.Wait, seconds float64) {
		out.send(sampledWaits, seconds, k.Process, k.State, k.Call)
	})
	w.WaitedFor(func(k bpf.WaitedFor, seconds float64) {
		if k.State == "lock" {
			out.send(lockWaits, seconds, k.Process, k.Lock)
		} else {
			out.send(fileWaits, seconds, k.Process, k.Call, k.Device, k.Inode)
		}
	})
	w.InUnits(func(k bpf.UnitTime, seconds float64) { out.send(unitTimes, seconds, k.Process, k.Unit, k.State) })
	walked := w.Walked()
	if n := walked.Walks - w.last.Walks; n > 0 {
		w.interval = (walked.Seconds - w.last.Seconds) / float64(n)
		w.last = walked
	}
	if w.interval > 0 {
		out.send(sampleInterval, w.interval, "wait")
		folded /= w.interval // as a number of samples
	}
	out.send(probe.Folded, folded)
	if err != nil {
		return probe.Denied(fmt.Errorf("sample what threads wait for: %w", err),
			"before Linux 5.19 a walk needs CAP_BPF: start teescope as root, with --privileges least")
	}
	return nil
}

// unitOf returns the unit or container of a control group, "" for none, from the cgroup file of a process that was found in it.
// That process may have moved since, or its id may be another's: the name counts if the group of this name has that inode.
func unitOf(h *host.Host, pid int, group uint64) (string, error) {
	file := fmt.Sprintf("/proc/%d/cgroup", pid)
	groups, err := h.ReadString(file)
	if err != nil {
		return "", err
	}
	for _, m := range machine.ParseMemberships(groups) {
		// A path with ".." is outside of this cgroup namespace: the mount does not show it.
		if m.Controllers != nil || strings.Contains(m.Path+"/", "/../") {
			continue
		}
		if !h.IsLocal() || isGroup(h, m.Path, group) {
			return machine.HomeOf("0::" + m.Path), nil
		}
	}
	return "", fmt.Errorf("find control group %d in %s: %w", group, file, fs.ErrNotExist)
}

// programOf returns the unit of a process of a runtime, with the program that it runs. What it runs is read first: if the process
// has ended in between, its group is not found.
func programOf(h *host.Host, pid int, group uint64) (string, error) {
	line, err := h.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "", err
	}
	exe, _ := h.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // it may not be followed; the command line often says enough
	unit, err := unitOf(h, pid, group)
	if err != nil {
		return "", err
	}
	return machine.HomeIn(unit, exe, line), nil
}

// isGroup reports whether a path of cgroup v2 is the control group with an inode. On hybrid systems v2 is mounted below v1.
func isGroup(h *host.Host, path string, group uint64) bool {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if info, err := h.Stat(mount + path); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Ino == group {
				return true
			}
		}
	}
	return false
}
