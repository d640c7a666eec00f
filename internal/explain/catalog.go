package explain

import (
	"fmt"

	"github.com/teescope/teescope/internal/metric"
)

// Catalog is what explanations know: what events cost, and what makes programs
// slow. Its members are in explain/prices and explain/causes.
type Catalog struct {
	Prices []*Price
	Causes []*Cause
}

// Price is an event that has a unit cost.
type Price struct {
	// Event is its name in tee_unit_cost_seconds and in `teescope calibrate`.
	Event string
	// How says in a sentence what was timed, for readers of an explanation.
	How string
	// Literature is what others measured; nil where calibration has it.
	Literature *Literature
	// Metric counts the event, in the series with the label Label of the value Value;
	// both are "" where all series count. Metric is "" where no counter does.
	Metric, Label, Value string
	// Per is how many of the counter's units make one event, 4096 for bytes and pages; 0 is 1.
	Per float64
}

// counts reports whether a counter counts the event.
func (p *Price) counts(e Event) bool {
	return p.Metric != "" && p.Metric == e.Metric && (p.Label == "" || e.Label(p.Label) == p.Value)
}

// price returns the price of a counter's events, nil where none is known.
func (k *Catalog) price(e Event) *Price {
	for _, p := range k.Prices {
		if p.counts(e) {
			return p
		}
	}
	return nil
}

// priceNamed returns the price with that name of an event, nil where there is none.
func (k *Catalog) priceNamed(name string) *Price {
	for _, p := range k.Prices {
		if p.Event == name {
			return p
		}
	}
	return nil
}

// Cause is one reason why a program takes the time that it takes. Rules,
// explanations and comparisons share it, so they name the same cause alike and
// give the same advice.
type Cause struct {
	// Name is that of the rule that finds it.
	Name string
	// What and Fix are for one sentence about a comparison: "... goes into WHAT: FIX."
	// Both are "" for what no priced event speaks for.
	What, Fix string
	// Doing ends the sentence "NAME spends 40 % of its active time ...". "{event}" in it is
	// the event's name, "{often}" how often it happens, in brackets.
	Doing string
	// Remedy tells a reader what to do, in sentences.
	Remedy string
	// Speaks reports whether time in events of a kind speaks for the cause; nil where
	// no event does. The first cause of a catalog that speaks is it.
	Speaks func(Event, Circumstances) bool
	// Each: every kind of event is a cause of its own. Without it, rows add up.
	Each bool
}

// Circumstances are what an event's cause depends on besides the event.
type Circumstances struct {
	// Contended: threads of the process wait for locks.
	Contended bool
	// Entering: most of the time goes into entering and leaving the kernel.
	Entering bool
	// Rare: there are too few events for their number to be the matter.
	Rare bool
	// Paging: most faults on enclave memory load a page back.
	Paging bool
}

// cause returns what an event speaks for, nil for the process's own work.
func (k *Catalog) cause(e Event, c Circumstances) *Cause {
	for _, x := range k.Causes {
		if x.Speaks != nil && x.Speaks(e, c) {
			return x
		}
	}
	return nil
}

// named returns the cause of a name, or nil.
func (k *Catalog) named(name string) *Cause {
	for _, x := range k.Causes {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// Literature is what others measured for an event that this machine cannot time, in
// cycles of their processors. Microcode against side channels alone has changed some
// of these costs twofold, so a product of them is an order of magnitude.
type Literature struct {
	Low, High float64 // cycles
	// Each names one event ("a call"), Name the source in a word, Source in full, and
	// On the processors that it was measured on.
	Each, Name, Source, On string
}

// seconds are the cycles on a processor of 3 GHz, with an interval from 4 to 2 GHz.
func (l *Literature) seconds() Amount {
	return Amount{(l.Low + l.High) / 2 / 3e9, l.Low / 4e9, l.High / 2e9}
}

// Cost says what between so many and so many events a second cost by it.
func (l *Literature) Cost(fewest, most float64) string {
	const clock = 3e9 // Hz, for readers who do not have their processor's clock in mind
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
