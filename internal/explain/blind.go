package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// blind lists what could not be measured and what the tree leaves out.
func (l *Ledger) blind(t Tree) []string {
	out := []string{}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !l.has(CPUSamples) {
		say("The sampling clock did not see this process: calls and faults are known by their price alone, and user code is in the unexplained rest.")
	} else if l.tick["cpu"] <= 0 {
		say("The sampling clock's interval was not stored: intervals leave out that there are few samples.")
	}
	if !l.has(WaitSamples) {
		say("Waiting threads were not sampled: waiting for locks and disks is not part of the active time, and waiting for a CPU is not known.")
	}
	if _, ok := l.unit("syscall"); !ok {
		say("System calls are not calibrated on this machine: entering the kernel is not separated from the calls' own work.")
	}
	if _, ok := l.unit("syscall_unseen"); !ok && l.has(CPUSamples) && l.has(CallCount) {
		say("The part of each call that the sampling clock takes for user code is not calibrated: calls are shown slightly too small.")
	}
	if _, ok := l.unit("fault_unseen"); !ok && l.has(CPUSamples) && l.faultRate() > 0 {
		say("The part of each page fault that the sampling clock takes for user code is not calibrated: page faults are shown slightly too small.")
	}
	if l.repriced {
		say("What events cost was calibrated anew in this window, as after another kernel or microcode: prices are means of the old and the new ones. Ask about a window since then.")
	}
	if !l.has(CallCount) {
		say("System calls were not counted: calls have no rate and no unit cost.")
	}
	for _, source := range slices.Sorted(maps.Keys(l.coverage)) {
		if slices.Contains([]string{"syscalls", "switches", "faults"}, source) {
			say("Source %s counted %s of the time, to stay within the budget: its rates are estimates.", source, metric.Percent(l.coverage[source]))
		}
	}
	for _, source := range slices.Sorted(maps.Keys(l.hiddenSources)) {
		say("Source %s saw nothing, so its rows are missing, not zero: %s.", source, l.hiddenSources[source])
	}
	asleep := labelIs("state", "sleep")
	slept := l.total(WaitSamples, asleep)
	if locks := l.total(WaitSamples, func(e Event) bool { return asleep(e) && strings.HasPrefix(e.Label("call"), "futex") }); locks > t.Active.Value {
		say("%s threads slept in futex calls that are not known to be locks: idle workers, condition variables, or locks of a runtime such as Go or Java.", metric.Count(locks))
	} else if slept > t.Active.Value {
		say("%s threads slept, waiting for work; that is not part of the active time.", metric.Count(slept))
	}
	if l.present < mostMissing {
		say("%s of this window's readings are missing, as when the monitor was down: times and rates may be too low by as much. Shares are of what was seen.",
			metric.Percent(1-l.present))
	}
	if l.stolen > leastSteal {
		say("The host took %s of this machine's CPU time; it is in the rows of whatever ran then.", metric.Percent(l.stolen))
	}
	return out
}

// mostMissing is the share of a window's readings below which rates get a remark. Some minutes have one reading more
// than others.
const mostMissing = 0.9

// leastSteal is the share of CPU time taken by the host above which rates get a remark.
const leastSteal = 0.01
