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
		say("There are no CPU samples of this process: calls and faults are shown with their calibrated cost only, and user code is part of the unexplained rest.")
	} else if l.tick["cpu"] <= 0 {
		say("The sampling period was not stored, so the intervals of the shares do not include the sampling error.")
	}
	if !l.has(WaitSamples) {
		say("Waiting threads were not sampled, so the active time does not include waiting for locks, disks and CPUs.")
	}
	if _, ok := l.unit("syscall"); !ok {
		say("System calls are not calibrated on this machine, so entering the kernel is not separated from the calls' own work.")
	}
	if _, ok := l.unit("syscall_unseen"); !ok && l.has(CPUSamples) && l.has(CallCount) {
		say("Part of each system call counts as user code. That part is not calibrated, so calls are shown slightly too small.")
	}
	if _, ok := l.unit("fault_unseen"); !ok && l.has(CPUSamples) && l.faultRate() > 0 {
		say("Part of each page fault counts as user code. That part is not calibrated, so page faults are shown slightly too small.")
	}
	if l.repriced {
		say("The costs of events were calibrated again in this window, as after a new kernel or microcode, so they are means of old and new costs. Choose a window that begins later.")
	}
	if !l.has(CallCount) {
		say("System calls were not counted, so they have no rate and no cost of one call.")
	}
	for _, source := range slices.Sorted(maps.Keys(l.coverage)) {
		if slices.Contains([]string{"syscalls", "switches", "faults"}, source) {
			say("Source %s counted %s of the time, to stay within the budget, so its rates are estimates.", source, metric.Percent(l.coverage[source]))
		}
	}
	for _, source := range slices.Sorted(maps.Keys(l.hiddenSources)) {
		say("Source %s has no data, so its rows are missing, not zero: %s.", source, l.hiddenSources[source])
	}
	asleep := labelIs("state", "sleep")
	slept := l.total(WaitSamples, asleep)
	if locks := l.total(WaitSamples, func(e Event) bool { return asleep(e) && strings.HasPrefix(e.Label("call"), "futex") }); locks > t.Active.Value {
		say("%s threads slept in futex calls that do not look like locks: idle workers, condition variables, or locks of a runtime such as Go or Java.", metric.Count(locks))
	} else if slept > t.Active.Value {
		say("%s threads slept while waiting for work, which is not part of the active time.", metric.Count(slept))
	}
	if l.present < mostMissing {
		say("%s of the readings in this window are missing, for example because the monitor was down. Times and rates may be too low by as much; shares are those of the readings that exist.",
			metric.Percent(1-l.present))
	}
	if l.stolen > leastSteal {
		say("The host took %s of this machine's CPU time (steal). That time counts for the threads that it interrupted.", metric.Percent(l.stolen))
	}
	return out
}

// mostMissing is the share of a window's readings below which rates get a remark. Some minutes have one reading more
// than others.
const mostMissing = 0.9

// leastSteal is the share of CPU time taken by the host above which rates get a remark.
const leastSteal = 0.01
