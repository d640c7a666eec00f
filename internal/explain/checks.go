package explain

import "fmt"

// bookkeeping is the relative difference allowed between two accounts of the same time: the scheduler books a
// thread's time when it leaves its CPU, and the clock samples it at its ticks.
const bookkeeping = 0.03

// stolenShare returns the CPU time taken by the host, relative to the time it left; 0 if it is unknown.
func (l *Ledger) stolenShare() float64 {
	if !(l.stolen > 0 && l.stolen < 1) {
		return 0
	}
	return l.stolen / (1 - l.stolen)
}

// checks compares the explained time with independent measurements. A failed check is a fault of the explanation, not
// of the process, and is shown with it.
func (l *Ledger) checks(rows []row) []Check {
	out := []Check{}
	add := func(holds bool, explained, measured Amount, format string, args ...any) {
		out = append(out, Check{Text: fmt.Sprintf(format, args...), Explained: explained.Value, Measured: measured.Value, Holds: holds})
	}
	if l.has(CPUSamples) && l.has(CPUAccount) {
		clock, account := l.sampled("cpu", l.total(CPUSamples, everything)), l.rated("switches", l.kindlessTotal(CPUAccount))
		// The clock ticks while the host has taken the CPU. The scheduler may know that time and leave it out.
		slack := (bookkeeping + l.stolenShare()) * account.Value
		add(clock.overlaps(amountAround(account.Value, account.lowSide()+slack, account.highSide()+slack)), clock, account,
			"CPU time by the sampling clock, against the scheduler's CPU time")
	}
	var kernel, calls, hidden, taken Amount
	for _, row := range rows {
		isCall := row.event.Metric == CallCount
		if isCall || row.ID == "faults" || row.within == "faults" {
			kernel = kernel.plus(row.Time)
		}
		if isCall && len(row.Rows) > 0 {
			entry := row.Rows[0].Time
			calls = calls.plus(entry)
			if entry.Low > row.Time.High {
				add(false, entry, row.Time, "calibrated cost of entering and leaving %s, against the time measured in it", row.event.Label("syscall"))
			}
		}
		if row.ID == "transitions" && row.Unit != nil && l.has(CPUSamples) {
			user := l.sampled("cpu", l.total(CPUSamples, labelIs("mode", "user")))
			add(row.Time.Low <= user.High, row.Time, user, "calls into and out of enclaves at their cost, against the time sampled outside the kernel")
		}
		if row.ID == "faults" {
			for _, part := range row.Rows {
				taken = taken.plus(part.Time)
			}
			if len(row.Rows) > 0 && l.has(CPUSamples) {
				add(taken.Low <= row.Time.High, taken, row.Time, "page faults at their calibrated cost, against the time measured in them")
			}
		}
	}
	if !l.has(CPUSamples) {
		return out // only prices, nothing to compare them with
	}
	if driver := l.counts(EnclaveFaults, max(0, l.kindlessTotal(EnclaveFaults))).times(l.faultTime); driver.Value > 0 {
		sampled := l.sampled("cpu", l.total(CPUSamples, labelIs("mode", "fault")))
		add(driver.Low <= (1+bookkeeping+l.stolenShare())*sampled.High, driver, sampled, "faults on enclave memory as timed by the SGX driver, against the time sampled in page faults")
	}
	if bounced := l.counts(ProcessBounceTime, l.total(ProcessBounceTime, everything)); bounced.Value > 0 {
		sampled := l.sampled("cpu", l.total(CPUSamples, func(e Event) bool { return e.Label("mode") != "user" }))
		add(bounced.Low <= (1+bookkeeping+l.stolenShare())*sampled.High, bounced, sampled, "measured time in bounce buffers in the process's own calls, against the time sampled in the kernel")
	}
	kernel = kernel.plus(l.sampled("cpu", l.total(CPUSamples, func(e Event) bool {
		return unattributed(e) || e.Label("mode") == "kernel" && inRegion(e)
	})))
	if calls.Value > 0 {
		price := calls.plus(taken)
		add(price.Low <= kernel.High, price, kernel, "system calls and page faults at their calibrated cost, against all time measured in the kernel")
	}
	if cost, ok := l.unit("switch_same_core"); ok && l.kindlessTotal(SwitchCount) > 0 {
		price := l.rated("switches", l.kindlessTotal(SwitchCount)).times(cost)
		add(price.Low <= kernel.High, price, kernel, "context switches at their calibrated cost, against the time measured in the kernel")
	}
	if unseen, ok := l.unit("syscall_unseen"); ok {
		for _, e := range l.events(CallCount) {
			hidden = hidden.plus(l.rated("syscalls", l.counted[e]).times(unseen))
		}
	}
	if unseen, ok := l.unit("fault_unseen"); ok && l.faultRate() > 0 {
		hidden = hidden.plus(l.rated("faults", l.faultRate()).times(unseen))
	}
	if user := l.sampled("cpu", l.counted[event(CPUSamples, "mode", "user")]); hidden.Value > 0 {
		add(hidden.Low <= user.High, hidden, user, "calibrated part of system calls and page faults that counts as user code, against the time sampled in user code")
	}
	return out
}
