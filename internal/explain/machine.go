package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

// machineKind is something that a TEE does and that is counted for the whole machine:
// which series it reads, and its rows. Times are cores.
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
		return l.mean(s.name)
	}
	var more []string
	if s.matchers != "" {
		more = append(more, s.matchers)
	}
	return l.machineRate(s.name, more...)
}

func (s machineSeries) query(l *Ledger) string {
	return fmt.Sprintf("sum by (%s) (%s)", s.by, s.expr(l))
}

// histogram are the sum and the number of a histogram of durations.
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

// busy is the CPU time in use on a machine, and not taken by its host.
var busy = machineSeries{name: BusyCPU, matchers: `mode!~"idle|iowait|steal"`}

// ofMachine are the rows of the machine; nil where there are none.
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
		if c := l.named(r.Cause); c != nil {
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

// byLabel is a row of what a counter counts, with a part for each value of a label, at
// its price. Reason says of a calibrated price what it leaves out.
func (l *Ledger) byLabel(whole Row, metric, label, unit, reason string) []Row {
	price := func(r *Row, e Event, v float64, more ...string) {
		rate := exactly(v)
		r.Part, r.Rate = Kernel, &rate
		r.Evidence = []findings.Evidence{{Text: r.Title, Value: v, Unit: unit, Expr: "sum(" + l.machineRate(metric, more...) + ")"}}
		if each, ok := l.of(l.price(e)); ok {
			r.Unit, r.Time = &each, rate.times(each.Amount)
		}
	}
	total := 0.0
	for _, e := range eventsIn(l.shared, metric) {
		if v := l.shared[e]; v > 0 {
			value := e.Label(label)
			part := Row{ID: whole.ID + ":" + value, Title: value}
			price(&part, e, v, matchers(label, value))
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
		whole.Reason = "an order of magnitude: " + whole.Unit.How
	default:
		whole.Reason = reason
	}
	return []Row{whole}
}

// timed is a row of events whose time is measured: of the series of a histogram that
// match.
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
	rate := exactly(n)
	if series[0].matchers != "" {
		more = append(more, series[0].matchers)
	}
	return Row{ID: id, Title: title, Part: Kernel, Rate: &rate, Time: exactly(time),
		Unit: &Unit{exactly(time / n), Measured, "their time in this window, divided by their number"},
		Evidence: []findings.Evidence{
			cores("time in "+title, time, l.machineRate(series[0].name, more...)),
			perSecond(title, n, l.machineRate(series[1].name, more...))}}, true
}

// group is the sentence about the rows of the TEE in a tree.
func (t Tree) group() *Group {
	var parts []string
	var share Amount
	for _, r := range t.Rows {
		if r.TEE && r.Share.Value >= smallShare {
			share = share.plus(r.Share)
			parts = append(parts, fmt.Sprintf("%s %s", r.Title, metric.Percent(r.Share.Value)))
		}
	}
	if parts == nil {
		return nil
	}
	if t.Baseline != "" {
		whole := "of the time by which an operation takes longer"
		if t.Active.Value < 0 {
			whole = "of the time that an operation saves"
		}
		return &Group{Share: share, Title: fmt.Sprintf("Events of the TEE are %s %s in %s: %s.", share.percent(), whole, t.Subject, strings.Join(parts, ", "))}
	}
	share.Low, share.High = max(0, share.Low), min(math.Max(1, share.Value), share.High)
	return &Group{Share: share, Title: fmt.Sprintf("The TEE costs %s %s of its active time: %s.", t.Subject, share.percent(), strings.Join(parts, ", "))}
}
