package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/cause"
	"github.com/teescope/teescope/internal/result"
)

// The counters of time and those that are priced.
const (
	cpuSeconds  = "tee_process_cpu_seconds_total"
	waitSeconds = "tee_sampled_wait_seconds_total"
	syscalls    = "tee_syscalls_total"
	switches    = "tee_context_switches_total"
	pageFaults  = "tee_page_faults_total"
)

// leastChange is the part by which the time of an operation must differ to be
// divided among causes: shares of less are shares of noise.
const leastChange = 0.02

// price puts what single events cost on the rows of one contest, and divides by the
// time that an operation takes longer. That is CPU time, in which all prices are,
// and the time in which its threads wait for locks and disks, which is measured.
func (p *pass) price(rows []result.Attribution) []result.Attribution {
	rows, hidden := p.dearer(rows)
	find := func(counter string) *result.Attribution {
		if i := slices.IndexFunc(rows, func(a result.Attribution) bool { return a.Counter == counter }); i >= 0 {
			return &rows[i]
		}
		return nil
	}
	active, was := math.NaN(), 0.0
	if cpu := find(cpuSeconds); cpu != nil {
		active, was = cpu.Delta, *cpu.Base
	}
	kinds := map[string]bool{} // counters of which kinds are there, which have the price of their total
	for i := range rows {
		a := &rows[i]
		name, labels, _ := strings.Cut(a.Counter, "{")
		kinds[name] = kinds[name] || labels != ""
		if waiting(a) {
			active, was = active+a.Delta, was+*a.Base
		}
	}
	contended := slices.ContainsFunc(rows, func(a result.Attribution) bool { return waiting(&a) && label(&a, "state") == "lock" && a.Delta > 0 })
	unexplained := 1.0
	var last *result.Attribution
	for i := range rows {
		a := &rows[i]
		if c := causeOf(a, contended); c != nil {
			a.Cause = c.Name
		}
		if why := p.priced(a, kinds, hidden); why != "" {
			a.Reason = strings.TrimPrefix(a.Reason+"; "+why, "; ")
			continue
		}
		switch {
		case math.IsNaN(active):
			a.Reason = "the CPU time of the workload was not counted"
		case math.Abs(active) < leastChange*was || active == 0:
			a.Reason = "the arms take the same time for an operation, on CPUs and waiting"
		default:
			share := *a.Seconds / active
			a.Share, last = &share, a
			unexplained -= share
		}
	}
	if last != nil {
		last.Unexplained = &unexplained
	}
	return rows
}

// mostSeen is the part of an environment's system calls up to which the machine's kernel is
// taken to have none of them, and what it had to be those of the environment itself.
const mostSeen = 0.05

// dearer adds a row for the calls that cost more in the treatment than in the baseline, or
// less, where that was measured and is no spread. Where the treatment's calls are not seen it
// is assumed that it makes those of the baseline; what is seen of it is then a part of what
// they cost.
func (p *pass) dearer(rows []result.Attribution) (all []result.Attribution, hidden bool) {
	i := slices.IndexFunc(rows, func(a result.Attribution) bool { return a.Counter == syscalls })
	if i < 0 {
		return rows, false
	}
	a := rows[i]
	from, to := p.e.Environment(a.Baseline), p.e.Environment(a.Treatment)
	base, treat := from.Call, to.Call
	if sameEnvironment(from, to) { // what differs is what else ran while each was measured
		return rows, false
	}
	if base == nil || treat == nil || base.Seen < 1-mostSeen || base.Low <= treat.High && treat.Low <= base.High {
		return rows, false
	}
	made, each := *a.Base+a.Delta, treat.Seconds-base.Seconds
	if hidden = treat.Seen <= mostSeen; hidden {
		made, a.Reason = *a.Base, "assumed: the arm makes as many system calls as the baseline, which is not seen from outside"
	}
	if treat.Seen > mostSeen && treat.Seen < 1-mostSeen || !(made > 0) {
		return rows, false
	}
	none, low, high := 0.0, treat.Low-base.High, treat.High-base.Low
	took := made * each
	a.Counter, a.Base, a.Delta, a.UnitCost, a.UnitLow, a.UnitHigh, a.Seconds = result.Dearer, &none, made, &each, &low, &high, &took
	return append(rows, a), hidden
}

// sameEnvironment reports whether two arms differ in nothing that could make a system call dearer:
// not in the launcher and its parameters, nor in what was captured.
func sameEnvironment(a, b *result.Environment) bool {
	return a.Launcher == b.Launcher && maps.Equal(a.Params, b.Params) && a.Fingerprint != "" && a.Fingerprint == b.Fingerprint
}

// priced fills in what a row is at its price, or says why it has none.
func (p *pass) priced(a *result.Attribution, kinds map[string]bool, hidden bool) string {
	if a.Counter == result.Dearer {
		return ""
	}
	if waiting(a) {
		took := a.Delta // of its own, as rows are sorted
		a.Seconds = &took
		return ""
	}
	event := eventOf(a.Counter)
	name, labels, _ := strings.Cut(a.Counter, "{")
	switch {
	case hidden && (name == syscalls || name == switches):
		return "it is the environment's own, and a part of what a system call costs in it"
	case name == cpuSeconds:
		return "this is what prices are compared with"
	case event == "" || labels == "" && kinds[name]:
		return "what one costs is not known"
	case p.e.UnitCosts == nil:
		return "not calibrated: the result holds no unit costs"
	}
	i := slices.IndexFunc(p.e.UnitCosts.Units, func(u result.UnitCost) bool { return u.Event == event })
	if i < 0 {
		why := p.e.UnitCosts.Reason
		if why == "" {
			why = event + " is not calibrated on this machine"
		}
		return why
	}
	unit := p.e.UnitCosts.Units[i].Seconds
	took := a.Delta * unit
	a.UnitCost, a.Seconds = &unit, &took
	return ""
}

// Priced reports whether events of a counter have a price where the machine is
// calibrated.
func Priced(counter string) bool { return eventOf(counter) != "" }

// eventOf is the calibrated event that a counter counts, "" for none.
func eventOf(counter string) string {
	name, _, _ := strings.Cut(counter, "{")
	switch name {
	case syscalls:
		return "syscall"
	case switches:
		return "switch_same_core"
	case pageFaults:
		if kind := labelOf(counter, "cause"); kind != "" {
			return "fault_" + kind
		}
	}
	return ""
}

// waiting reports whether a row is time in which threads have work and wait.
func waiting(a *result.Attribution) bool {
	state := label(a, "state")
	return strings.HasPrefix(a.Counter, waitSeconds+"{") && (state == "lock" || state == "disk")
}

func label(a *result.Attribution, name string) string { return labelOf(a.Counter, name) }

// labelOf is the value of a label of a counter in the notation name{label="value"}.
func labelOf(counter, name string) string {
	for _, before := range []string{"{", ","} { // else call is found in syscall
		if _, rest, ok := strings.Cut(counter, before+name+`="`); ok {
			v, _, _ := strings.Cut(rest, `"`)
			return v
		}
	}
	return ""
}

// causeOf is the cause that a row speaks for. That threads wait for locks must be
// seen for calls of futex to be about locks; else they are idle threads that are
// woken, and so are switches.
func causeOf(a *result.Attribution, contended bool) *cause.Cause {
	name, labels, _ := strings.Cut(a.Counter, "{")
	sleeping := cause.ContextSwitchStorm
	if contended {
		sleeping = cause.LockContention
	}
	switch {
	case labels == "" || a.Counter == result.Dearer:
		return nil
	case waiting(a) && label(a, "state") == "lock":
		return cause.LockContention
	case waiting(a) && slices.Contains(cause.SyncCalls, label(a, "call")):
		return cause.Logging
	case waiting(a):
		return cause.IOSaturation
	case name == pageFaults:
		return cause.PageFaultStorm
	case name == switches && label(a, "kind") == "voluntary":
		return sleeping
	case name == switches:
		return cause.ContextSwitchStorm
	case name == syscalls:
		c := cause.OfCall(label(a, "syscall"))
		if c == cause.LockContention {
			c = sleeping
		}
		return c
	}
	return nil
}

// leastNamed is the share of a difference from which a cause is named.
const leastNamed = 0.10

// because says in one sentence what most of a cost goes into and what mends it, or
// of a gain what went away; "" where the interval holds 1 or the rows of its contest
// do not tell. Storms of single calls are causes of their own, others are the sum of
// their rows. Doubts about the ratio are none about what was counted.
func because(c *result.Comparison, rows []result.Attribution) string {
	shares, events := map[string]float64{}, map[string][]string{}
	lead := map[string]*result.Attribution{} // the first, as the dearest come first
	most := ""
	for i := range rows {
		a := &rows[i]
		if a.Cause == "" || a.Share == nil {
			continue
		}
		key := a.Cause
		if key == cause.SyscallStorm.Name {
			key += label(a, "syscall")
		}
		if shares[key] += *a.Share; lead[key] == nil {
			lead[key] = a
		}
		if len(events[key]) < mostEvents && *a.Share >= leastNamed/2 {
			events[key] = append(events[key], more(a))
		}
		if shares[key] > shares[most] {
			most = key
		}
	}
	if c.CostLow == nil || c.CostHigh == nil || shares[most] < leastNamed || *lead[most].Share <= 0 {
		return ""
	}
	what, list := cause.Named(lead[most].Cause), strings.Join(events[most], ", ")
	longer := *lead[most].Seconds > 0 // as its share is positive, both are
	least := ""
	if strings.HasPrefix(lead[most].Counter, syscalls) {
		least = "at least " // a call is priced as one that does nothing
	}
	switch {
	case *c.CostLow > 1 && longer:
		return fmt.Sprintf("Of the time by which an operation takes longer in %s, %s%s goes into %s (%s): %s.", c.Treatment, least, percent(shares[most]), what.What, list, what.Fix)
	case *c.CostHigh < 1 && !longer:
		return fmt.Sprintf("Of the time that an operation saves in %s, %s%s went into %s in %s (%s).", c.Treatment, least, percent(shares[most]), what.What, c.Baseline, list)
	}
	return ""
}

// rowsOf are those of a comparison's contest.
func rowsOf(all []result.Attribution, c *result.Comparison) []result.Attribution {
	return slices.DeleteFunc(slices.Clone(all), func(a result.Attribution) bool {
		return a.Baseline != c.Baseline || a.Treatment != c.Treatment || a.Case != c.Case
	})
}

// mostEvents is how many rows a sentence names.
const mostEvents = 3

// more writes by how much an operation has more of a row's events, and each costs.
func more(a *result.Attribution) string {
	if a.UnitCost == nil {
		return fmt.Sprintf("%+.3g µs asleep in %s per operation", a.Delta*1e6, label(a, "call"))
	}
	name := label(a, "syscall")
	switch event, _, _ := strings.Cut(a.Counter, "{"); event {
	case switches:
		name = label(a, "kind") + " switches"
	case pageFaults:
		name = "page faults (" + strings.ReplaceAll(label(a, "cause"), "_", " ") + ")"
	}
	return fmt.Sprintf("%+.3g %s per operation at %s", a.Delta, name, quantity(*a.UnitCost, "seconds"))
}
