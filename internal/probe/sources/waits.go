package sources

import (
	"context"
	"fmt"
	"runtime"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var sampledWaits = counter("tee_sampled_wait_seconds_total",
	"Time in seconds since the monitor started that threads were not on a CPU, summed over the threads of a process name, by what they waited for: a CPU (cpu), something uninterruptible such as a disk (disk), a lock in user space (lock: in futex without a time limit, on a word marked locked with waiters), anything else (sleep), and by the system call that they were in. From walks over all threads at random moments, each standing for the time since the previous one (BPF iterator over tasks).",
	"process", "state", "call")

var waits = probe.Source{
	Name:    "waits",
	Doc:     "Time that threads wait, by process, cause and system call; from samples",
	Metrics: []*metric.Desc{sampledWaits, sampleInterval},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the program; before Linux 5.19 for every walk", Open: true},
		{Capability: "cap_perfmon", For: "to load a program that reads the kernel's structures", Open: true},
	},
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF, x86-64 only",
	Cost:    "a walk costs 0.5 µs a thread right after another walk, and 1 to 2 µs at the usual interval, on a machine with 170 threads (Linux 6.18 in a VM, BenchmarkWalk); 20 walks a second, fewer where they would cost more than 0.05 % of one core, or 0.2 % until 30 s after a walk found a thread that waited for a CPU or a disk, 0.5 % after one for a lock",
	Blind: "what happens between two walks, and who holds a lock; waiting for a lock by spinning or with a time limit does not count as lock, nor does a lock in a local variable of the waiting function. Counted as a lock, though it is none: a barrier of glibc after two threads have passed it, and a condition variable of glibc 2.41 and later while its word of signals is 2. " +
		"Waiting for requests of io_uring, the futex of 32-bit programs. Everything where teescope has a PID namespace of its own, in which it would see its own threads only. disk includes everything uninterruptible: also locks in the kernel, and the parent of a vfork",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if runtime.GOARCH != "amd64" {
			return nil, probe.NotHere("samples of waiting on %s: the arguments of system calls are known on x86-64 only", runtime.GOARCH)
		}
		w, err := bpf.OpenWaits(h)
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
