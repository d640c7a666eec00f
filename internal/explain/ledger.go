package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Ledger holds the counts and measured times of one subject, and the cost of one event: for a process in a window,
// per second, or for the difference between two arms of an experiment, per operation. It is the only place where a
// price meets a count.
type Ledger struct {
	*Catalog
	// counted holds events, and for metrics of time, seconds. In a difference these are the treatment's additional
	// ones.
	counted map[Event]float64
	// shared holds counts for the whole machine of a process, per second.
	shared map[Event]float64
	// units are the calibrated costs in force, in seconds, by Price.Event.
	units map[string]Amount

	window     // zero for a difference
	difference // zero for a window
}

func newLedger(k *Catalog) *Ledger {
	return &Ledger{Catalog: k, counted: map[Event]float64{}, shared: map[Event]float64{}, units: map[string]Amount{}}
}

// unit returns a calibrated cost; ok is false if one of its numbers is missing.
func (l *Ledger) unit(event string) (Amount, bool) {
	a := l.units[event]
	return a, 0 < a.Low && a.Low <= a.Value && a.Value <= a.High
}

// unitOf returns the best unit cost of a counted event: calibrated or, if this machine has none, from the literature.
func (l *Ledger) unitOf(p *Price) (Unit, bool) {
	if p == nil {
		return Unit{}, false
	}
	if each, ok := l.unit(p.Event); ok {
		return Unit{each.scaled(1 / cmp.Or(p.Per, 1)), Calibrated, p.How}, true
	}
	if p.Literature == nil {
		return Unit{}, false
	}
	return Unit{p.Literature.seconds().scaled(1 / cmp.Or(p.Per, 1)), Published,
		fmt.Sprintf("%s, measured on %s and converted for a clock of 3 GHz (range: 2 to 4 GHz); the cost on this machine is unknown", p.Literature.Name, p.Literature.On)}, true
}

// has reports whether anything of a metric was counted.
func (l *Ledger) has(metric string) bool {
	for e := range l.counted {
		if e.Metric == metric {
			return true
		}
	}
	return false
}

// events returns a metric's events, in the order of their labels.
func (l *Ledger) events(metric string) []Event { return eventsIn(l.counted, metric) }

func eventsIn(counted map[Event]float64, metric string) []Event {
	var out []Event
	for e := range counted {
		if e.Metric == metric {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, Event.compare)
	return out
}

// total returns the sum over a metric's matching events.
func (l *Ledger) total(metric string, match func(Event) bool) float64 {
	s := 0.0
	for _, e := range l.events(metric) {
		if match(e) {
			s += l.counted[e]
		}
	}
	return s
}

// kindlessTotal returns the total of a metric without kinds, NaN if it was not counted.
func (l *Ledger) kindlessTotal(metric string) float64 {
	if !l.has(metric) {
		return math.NaN()
	}
	return l.total(metric, everything)
}

// paging reports whether most faults on enclave memory load a page back.
func (l *Ledger) paging() bool {
	faults := l.total(EnclaveFaults, everything)
	return faults > 0 && l.total(EnclavePages, labelIs("operation", "loaded_back")) >= faults/2
}

func everything(Event) bool { return true }

// labelIs matches events by the value of a label.
func labelIs(name, value string) func(Event) bool {
	return func(e Event) bool { return e.Label(name) == value }
}

func (e Event) compare(o Event) int {
	if c := strings.Compare(e.Metric, o.Metric); c != 0 {
		return c
	}
	for i := range e.labels {
		if c := cmp.Or(strings.Compare(e.labels[i].name, o.labels[i].name), strings.Compare(e.labels[i].value, o.labels[i].value)); c != 0 {
			return c
		}
	}
	return 0
}
