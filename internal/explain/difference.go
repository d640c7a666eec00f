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

// Arms are two arms of an experiment to compare.
type Arms struct {
	Case        string
	Base, Treat *result.Environment
	// Pairs are the runs in use. In unpaired arms, each pair has one nil side.
	Pairs    []Pair
	Unpaired bool
}

// Pair is a run of either arm.
type Pair struct{ Base, Treat *result.Run }

// difference is the data behind the counts of a difference.
type difference struct {
	was     map[Event]float64 // per operation of the baseline
	spread  map[Event]Amount  // the interval of counted, if there are enough pairs for one
	partial map[Event]bool    // the counter sees only part of the workload, or other programs too
	// took is the mean time of an event in the runs of both arms, in seconds; of those that are timed.
	took map[Event]float64
	// uncalibrated is why a unit cost is missing, "" if unknown.
	uncalibrated string
	// costlier is the additional cost of a system call in the treatment; nil if there is none or it is unknown.
	// Hidden: the treatment's calls are not counted.
	costlier *Amount
	hidden   bool
}

// timed reports whether a counter is part of a histogram.
func timed(e Event) bool {
	for _, name := range Timed {
		if e.Metric == name+"_sum" || e.Metric == name+"_count" {
			return true
		}
	}
	return false
}

// mean returns the mean time of one event over all runs, 0 if it is not timed or there were none.
func (e Event) mean(runs []map[Event]operation) float64 {
	histogram, timed := Timed[e.Metric]
	if !timed {
		return 0
	}
	var sum, n float64
	for _, run := range runs {
		for part, o := range run {
			switch {
			case !part.kindOf(e):
			case part.Metric == histogram+"_sum":
				sum += o.seen
			case part.Metric == histogram+"_count":
				n += o.seen
			}
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// kindOf reports whether the event has all labels of another.
func (e Event) kindOf(o Event) bool {
	for _, l := range o.labels {
		if l.name != "" && e.Label(l.name) != l.value {
			return false
		}
	}
	return true
}

// Difference lists for every counter the difference of two arms per operation: the median over the pairs, or for
// unpaired arms the difference of medians. Each has its cost at the counter's price, and the largest comes first. A
// counter that one arm lacks, or that sees nothing of the workload, makes no row: absent, never 0.
//
// A price explains part of the additional CPU time of an operation, and of the time in which its threads wait for
// locks and disks, which is measured.
func (k *Catalog) Difference(costs *result.UnitCosts, a Arms) []result.Attribution {
	l := k.differenceOf(costs, a)
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

// weight returns the time of a row; rows without a price sort last.
func weight(a *result.Attribution) float64 {
	if a.Seconds == nil {
		return -1
	}
	return math.Abs(*a.Seconds)
}

// moved returns a difference relative to the sum of both arms, between 0 and 1.
func moved(a *result.Attribution) float64 {
	if most := max(math.Abs(*a.Base), math.Abs(*a.Base+a.Delta)); most > 0 {
		return math.Abs(a.Delta) / most
	}
	return 0
}

// differenceOf fills a ledger with the differences of two arms.
func (k *Catalog) differenceOf(costs *result.UnitCosts, a Arms) *Ledger {
	l := newLedger(k)
	l.difference = difference{was: map[Event]float64{}, spread: map[Event]Amount{}, partial: map[Event]bool{}, took: map[Event]float64{}}
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
	all := slices.Concat(bases, treats)
	for e := range events {
		if timed(e) {
			continue
		}
		l.compare(e, bases, treats, a.Unpaired)
		if each := e.mean(all); each > 0 {
			l.took[e] = each
		}
	}
	l.compareCalls(a)
	return l
}

// compare adds the difference of the arms in an event.
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
		return // without a total, an event that an arm does not name is unknown
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

// mostSeen is the largest share of an environment's system calls at which the machine's kernel is assumed to count
// none of them; at 1 minus this share it is assumed to count them all.
const mostSeen = 0.05

// costlierCalls is the event of calls that both arms make and that cost more in one.
var costlierCalls = event(CallCount, "each", "dearer")

// compareCalls adds the calls that cost more, or less, in the treatment than in the baseline, if that was measured
// and exceeds the spread. If the treatment's calls are not counted, it is assumed to make the baseline's calls; the
// calls that are counted are then part of their cost.
func (l *Ledger) compareCalls(a Arms) {
	total := event(CallCount)
	delta, counted := l.counted[total]
	base, treat := a.Base.Call, a.Treat.Call
	switch {
	case !counted, base == nil, treat == nil:
		return
	case sameEnvironment(a.Base, a.Treat): // the difference is other load during the measurements
		return
	case base.Seen < 1-mostSeen, base.Low <= treat.High && treat.Low <= base.High:
		return
	case treat.Seen > mostSeen && treat.Seen < 1-mostSeen:
		return
	}
	made := l.was[total] + delta
	hidden := treat.Seen <= mostSeen
	if hidden && delta > 0 {
		return // the kernel counts more calls than the baseline makes: the worker's calls take another path than the workload's
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

// sameEnvironment reports whether two arms are equal in everything that could change the cost of a system call: the
// launcher, its parameters, and the captured environment.
func sameEnvironment(a, b *result.Environment) bool {
	return a.Launcher == b.Launcher && maps.Equal(a.Params, b.Params) && a.Fingerprint != "" && a.Fingerprint == b.Fingerprint
}

// waiting reports whether an event is time in which threads have work and wait.
func waiting(e Event) bool {
	return e.Metric == WaitSamples && (e.Label("state") == "lock" || e.Label("state") == "disk")
}

// longer returns the additional time of an operation, on CPUs and waiting, and its time in the baseline; NaN if its
// CPU time was not counted.
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

// leastChange is the smallest relative change of an operation's time that is divided among causes: shares of less are
// shares of noise.
const leastChange = 0.02

// explain fills in a row's cost, share and cause, or the reason why they are missing.
func (l *Ledger) explain(a *result.Attribution, e Event) {
	if l.partial[e] {
		a.Reason = "the counter covers only part of the workload, or includes other programs"
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
		why = "an operation takes the same time in both arms, on CPUs and waiting"
	default:
		share := *a.Seconds / active
		a.Share = &share
		return
	}
	if a.Seconds != nil { // it replaces the remark on a price
		a.Reason = why
		return
	}
	a.Reason = strings.TrimPrefix(a.Reason+"; "+why, "; ")
}

// cost fills in the time of a row, measured or at its price, or the reason why it has none.
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
			a.Reason = "assumed: the arm makes as many system calls as the baseline; the host cannot count them"
		}
		a.UnitLow, a.UnitHigh = &l.costlier.Low, &l.costlier.High
		return took(*l.costlier)
	case waiting(e), e.Metric == BounceTime && e != e.Total():
		a.Seconds = &delta // its own time, as rows are sorted
		return ""
	case (e.Metric == BouncedBytes || e.Metric == ProcessBounceTime) && l.has(BounceTime):
		return "its time is part of " + BounceTime
	case l.hidden && (e.Metric == CallCount || e.Metric == SwitchCount):
		return "it belongs to the environment itself, and is part of the cost of a system call there"
	case e.Metric == CPUAccount:
		return isMeasure
	case e.Metric == AcceptedBytes && l.took[event(Acceptances)] > 0 && l.has(Acceptances):
		return "its time is part of " + Acceptances
	case e.Metric == LoadedBack && l.has(EnclaveFaults):
		return "its time is part of " + EnclaveFaults
	case e == e.Total() && l.divided(e.Metric):
		return notPriced
	case l.took[e] > 0:
		return took(exactly(l.took[e]))
	case e.Metric == EnclaveEntries || e.Metric == EnclaveExits:
		unit, ok := l.unitOf(l.priceNamed("enclave_transition"))
		if !ok {
			return notPriced
		}
		// Some runtimes show a call as one of these events, others as two.
		unit.Amount = Amount{0.75 * unit.Value, unit.Low / 2, unit.High}
		return l.tookAbout(a, unit, took)
	}
	price := l.price(e)
	if price == nil {
		return notPriced
	}
	each, ok := l.units[price.Event]
	switch {
	case ok:
		return took(each.scaled(1 / cmp.Or(price.Per, 1)))
	case price.Literature != nil:
		unit, _ := l.unitOf(price)
		return l.tookAbout(a, unit, took)
	default:
		return cmp.Or(l.uncalibrated, price.Event+" is not calibrated on this machine")
	}
}

// tookAbout fills in a cost that is known with an interval, and says so if it is from literature.
func (l *Ledger) tookAbout(a *result.Attribution, unit Unit, took func(Amount) string) string {
	a.UnitLow, a.UnitHigh = &unit.Low, &unit.High
	if unit.Origin == Published {
		a.Reason = strings.TrimPrefix(a.Reason+"; "+orderOfMagnitude+unit.How, "; ")
	}
	return took(unit.Amount)
}

// orderOfMagnitude begins the remark on a price from literature.
const orderOfMagnitude = "an order of magnitude: "

// The reasons of most counters without a share.
const (
	isMeasure = "this is the total that the rows are compared with"
	notPriced = "the cost of one is unknown"
)

// divided reports whether kinds of a metric's events are known in addition to their total: these have the price of
// the total.
func (l *Ledger) divided(name string) bool {
	for e := range l.counted {
		if e.Metric == name && e != e.Total() && e != costlierCalls {
			return true
		}
	}
	return false
}

// eventOf returns the event that a row is about.
func eventOf(a *result.Attribution) Event { return EventOf(a.Metric, a.Labels) }

// leastNamed is the smallest share of a difference for which a cause is named.
const leastNamed = 0.10

// mostEvents is the number of rows that a sentence names.
const mostEvents = 3

// CauseSentence states in one sentence the main cause of a cost and its fix, or for a gain the cost that disappeared. It
// returns "" where the document's rows show no cause, or Uncaused says why none may be named. Storms of single calls are
// separate causes; other causes are the sum of their rows.
func (k *Catalog) CauseSentence(e *result.Experiment, c *result.Comparison) string {
	if k.Uncaused(e, c) != "" {
		return ""
	}
	cause := k.largest(RowsOf(e.Attribution, c))
	if cause == nil || cause.share < leastNamed || *cause.lead.Share <= 0 {
		return ""
	}
	list, share := strings.Join(cause.events, ", "), metric.Percent(cause.share)
	longer := *cause.lead.Seconds > 0 // as its share is positive, both are
	least := ""
	if cause.lead.Metric == CallCount {
		least = "at least " // a call is priced as one that does nothing
	}
	switch {
	case *c.CostLow > 1 && longer:
		return fmt.Sprintf("In %s, %s%s of the extra time of an operation goes into %s (%s): %s.", c.Treatment, least, share, cause.What, list, cause.Fix)
	case *c.CostHigh < 1 && !longer:
		return fmt.Sprintf("In %s, %s%s of the time that an operation saves went into %s in %s (%s).", c.Treatment, least, share, cause.What, c.Baseline, list)
	}
	return ""
}

// mainCause is the cause with the largest share of a difference.
type mainCause struct {
	*Cause
	key    string
	share  float64
	lead   *result.Attribution // the first row, as the costliest come first
	events []string            // its largest rows, in words
}

// key returns what rows of one cause have in common.
func (c *Cause) key(counter string) string {
	if c.Each {
		return c.Name + counter
	}
	return c.Name
}

// largest returns the cause with the largest share, nil without any.
func (k *Catalog) largest(rows []result.Attribution) *mainCause {
	causes := map[string]*mainCause{}
	var most *mainCause
	for i := range rows {
		a := &rows[i]
		x := k.named(a.Cause)
		if x == nil || a.Share == nil {
			continue
		}
		c := causes[x.key(a.Counter)]
		if c == nil {
			c = &mainCause{Cause: x, key: x.key(a.Counter), lead: a}
			causes[c.key] = c
		}
		c.share += *a.Share
		if len(c.events) < mostEvents && *a.Share >= leastNamed/2 {
			c.events = append(c.events, more(a))
		}
		if most == nil || c.share > most.share {
			most = c
		}
	}
	return most
}

// more states how many more of a row's events an operation has, and the cost of each.
func more(a *result.Attribution) string {
	if a.Metric == BounceTime {
		return fmt.Sprintf("%+.3g µs in %s per operation", a.Delta*1e6, eventOf(a).Title())
	}
	if a.UnitCost == nil {
		return fmt.Sprintf("%+.3g µs asleep in %s per operation", a.Delta*1e6, eventOf(a).Label("call"))
	}
	return fmt.Sprintf("%+.3g %s per operation at %s", a.Delta, eventOf(a).Title(), metric.Value(*a.UnitCost, "seconds"))
}
