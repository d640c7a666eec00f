package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// Compared returns the tree of a comparison: the additional time of an operation in the treatment, from the rows in
// the document. Where no cause may be named, its rows have none, and a note says why.
func (k *Catalog) Compared(e *result.Experiment, c *result.Comparison) Tree {
	t := k.tree(e, c)
	why := k.Uncaused(e, c)
	if why == "" || len(t.Rows)+len(t.Uncosted) == 0 {
		return t
	}
	named := false
	for _, rows := range [][]Row{t.Rows, t.Uncosted} {
		for i := range rows {
			named = named || rows[i].Cause != ""
			rows[i].Cause, rows[i].Advice = "", ""
		}
	}
	if named {
		t.Blind = append(t.Blind, "No cause is named: "+why+".")
	}
	return t
}

// tree returns the tree of a comparison with all causes.
func (k *Catalog) tree(e *result.Experiment, c *result.Comparison) Tree {
	if k == nil {
		k = &Catalog{}
	}
	t := Tree{Subject: c.Treatment, Baseline: c.Baseline, Case: c.Case, Per: "operation", From: e.StartedAt, To: e.StartedAt, Rows: []Row{}, Checks: []Check{}, Blind: []string{}}
	if e.EndedAt != nil {
		t.To = *e.EndedAt
	}
	for _, a := range RowsOf(e.Attribution, c) {
		if ev := eventOf(&a); ev == event(CPUAccount) || waiting(ev) {
			t.Active = t.Active.plus(extent(a.Delta, a.DeltaLow, a.DeltaHigh))
		}
	}
	var explained []Amount
	var kept *float64
	rest := 1.0 // or as the document keeps it
	for _, a := range RowsOf(e.Attribution, c) {
		row := k.compared(e, &a)
		if a.Share == nil {
			t.Uncosted = append(t.Uncosted, row)
			continue
		}
		row.Share = exactly(*a.Share)
		rest -= *a.Share
		if a.Unexplained != nil {
			kept = a.Unexplained
		}
		if t.Active.Value != 0 {
			low, high := row.Time.Low/t.Active.Value, row.Time.High/t.Active.Value
			row.Share.Low, row.Share.High = min(low, high, *a.Share), max(low, high, *a.Share)
		}
		explained = append(explained, row.Time)
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 {
		return t
	}
	t.TEE = t.group()
	t.Rows = foldCounters(t.Rows)
	t.Unexplained = t.Active.minus(sum(explained...))
	if kept != nil {
		rest = *kept
	}
	t.UnexplainedShare = exactly(rest)
	if t.Active.Value != 0 {
		share := t.Unexplained.scaled(1 / t.Active.Value)
		t.UnexplainedShare = Amount{rest, min(rest, share.Low, share.High), max(rest, share.Low, share.High)}
	}
	if rest < -leastOvershoot {
		t.Blind = append(t.Blind, fmt.Sprintf("The rows explain %s of the difference. A count or a cost of one event is too high, or a saving is not counted.", metric.Percent(1-rest)))
	}
	return t
}

// leastOvershoot is the smallest share explained beyond the whole that gets a remark.
const leastOvershoot = 0.05

// SmallCounters is the id of the row of a comparison's counters that explain little.
const SmallCounters = "counters"

// foldCounters moves the counters that explain little into one row, the last.
func foldCounters(rows []Row) []Row {
	var out []Row
	other := Row{ID: SmallCounters, Part: Kernel}
	for _, r := range rows {
		if math.Abs(r.Share.Value) >= smallShare {
			out = append(out, r)
			continue
		}
		other.Rows = append(other.Rows, r)
		other.Time, other.Share = other.Time.plus(r.Time), other.Share.plus(r.Share)
	}
	if len(other.Rows) < 2 {
		return rows
	}
	other.Title = fmt.Sprintf("%d other counters", len(other.Rows))
	return append(out, other)
}

// Trees returns the trees of a document's primary comparisons.
func (k *Catalog) Trees(e *result.Experiment) []Tree {
	out := []Tree{}
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; c.Primary {
			out = append(out, k.Compared(e, c))
		}
	}
	return out
}

// RowsOf returns the rows of a comparison.
func RowsOf(all []result.Attribution, c *result.Comparison) []result.Attribution {
	return slices.DeleteFunc(slices.Clone(all), func(a result.Attribution) bool {
		return a.Baseline != c.Baseline || a.Treatment != c.Treatment || a.Case != c.Case
	})
}

// compared returns the row of an attribution, without its share.
func (k *Catalog) compared(e *result.Experiment, a *result.Attribution) Row {
	ev := eventOf(a)
	r := Row{ID: a.Counter, Title: ev.Title(), Part: Kernel, Cause: a.Cause, Reason: a.Reason, TEE: ev.tee()}
	if ev.Metric == "" {
		r.Title = a.Counter
	}
	if x := k.named(a.Cause); x != nil {
		r.Advice = x.Remedy
	}
	amount := extent(a.Delta, a.DeltaLow, a.DeltaHigh)
	if a.Seconds != nil {
		r.Time = exactly(*a.Seconds)
	}
	if strings.HasSuffix(ev.Metric, "_seconds_total") {
		r.Time = amount
		if waiting(ev) {
			r.Part = Wait
		}
		return r
	}
	r.Rate = &amount
	if a.Base != nil {
		was := exactly(*a.Base)
		r.Base = &was
	}
	if a.UnitCost == nil {
		return r
	}
	unit := Unit{Amount: extent(*a.UnitCost, a.UnitLow, a.UnitHigh), Origin: Calibrated}
	switch p := k.price(ev); {
	case ev == costlierCalls:
		unit.Origin, unit.How = Measured, "cost of an empty system call in this arm, minus that in the baseline"
		if treat := e.Environment(a.Treatment); treat != nil && treat.Call != nil && treat.Call.Form != "" {
			unit.How += ", made by a " + treat.Call.Form + " program"
		}
	case ev.Metric == EnclaveFaults:
		unit.Origin, unit.How = Measured, faultsTimed
	case Timed[ev.Metric] != "":
		unit.Origin, unit.How = Measured, "their time in the runs of both arms, divided by their number"
	case ev.Metric == EnclaveEntries || ev.Metric == EnclaveExits:
		unit.How = "a call into or out of an enclave; this event is half of such a call, or all of it"
	case p != nil:
		unit.How = p.How
		if e.UnitCosts != nil {
			for _, u := range e.UnitCosts.Units {
				per := cmp.Or(p.Per, 1)
				if low, high := u.Low/per, u.High/per; u.Event == p.Event && low <= *a.UnitCost && *a.UnitCost <= high {
					unit.Low, unit.High = low, high
				}
			}
		}
	}
	if strings.Contains(a.Reason, orderOfMagnitude) {
		unit.Origin = Published
	}
	r.Unit = &unit
	r.Time = product(amount, unit.Amount)
	return r
}

// extent returns an amount, with its bounds if both are known.
func extent(v float64, low, high *float64) Amount {
	if low == nil || high == nil {
		return exactly(v)
	}
	return Amount{v, min(v, *low), max(v, *high)}
}

// product returns a difference, which may be negative, times a price.
func product(a, each Amount) Amount {
	if a.Value < 0 {
		p := Amount{-a.Value, -a.High, -a.Low}.times(each)
		return Amount{-p.Value, -p.High, -p.Low}
	}
	return a.times(each)
}

// Title returns the event in words.
func (e Event) Title() string {
	switch {
	case e == costlierCalls:
		return "system calls at a different cost"
	case e.Metric == CallCount && e.Label("syscall") != "":
		return e.Label("syscall")
	case e.Metric == CallCount:
		return "system calls"
	case e.Metric == SwitchCount && e.Label("kind") != "":
		return e.Label("kind") + " switches"
	case e.Metric == FaultCount && e.Label("cause") != "":
		return strings.TrimSuffix(strings.TrimSuffix("page faults ("+plain(e.Label("cause"))+", "+e.Label("space"), ", user"), ", ") + ")"
	case e.Metric == WaitSamples && e.Label("call") != "":
		return strings.TrimSpace("waiting, " + e.Label("state") + ", in " + e.Label("call"))
	case e.Metric == CPUAccount:
		return "CPU time"
	case e.Metric == EnclaveFaults:
		return "faults on enclave memory"
	case e.Metric == BounceTime && e.Label("operation") != "":
		return fmt.Sprintf("bounce buffers (%s, in context %s)", e.Label("operation"), e.Label("context"))
	case e.Metric == EnclaveEntries && e.Label("runtime") != "":
		return "enclave entries (" + plain(e.Label("runtime")) + ")"
	case e.Metric == EnclaveExits && e.Label("runtime") != "":
		return "enclave exits (" + plain(e.Label("runtime")) + ")"
	}
	name := metric.Words(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(e.Metric, "tee_"), "_total"), "_seconds"))
	var kinds []string
	for _, l := range e.labels {
		if l.value != "" && l.name != "space" {
			kinds = append(kinds, plain(l.value))
		}
	}
	if kinds != nil {
		name += " (" + strings.Join(kinds, ", ") + ")"
	}
	return name
}
