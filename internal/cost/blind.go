package cost

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/analysis"
)

// blind says what could not be seen, and what the tree leaves out.
func (r *reading) blind(t Tree) []string {
	out := []string{}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(r.cpu) == 0 {
		say("No sampling clock saw the process, so calls and faults are known by their price alone, and the process's own computing is in the unexplained rest.")
	} else if r.tick["cpu"] <= 0 {
		say("How fine the sampling clock is was not stored: intervals do not say how few samples there are.")
	}
	if len(r.waits) == 0 {
		say("Threads that wait were not looked at: time spent waiting for locks and disks is no part of the active time, and how long they waited for a CPU is not known.")
	}
	if _, ok := r.unit("syscall"); !ok {
		say("System calls are not calibrated on this machine: what entering the kernel costs is not told from what the calls do.")
	}
	if _, ok := r.unit("syscall_unseen"); !ok && len(r.cpu) > 0 && len(r.calls) > 0 {
		say("How much of each call the sampling clock takes for the process's own computing is not calibrated: calls are shown somewhat too small.")
	}
	if _, ok := r.unit("fault_unseen"); !ok && len(r.cpu) > 0 && r.faultRate() > 0 {
		say("How much of each page fault the sampling clock takes for the process's own computing is not calibrated: page faults are shown somewhat too small.")
	}
	if len(r.calls) == 0 {
		say("System calls were not counted: calls have no rate and no unit cost.")
	}
	for _, source := range slices.Sorted(maps.Keys(r.coverage)) {
		if slices.Contains([]string{"syscalls", "switches", "faults"}, source) {
			say("Source %s counted in %s %% of the time, to stay within the budget; its rates are estimates.", source, analysis.Count(r.coverage[source]*100))
		}
	}
	slept := total(r.waits, func(d doing) bool { return d.mode == "sleep" })
	if locks := total(r.waits, func(d doing) bool { return d.mode == "sleep" && strings.HasPrefix(d.call, "futex") }); locks > t.Active.Value {
		say("%s threads slept in futex calls that are not known to be locks: idle workers, condition variables, or locks of a runtime of its own (Go, Java).", analysis.Count(locks))
	} else if slept > t.Active.Value {
		say("%s threads slept, waiting for work; that is no part of the active time.", analysis.Count(slept))
	}
	if r.present < mostMissing {
		say("%s %% of the readings of this window are missing, as while the monitor was down: what happened then may not be counted, so that times and rates, "+
			"a second and a request, may be too low by as much. Shares are of what was seen.", analysis.Count((1-r.present)*100))
	}
	if r.stolen > leastSteal {
		say("The host took %s %% of the machine's CPU time; it is in the rows of whatever ran then.", analysis.Count(r.stolen*100))
	}
	return out
}

// mostMissing is the part of a window's readings that has to be there for rates to be said
// without a word; some minutes have a reading more than others.
const mostMissing = 0.9

// leastSteal is the share of CPU time that a host may take unsaid.
const leastSteal = 0.01
