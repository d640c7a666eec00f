package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// machineKind is a TEE activity that is counted for the whole machine: the series it reads, and its rows. Times are
// cores.
type machineKind struct {
	reads []machineSeries
	rows  func(*Ledger) []Row
}

// machineSeries are rates of a counter, or means of a gauge, summed by labels.
type machineSeries struct {
	name, by string
	gauge    bool
	matchers string
}

func (s machineSeries) expr(l *Ledger) string {
	if s.gauge {
		return l.machine.Mean(s.name)
	}
	var more []string
	if s.matchers != "" {
		more = append(more, s.matchers)
	}
	return l.machine.Rate(s.name, more...)
}

func (s machineSeries) query(l *Ledger) string {
	return fmt.Sprintf("sum by (%s) (%s)", s.by, s.expr(l))
}

// histogram returns the sum and the count of a histogram of durations.
func histogram(name, by, matchers string) []machineSeries {
	return []machineSeries{{name: name + "_sum", by: by, matchers: matchers}, {name: name + "_count", by: by, matchers: matchers}}
}

// machineKinds are what a TEE does on a machine, each in a file of its own
// (machine_NAME.go).
var machineKinds = []machineKind{
	enclavePaging,
	bounceBuffers,
	guestExits,
	conversions,
	acceptance,
	vmExits,
	gpuStaging,
}

// busy is the machine's CPU time in use, without the time taken by its host.
var busy = machineSeries{name: BusyCPU, matchers: `mode!~"idle|iowait|steal"`}

// ofMachine returns the rows of the machine; nil without any.
func (l *Ledger) ofMachine() *Machine {
	m := &Machine{Busy: l.busy}
	for _, kind := range machineKinds {
		m.Rows = append(m.Rows, kind.rows(l)...)
	}
	if m.Rows == nil {
		return nil
	}
	for i := range m.Rows {
		r := &m.Rows[i]
		r.TEE = true
		if c := l.named(r.Cause); c != nil && r.Advice == "" {
			r.Advice = c.Remedy
		}
		if m.Busy > 0 {
			r.Share = r.Time.scaled(1 / m.Busy)
		}
		for j := range r.Rows {
			if r.Rows[j].TEE = true; m.Busy > 0 {
				r.Rows[j].Share = r.Rows[j].Time.scaled(1 / m.Busy)
			}
		}
	}
	slices.SortStableFunc(m.Rows, func(a, b Row) int { return cmp.Compare(b.Time.Value, a.Time.Value) })
	return m
}

// byLabel returns a row for a counter, with a part for each value of a label, at its price. Reason is what a
// calibrated price leaves out.
func (l *Ledger) byLabel(whole Row, metric, label, unit, reason string) []Row {
	price := func(r *Row, e Event, v float64, more ...string) {
		rate := l.counts(metric, v)
		r.Part, r.Rate = Kernel, &rate
		r.Evidence = []query.Evidence{{Text: r.Title, Value: v, Unit: unit, Expr: "sum(" + l.machine.Rate(metric, more...) + ")"}}
		if each, ok := l.unitOf(l.price(e)); ok {
			r.Unit, r.Time = &each, rate.times(each.Amount)
		}
	}
	total := 0.0
	for _, e := range eventsIn(l.shared, metric) {
		if v := l.shared[e]; v > 0 {
			value := e.Label(label)
			part := Row{ID: whole.ID + ":" + value, Title: value}
			price(&part, e, v, query.MatchersFor(label, value))
			whole.Rows = append(whole.Rows, part)
			total += v
		}
	}
	if total == 0 {
		return nil
	}
	price(&whole, event(metric), total)
	switch {
	case whole.Unit == nil:
		whole.Reason = notPriced
	case whole.Unit.Origin == Published:
		whole.Reason = orderOfMagnitude + whole.Unit.How
	default:
		whole.Reason = reason
	}
	return []Row{whole}
}

// copied returns a row of bytes per second, each at the price of at least one copy. Least is what that leaves out.
func (l *Ledger) copied(r Row, e Event, expr, least string) []Row {
	v := l.shared[e]
	if !(v > 0) {
		return nil
	}
	rate := l.counts(e.Metric, v)
	r.Part, r.Rate, r.Reason = Kernel, &rate, notPriced
	r.Evidence = []query.Evidence{{Text: r.Title, Value: v, Unit: "bytes/s", Expr: expr}}
	if each, ok := l.unitOf(l.price(e)); ok {
		r.Unit, r.Time, r.Reason = &each, rate.times(each.Amount), least
	}
	return []Row{r}
}

// timed returns a row of events whose time is measured, from the matching series of a histogram.
func (l *Ledger) timed(id, title string, series []machineSeries, match func(Event) bool, more ...string) (Row, bool) {
	sum := func(name string) (v float64) {
		for _, e := range eventsIn(l.shared, name) {
			if match(e) {
				v += l.shared[e]
			}
		}
		return v
	}
	time, n := sum(series[0].name), sum(series[1].name)
	if !(n > 0) {
		return Row{}, false
	}
	name := strings.TrimSuffix(series[0].name, "_sum")
	rate := l.counts(name, n)
	if series[0].matchers != "" {
		more = append(more, series[0].matchers)
	}
	return Row{ID: id, Title: title, Part: Kernel, Rate: &rate, Time: l.counts(name, time),
		Unit: &Unit{exactly(time / n), Measured, "their time in this window, divided by their number"},
		Evidence: []query.Evidence{
			cores("time in "+title, time, l.machine.Rate(series[0].name, more...)),
			perSecond(title, n, l.machine.Rate(series[1].name, more...))}}, true
}

// group returns the sentence about the TEE's rows in a tree.
func (t Tree) group() *Group {
	var all, large []Row
	for _, r := range t.Rows {
		if r.TEE && r.Share.Value > 0 {
			all = append(all, r)
		}
		if r.TEE && r.Share.Value >= smallShare {
			large = append(large, r)
		}
	}
	// Even a small share is shown in pictures. Between two windows it may be chance.
	if large == nil && t.Baseline == "" {
		large = all
	}
	if large == nil {
		return nil
	}
	var parts []string
	var share Amount
	for _, r := range large {
		share = share.plus(r.Share)
		parts = append(parts, fmt.Sprintf("%s %s", r.Title, metric.Percent(r.Share.Value)))
	}
	if t.Baseline != "" {
		whole := "of the extra time of an operation"
		if t.Active.Value < 0 {
			whole = "of the time that an operation saves"
		}
		return &Group{Share: share, Title: fmt.Sprintf("Events of the TEE are %s %s in %s: %s.", share.percent(), whole, t.Subject, strings.Join(parts, ", "))}
	}
	share.Low, share.High = max(0, share.Low), min(math.Max(1, share.Value), share.High)
	return &Group{Share: share, Title: fmt.Sprintf("The TEE costs %s %s of its active time: %s.", t.Subject, share.percent(), strings.Join(parts, ", "))}
}
