package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Arms are two arms of an experiment that are compared.
type Arms struct {
	Case        string
	Base, Treat *result.Environment
	// Pairs are the runs in use. Unpaired arms have one side nil in each.
	Pairs    []Pair
	Unpaired bool
}

// Pair is a run of either arm.
type Pair struct{ Base, Treat *result.Run }

// difference is how the counts of a difference came about.
type difference struct {
	was     map[Event]float64 // per operation of the baseline
	spread  map[Event]Amount  // what lies behind counted, where pairs are enough for an interval
	partial map[Event]bool    // the counter sees only a part of the workload, or others too
	// uncalibrated says why a unit cost is not there, "" where nothing says it.
	uncalibrated string
	// costlier is by how much more a system call costs in the treatment; nil where it
	// does not, or is not known. Hidden: the treatment's calls are not seen.
	costlier *Amount
	hidden   bool
}

// timed reports whether a counter is a part of a histogram.
func timed(e Event) bool {
	return slices.ContainsFunc(Timed, func(name string) bool { return e.Metric == name+"_sum" || e.Metric == name+"_count" })
}

// mean is what one event of a histogram took over all runs, 0 where there was none.
func mean(histogram string, runs []map[Event]operation) float64 {
	var sum, n float64
	for _, run := range runs {
		sum += run[event(histogram+"_sum")].seen
		n += run[event(histogram+"_count")].seen
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// Difference lists for every counter by how much two arms differ per operation: the
// median over the pairs (of unpaired arms, the difference of medians), with what that
// is at its price, the largest first. A counter that one arm did not give, or that
// sees nothing of the workload, makes no row: absent, never 0.
//
// What a price explains is a part of the CPU time that an operation takes longer, and
// of the time in which its threads wait for locks and disks, which is measured.
func (k *Catalog) Difference(costs *result.UnitCosts, a Arms) []result.Attribution {
	l := k.between(costs, a)
	var out []result.Attribution
	for e, delta := range l.counted {
		was := l.was[e]
		row := result.Attribution{Baseline: a.Base.ID, Treatment: a.Treat.ID, Case: a.Case, Counter: e.String(),
			Metric: e.Metric, Labels: e.Labels(), Base: &was, Delta: delta}
		if s := l.spread[e]; s.Low < s.High {
			row.DeltaLow, row.DeltaHigh = &s.Low, &s.High
		}
		l.explain(&row, e)
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b result.Attribution) int {
		return cmp.Or(cmp.Compare(weight(&b), weight(&a)), cmp.Compare(moved(&b), moved(&a)), strings.Compare(a.Counter, b.Counter))
	})
	if i := slices.IndexFunc(out, func(a result.Attribution) bool { return a.Share == nil }); i != 0 && len(out) > 0 {
		if i < 0 {
			i = len(out)
		}
		rest := 1.0
		for _, r := range out[:i] {
			rest -= *r.Share
		}
		out[i-1].Unexplained = &rest
	}
	return out
}

// weight is the time that a row is about; rows without a price come after all.
func weight(a *result.Attribution) float64 {
	if a.Seconds == nil {
		return -1
	}
	return math.Abs(*a.Seconds)
}

// moved is a difference beside what both arms have, between 0 and 1.
func moved(a *result.Attribution) float64 {
	if most := max(math.Abs(*a.Base), math.Abs(*a.Base+a.Delta)); most > 0 {
		return math.Abs(a.Delta) / most
	}
	return 0
}

// between fills a ledger with the differences of two arms.
func (k *Catalog) between(costs *result.UnitCosts, a Arms) *Ledger {
	l := newLedger(k)
	l.difference = difference{was: map[Event]float64{}, spread: map[Event]Amount{}, partial: map[Event]bool{}}
	if costs == nil {
		l.uncalibrated = "not calibrated: the result holds no unit costs"
	} else {
		l.uncalibrated = costs.Reason
		for _, u := range costs.Units {
			l.units[u.Event] = Amount{u.Seconds, u.Low, u.High}
		}
	}
	var bases, treats []map[Event]operation
	events := map[Event]bool{}
	for _, p := range a.Pairs {
		base, treat := operations(p.Base), operations(p.Treat)
		bases, treats = append(bases, base), append(treats, treat)
		for _, run := range []map[Event]operation{base, treat} {
			for e, o := range run {
				events[e] = true
				l.partial[e] = l.partial[e] || o.partial
			}
		}
	}
	l.faultTime = exactly(mean(EnclaveFaultTime, slices.Concat(bases, treats)))
	for e := range events {
		if !timed(e) {
			l.compare(e, bases, treats, a.Unpaired)
		}
	}
	l.compareCalls(a)
	return l
}

// compare counts by how much the arms differ in an event.
func (l *Ledger) compare(e Event, bases, treats []map[Event]operation, unpaired bool) {
	var base, treat, deltas []float64
	for i := range bases {
		b, okB := e.in(bases[i])
		t, okT := e.in(treats[i])
		if okB {
			base = append(base, b)
		}
		if okT {
			treat = append(treat, t)
		}
		if okB && okT {
			deltas = append(deltas, t-b)
		}
	}
	if len(base) == 0 || len(treat) == 0 {
		return // beside no total, what an arm does not name is not known
	}
	if unpaired {
		deltas = []float64{stats.Median(treat) - stats.Median(base)}
	}
	if len(deltas) == 0 {
		return // no pair has it in both arms
	}
	delta := stats.Median(deltas)
	l.counted[e], l.was[e], l.spread[e] = delta, stats.Median(base), exactly(delta)
	if low, high, ok := stats.Centre(deltas, 0.95); ok {
		l.spread[e] = Amount{delta, min(delta, low), max(delta, high)}
	}
}

// mostSeen is the part of an environment's system calls up to which the machine's kernel is
// taken to have none of them, and what it had to be those of the environment itself.
const mostSeen = 0.05

// costlierCalls is the event of the calls of both arms, which cost more in one.
var costlierCalls = event(CallCount, "each", "dearer")

// compareCalls adds the calls that cost more in the treatment than in the baseline, or
// less, where that was measured and is no spread. Where the treatment's calls are not
// seen it is assumed that it makes those of the baseline; what is seen of it is then
// part of what they cost.
func (l *Ledger) compareCalls(a Arms) {
	total := event(CallCount)
	delta, counted := l.counted[total]
	base, treat := a.Base.Call, a.Treat.Call
	switch {
	case !counted, base == nil, treat == nil:
		return
	case sameEnvironment(a.Base, a.Treat): // what differs is what else ran while each was measured
		return
	case base.Seen < 1-mostSeen, base.Low <= treat.High && treat.Low <= base.High:
		return
	case treat.Seen > mostSeen && treat.Seen < 1-mostSeen:
		return
	}
	made := l.was[total] + delta
	hidden := treat.Seen <= mostSeen
	if hidden && delta > 0 {
		return // the kernel sees more calls than the baseline makes: the worker's calls go another way than the workload's
	}
	if hidden {
		made = l.was[total]
	}
	if !(made > 0) {
		return
	}
	l.hidden = hidden
	l.costlier = &Amount{treat.Seconds - base.Seconds, treat.Low - base.High, treat.High - base.Low}
	l.counted[costlierCalls], l.was[costlierCalls], l.partial[costlierCalls] = made, 0, l.partial[total]
}

// sameEnvironment reports whether two arms differ in nothing that could change what a
// system call costs: not in the launcher and its parameters, nor in what was captured.
func sameEnvironment(a, b *result.Environment) bool {
	return a.Launcher == b.Launcher && maps.Equal(a.Params, b.Params) && a.Fingerprint != "" && a.Fingerprint == b.Fingerprint
}

// waiting reports whether an event is time in which threads have work and wait.
func waiting(e Event) bool {
	return e.Metric == WaitSamples && (e.Label("state") == "lock" || e.Label("state") == "disk")
}

// longer is by how much longer an operation takes, on CPUs and waiting, and how long
// it took in the baseline; NaN where its CPU time was not counted.
func (l *Ledger) longer() (delta, was float64) {
	cpu := event(CPUAccount)
	if _, ok := l.counted[cpu]; !ok {
		return math.NaN(), 0
	}
	delta, was = l.counted[cpu], l.was[cpu]
	for _, e := range l.events(WaitSamples) {
		if waiting(e) {
			delta, was = delta+l.counted[e], was+l.was[e]
		}
	}
	return delta, was
}

// leastChange is the part by which the time of an operation must differ to be
// divided among causes: shares of less are shares of noise.
const leastChange = 0.02

// explain fills in what a row is at its price, its share and its cause, or says what
// is missing.
func (l *Ledger) explain(a *result.Attribution, e Event) {
	if l.partial[e] {
		a.Reason = "the counter sees only part of the workload, or others too"
	}
	contended := l.total(WaitSamples, func(e Event) bool { return e.Label("state") == "lock" && l.counted[e] > 0 }) > 0
	if c := l.cause(e, Circumstances{Contended: contended, Paging: l.paging()}); c != nil && e != costlierCalls {
		a.Cause = c.Name
	}
	why := l.cost(a, e)
	active, was := l.longer()
	switch {
	case why != "":
	case math.IsNaN(active):
		why = "the CPU time of the workload was not counted"
	case math.Abs(active) < leastChange*was || active == 0:
		why = "the arms take the same time for an operation, on CPUs and waiting"
	default:
		share := *a.Seconds / active
		a.Share = &share
		return
	}
	if a.Seconds != nil { // what was said of a price gives way
		a.Reason = why
		return
	}
	a.Reason = strings.TrimPrefix(a.Reason+"; "+why, "; ")
}

// cost fills in the time of a row, measured or at its price, or says why it has none.
func (l *Ledger) cost(a *result.Attribution, e Event) string {
	delta := l.counted[e]
	took := func(each Amount) string {
		seconds := delta * each.Value
		a.UnitCost, a.Seconds = &each.Value, &seconds
		return ""
	}
	switch {
	case e == costlierCalls:
		if l.hidden {
			a.Reason = "assumed: the arm makes as many system calls as the baseline, which is not seen from outside"
		}
		a.UnitLow, a.UnitHigh = &l.costlier.Low, &l.costlier.High
		return took(*l.costlier)
	case waiting(e), e.Metric == BounceTime && e != e.Total():
		a.Seconds = &delta // of its own, as rows are sorted
		return ""
	case (e.Metric == BouncedBytes || e.Metric == ProcessBounceTime) && l.has(BounceTime):
		return "its time is part of " + BounceTime
	case l.hidden && (e.Metric == CallCount || e.Metric == SwitchCount):
		return "it is the environment's own, and a part of what a system call costs in it"
	case e.Metric == CPUAccount:
		return isMeasure
	case e == e.Total() && l.divided(e.Metric):
		return notPriced
	case e.Metric == EnclaveFaults && l.faultTime.Value > 0:
		return took(l.faultTime)
	case e.Metric == EnclaveEntries || e.Metric == EnclaveExits:
		unit, ok := l.of(l.priceNamed("enclave_transition"))
		if !ok {
			return notPriced
		}
		// A call is one of these events where a runtime shows it once, or two.
		each := Amount{0.75 * unit.Value, unit.Low / 2, unit.High}
		a.UnitLow, a.UnitHigh = &each.Low, &each.High
		if unit.Origin == Published {
			a.Reason = strings.TrimPrefix(a.Reason+"; an order of magnitude: "+unit.How, "; ")
		}
		return took(each)
	}
	price := l.price(e)
	if price == nil {
		return notPriced
	}
	each, ok := l.units[price.Event]
	if !ok {
		return cmp.Or(l.uncalibrated, price.Event+" is not calibrated on this machine")
	}
	return took(each.scaled(1 / cmp.Or(price.Per, 1)))
}

// What is said of most counters that have no share.
const (
	isMeasure = "this is what prices are compared with"
	notPriced = "what one costs is not known"
)

// divided reports whether kinds of a metric's events are known beside their total:
// these have the price of the total.
func (l *Ledger) divided(name string) bool {
	for e := range l.counted {
		if e.Metric == name && e != e.Total() && e != costlierCalls {
			return true
		}
	}
	return false
}

// eventOf is the event that a row is about.
func eventOf(a *result.Attribution) Event { return EventOf(a.Metric, a.Labels) }

// leastNamed is the share of a difference from which a cause is named.
const leastNamed = 0.10

// mostEvents is how many rows a sentence names.
const mostEvents = 3

// Because says in one sentence what most of a cost goes into and what mends it, or of
// a gain what went away; "" where the interval holds 1 or the rows of its contest do
// not say. Storms of single calls are causes of their own, others are the sum of their
// rows. Doubts about the ratio are no doubts about what was counted.
func (k *Catalog) Because(c *result.Comparison, rows []result.Attribution) string {
	shares, events := map[string]float64{}, map[string][]string{}
	lead := map[string]*result.Attribution{} // the first, as the costliest come first
	most := ""
	for i := range rows {
		a := &rows[i]
		x := k.named(a.Cause)
		if x == nil || a.Share == nil {
			continue
		}
		key := x.Name
		if x.Each {
			key += a.Counter
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
	what, list, share := k.named(lead[most].Cause), strings.Join(events[most], ", "), metric.Percent(shares[most])
	longer := *lead[most].Seconds > 0 // as its share is positive, both are
	least := ""
	if lead[most].Metric == CallCount {
		least = "at least " // a call is priced as one that does nothing
	}
	switch {
	case *c.CostLow > 1 && longer:
		return fmt.Sprintf("Of the time by which an operation takes longer in %s, %s%s goes into %s (%s): %s.", c.Treatment, least, share, what.What, list, what.Fix)
	case *c.CostHigh < 1 && !longer:
		return fmt.Sprintf("Of the time that an operation saves in %s, %s%s went into %s in %s (%s).", c.Treatment, least, share, what.What, c.Baseline, list)
	}
	return ""
}

// more says by how much an operation has more of a row's events, and what each costs.
func more(a *result.Attribution) string {
	if a.Metric == BounceTime {
		return fmt.Sprintf("%+.3g µs in %s per operation", a.Delta*1e6, eventOf(a).Title())
	}
	if a.UnitCost == nil {
		return fmt.Sprintf("%+.3g µs asleep in %s per operation", a.Delta*1e6, eventOf(a).Label("call"))
	}
	return fmt.Sprintf("%+.3g %s per operation at %s", a.Delta, eventOf(a).Title(), metric.Value(*a.UnitCost, "seconds"))
}
