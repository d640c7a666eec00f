package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/teescope/teescope/internal/stats"
)

// rounds is how often each job is run; a run of the common kind has seven windows
// of a millisecond, in five batches each.
const rounds = 3

// leastBatches are needed for a spread; a round that is complete has as many or more.
const leastBatches = 20

// windows are the last words of a job that is measured in timed windows (see
// workloads/micro/measure.h): seven of a millisecond, as many operations as fit,
// no warm-up but that of finding their number. The word in front of a job is the
// clock (workloads/micro/calm.c).
var windows = []string{"7", "1", "0", "0"}

// jobs are the runs of the worker, by name.
var jobs = map[string][]string{
	"null":    timed("thread", "syscall", "null"),
	"read":    timed("thread", "fault", "read"),
	"write":   timed("thread", "syscall", "fault"),
	"copy":    timed("thread", "fault", "copy"),
	"execute": timed("thread", "fault", "execute"),
	"file":    timed("thread", "fault", "file"),
	"page":    timed("thread", "memory", "copy", "8192"),
	"cpuid":   timed("thread", "cpuid"),
	"calls":   timed("thread", "futex", "calls"),
	"same":    timed("process", "wakeup", "futex", "same", "1"),
	"cross":   timed("wall", "wakeup", "futex", "cross", "1"),
	"wake":    {"wall", "futex", "wake", "cross", "20", "20"},
	// What samples find, of the null call and of the write.
	"sampled null":  {"thread", "sampled", "null", "70", "53000"},
	"sampled write": {"thread", "sampled", "write", "70", "53000"},
}

func timed(args ...string) []string { return slices.Concat(args, windows) }

// event is a unit and how it is made from what the jobs measured.
type event struct {
	name, method string
	unit         func(*worker) (Unit, error)
}

// events are the units, in the order in which reports show them. Those of page
// faults are named after the causes of tee_page_faults_total.
var events = []event{
	{"syscall", "the least system call (getppid) over and over: the way into the kernel and back, which is all of a call that its own work does not cost", direct("null")},
	{"syscall_unseen", "the share of a null call's time in which the CPU clock's samples find the program and not the kernel, as the processor leaves a call with interrupts off, less the program's loop", unseen("null")},
	{"fault_no_page_found", "reading a fresh page of memory, which maps the page of zeros", direct("read")},
	{"fault_write", "writing to a fresh page of memory, which finds and clears a page", direct("write")},
	{"fault_unseen", "the share of such a fault's time in which the CPU clock's samples find the program and not the kernel, as the processor leaves a fault of any cause with interrupts off, less the program's loop", unseen("write")},
	{"fault_write_protection", "writing to a page that is shared since a fork, which copies it", direct("copy")},
	{"fault_instruction_fetch", "running code of a file in memory, which maps it with the 15 pages around it", direct("execute")},
	{"fault_protection", "", absent("a program can cause it only by touching memory that it must not, and then gets a signal")},
	{"fault_file", "reading a file in memory, which maps the page with the 15 around it", direct("file")},
	{"switch_same_core", "half a round trip of two threads that wake each other (futex) on one CPU, less the two calls' own cost: the wake-up and the switch", switches("same", 1)},
	{"switch_cross_core", "half a round trip of two threads that wake each other (futex) on two cores, less one call's own cost: the time until the other core runs the thread, most of which is no CPU time", switches("cross", 0.5)},
	{"wakeup", "what a call that wakes a thread asleep on another core (for 20 us) costs the caller beyond the same call with nobody to wake", direct("wake")},
	{"copy_page", "copying 4 KiB within the nearest cache: the least that a bounce buffer adds for each page", direct("page")},
	{"vm_exit_cpuid", "the instruction CPUID, which the hypervisor answers: the least exit from a virtual machine", direct("cpuid")},
	{"enclave_transition", "", absent("entering an enclave takes a program of the enclave's own runtime, and none is started for this")},
}

// absent is a unit that no machine's calibration has.
func absent(why string) func(*worker) (Unit, error) {
	return func(*worker) (Unit, error) { return Unit{}, errors.New(why) }
}

// direct is the cost of a job's operation.
func direct(job string) func(*worker) (Unit, error) {
	return func(w *worker) (Unit, error) {
		r, err := w.readings(job)
		if err != nil {
			return Unit{}, err
		}
		u := r.unit()
		return u, u.check()
	}
}

// switches is half a round trip less a part of the two calls that an end of it makes.
func switches(job string, part float64) func(*worker) (Unit, error) {
	return func(w *worker) (Unit, error) {
		trip, err := w.readings(job)
		if err != nil {
			return Unit{}, err
		}
		calls, err := w.readings("calls")
		if err != nil {
			return Unit{}, err
		}
		u, own := trip.unit(), calls.unit()
		u.Seconds = u.Seconds/2 - part*own.Seconds
		u.Low, u.High = u.Low/2-part*own.High, u.High/2-part*own.Low
		return u, u.check()
	}
}

// unseen is the part of a job's operation that samples of its CPU time do not find
// in the kernel: it combines the binomial error of their share with the spread of
// the operation's cost.
func unseen(job string) func(*worker) (Unit, error) {
	return func(w *worker) (Unit, error) {
		s, err := w.readings("sampled " + job)
		if err != nil {
			return Unit{}, err
		}
		r, err := w.readings(job)
		if err != nil {
			return Unit{}, err
		}
		n := float64(s.user + s.kernel + s.other)
		if n < leastSamples {
			return Unit{}, fmt.Errorf("the CPU clock gave only %g samples, want %d", n, leastSamples)
		}
		p := float64(s.user) / n
		off := 1.96 * math.Sqrt(p*(1-p)/n)
		whole, loop := r.unit(), stats.Median(s.loop)
		u := Unit{Seconds: p*whole.Seconds - loop, Low: max(0, p-off)*whole.Low - loop, High: min(1, p+off)*whole.High - loop,
			Batches: whole.Batches, Operations: s.operations}
		return u, u.check()
	}
}

// leastSamples bring the standard error of a share below 1.6 points.
const leastSamples = 1000

// unit is the spread of what was read.
func (r *readings) unit() Unit {
	x := slices.Sorted(slices.Values(r.seconds))
	cut := int(0.025 * float64(len(x))) // that many lie outside on either side
	return Unit{Seconds: stats.Median(x), Low: x[cut], High: x[len(x)-1-cut], Batches: len(x), Operations: r.operations}
}

// check refuses what is no cost, as a difference of two measurements may be, and
// leaves no bound below 0.
func (u *Unit) check() error {
	if !(u.Seconds > 0) || math.IsInf(u.High, 0) {
		return fmt.Errorf("it was too small to be told from nothing (%.3g s, between %.3g and %.3g)", u.Seconds, u.Low, u.High)
	}
	u.Low = max(0, u.Low)
	return nil
}
