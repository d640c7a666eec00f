package explain

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Uncaused says why no cause of a comparison's difference may be named, "" if one may. A cause needs a verdict that the
// arms differ, counts of the workload's own threads, a share whose interval ends below the whole, and more of the difference
// explained than not.
func (k *Catalog) Uncaused(e *result.Experiment, c *result.Comparison) string {
	if k == nil {
		k = &Catalog{}
	}
	switch {
	case !c.Primary:
		return "only the primary metric has a verdict"
	case c.Verdict != stats.Cost && c.Verdict != stats.Gain:
		return fmt.Sprintf("the verdict is %s", c.Verdict)
	case c.CostLow == nil || c.CostHigh == nil:
		return "the ratio has no interval"
	}
	cause := k.largest(RowsOf(e.Attribution, c))
	switch {
	case cause == nil && (ofMonitor(e, c.Treatment) || ofMonitor(e, c.Baseline)):
		return result.MonitorThreads
	case cause == nil:
		return ""
	}
	tree, share := k.tree(e, c), Amount{}
	for _, r := range tree.flat() {
		if x := k.named(r.Cause); x != nil && x.key(r.ID) == cause.key {
			share = share.plus(r.Share)
		}
	}
	rest := tree.UnexplainedShare.Value
	switch {
	case share.High > 1+leastOff:
		return fmt.Sprintf("the largest cause's share is %s, so a count or a cost of one event is too uncertain", share.percent())
	case rest > 1-rest+leastOff:
		return fmt.Sprintf("%s of the difference is unexplained", metric.Percent(rest))
	}
	return ""
}

// leastOff is what sums of shares may be off.
const leastOff = 1e-6

// flat returns the tree's rows, with those that were folded into one.
func (t Tree) flat() []Row {
	var out []Row
	for _, r := range t.Rows {
		if r.ID == SmallCounters {
			out = append(out, r.Rows...)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// ofMonitor reports whether the counters of an arm's runs are those of a virtual machine's monitor. Older documents only
// have its name.
func ofMonitor(e *result.Experiment, arm string) bool {
	for i := range e.Runs {
		if e.Runs[i].Env != arm {
			continue
		}
		for _, c := range e.Runs[i].Counters {
			if c.Note == result.MonitorThreads || strings.HasPrefix(c.Labels["process"], "qemu-system") {
				return true
			}
		}
	}
	return false
}

// LeaveOutMonitors takes shares and causes from the rows of comparisons in which the counters are of a virtual machine's
// monitor, in a document whose rows are the caller's own. Events of the TEE or of the machine, such as exits of the guest,
// stay: they are not those of a thread.
func LeaveOutMonitors(e *result.Experiment) {
	monitors := map[string]bool{}
	for i := range e.Environments {
		monitors[e.Environments[i].ID] = ofMonitor(e, e.Environments[i].ID)
	}
	for i := range e.Attribution {
		a := &e.Attribution[i]
		if !monitors[a.Baseline] && !monitors[a.Treatment] {
			continue
		}
		a.Unexplained = nil // it is what all rows leave
		if ev := eventOf(a); !ev.tee() && ev.Metric != CPUAccount {
			a.Share, a.Cause, a.Reason = nil, "", result.MonitorThreads
		}
	}
}
