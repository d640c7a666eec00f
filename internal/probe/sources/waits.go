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
	"Time in seconds since the monitor started that threads were not on a CPU, summed over the threads of a process name, by what they waited for: a CPU (cpu), something uninterruptible such as a disk (disk), a lock in user space (lock: in futex without a time limit, for a word that says locked and waited for), anything else (sleep), and by the system call that they were in; walks over all threads at random moments, each for the time since the one before (BPF iterator over tasks).",
	"process", "state", "call")

var waits = probe.Source{
	Name:    "waits",
	Doc:     "time that threads wait, by process, by what for and in which system call; from samples",
	Metrics: []*metric.Desc{sampledWaits, sampleInterval},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the program; before Linux 5.19 for every walk", Open: true},
		{Capability: "cap_perfmon", For: "to load a program that reads the kernel's structures", Open: true},
	},
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF, x86-64 only",
	Cost:    "a walk takes 0.5 us a thread right after another, and 1 to 2 us at its usual distance, of a machine with 170 threads (Linux 6.18 in a VM, BenchmarkWalk); 20 walks a second, fewer where they would take more than 0.2 % of one core, or 0.5 % while and until 30 s after threads were seen to wait for a lock",
	Blind: "what happens between two walks, and who holds a lock; waiting for a lock by spinning or with a time limit is not lock, nor is it where the lock is a variable of the very function that waits for it. Not a lock, though it looks like one: a barrier of glibc after two threads have passed it, and a condition variable of glibc 2.41 and later while its word of signals is 2. " +
		"Waiting for requests of io_uring, the futex of 32-bit programs, threads of PID namespaces that teescope's own cannot see. disk is all that is uninterruptible: also locks in the kernel, and the parent of a vfork",
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

// FromZero implements probe.FromZero: walks begin with the opening.
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
		folded /= w.interval // how many samples that were
	}
	out.send(probe.Folded, folded)
	if err != nil {
		return &probe.Problem{Err: fmt.Errorf("sample what threads wait for: %w", err),
			Remedy: "before Linux 5.19 a walk takes CAP_BPF: start teescope as root, with --privileges least"}
	}
	return nil
}
