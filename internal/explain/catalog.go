package explain

import (
	"fmt"
	"slices"

	"github.com/teescope/teescope/internal/metric"
)

// Catalog is the knowledge behind explanations: what events cost, and what makes programs slow. Its members are in
// explain/prices and explain/causes.
type Catalog struct {
	Prices []*Price
	Causes []*Cause
}

// Price is an event that has a unit cost.
type Price struct {
	// Event is its name in tee_unit_cost_seconds and in `teescope calibrate`.
	Event string
	// How states in a sentence what was timed, for readers of an explanation.
	How string
	// Literature is what others measured, for machines that cannot measure it; nil if nothing was published.
	Literature *Literature
	// Metric counts the event, in the series whose label Label has the value Value; both are "" if all series count.
	// Metric is "" if no counter does.
	Metric, Label, Value string
	// Also are other counters of events that cost at least as much.
	Also []string
	// Per is the number of the counter's units in one event, such as 4096 for bytes and pages; 0 is 1.
	Per float64
}

// counts reports whether a counter counts the event.
func (p *Price) counts(e Event) bool {
	return slices.Contains(p.Also, e.Metric) || p.Metric != "" && p.Metric == e.Metric && (p.Label == "" || e.Label(p.Label) == p.Value)
}

// price returns the price of a counter's events, nil if none is known.
func (k *Catalog) price(e Event) *Price {
	for _, p := range k.Prices {
		if p.counts(e) {
			return p
		}
	}
	return nil
}

// priceNamed returns the price of an event by its name, nil if there is none.
func (k *Catalog) priceNamed(name string) *Price {
	for _, p := range k.Prices {
		if p.Event == name {
			return p
		}
	}
	return nil
}

// Cause is one reason why a program is slow. Rules, explanations and comparisons share it, so they give the same
// cause the same name and advice.
type Cause struct {
	// Name is the name of the rule that finds it.
	Name string
	// What and Fix are for one sentence about a comparison: "... goes into WHAT: FIX." Both are "" if no priced event
	// indicates the cause.
	What, Fix string
	// Doing ends the sentence "NAME spends 40 % of its active time ...". "{event}" in it is
	// the event's name, "{often}" how often it happens, in brackets.
	Doing string
	// Remedy tells a reader what to do, in sentences.
	Remedy string
	// Matches reports whether time in events of a kind indicates the cause; nil if no event does. An event belongs to
	// the first cause of the catalog that it indicates.
	Matches func(Event, Circumstances) bool
	// ByReason returns the remedy for a reason of the events, which goes before Remedy, or "" if there is none; nil if the
	// events have no reasons.
	ByReason func(reason string) string
	// Each: every kind of event is a separate cause. Otherwise rows add up.
	Each bool
}

// Circumstances are what an event's cause depends on besides the event.
type Circumstances struct {
	// Contended: threads of the process wait for locks.
	Contended bool
	// Entering: most of the time goes into entering and leaving the kernel.
	Entering bool
	// Rare: there are too few events for their number to matter.
	Rare bool
	// Paging: most faults on enclave memory load a page back.
	Paging bool
}

// cause returns the cause that an event indicates, nil for the process's own work.
func (k *Catalog) cause(e Event, c Circumstances) *Cause {
	for _, x := range k.Causes {
		if x.Matches != nil && x.Matches(e, c) {
			return x
		}
	}
	return nil
}

// named returns the cause with a name, or nil.
func (k *Catalog) named(name string) *Cause {
	for _, x := range k.Causes {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// Literature is a published cost, in processor cycles, of an event that this machine cannot time. Microcode against
// side channels alone has changed some of these costs twofold, so a product of them is an order of magnitude.
type Literature struct {
	Low, High float64 // cycles
	// Each names one event ("a call"), Name the source in a word, Source in full, and On the measured processors.
	Each, Name, Source, On string
}

// seconds returns the cycles on a processor of 3 GHz, with an interval from 4 to 2 GHz.
func (l *Literature) seconds() Amount {
	return Amount{(l.Low + l.High) / 2 / 3e9, l.Low / 4e9, l.High / 2e9}
}

// Cost states the cost of between fewest and most events a second.
func (l *Literature) Cost(fewest, most float64) string {
	const clock = 3e9 // Hz, an assumed clock
	spread := func(low, high float64, print func(float64) string) string {
		if low == high {
			return print(low)
		}
		return print(low) + " to " + print(high)
	}
	low, high := fewest*l.Low, most*l.High
	return fmt.Sprintf("At %s cycles %s (from literature, %s, not measured here): %s million cycles a second, %s of a core at 3 GHz.",
		spread(l.Low, l.High, metric.Count), l.Each, l.Name, spread(low/1e6, high/1e6, metric.Count), spread(low/clock, high/clock, metric.Percent))
}
