package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// kinds are the parts that the time of a process is divided into, each in a file of its own (row_NAME.go). Their
// times are cores and threads, not yet with their shares.
var kinds = []func(*Ledger) []row{
	calls,
	faults,
	regions,
	otherModes,
	waits,
	enclaveFaults,
	transitions,
	bounces,
	memory,
}

// row is a Row under construction.
type row struct {
	Row
	// hidden is the part of the time of a system call or page fault that the sampling clock attributes to the process
	// itself: interrupts are off on the way in and out, so the clock's interrupt arrives after the kernel has been
	// left.
	hidden Amount
	// within is the id of the row whose sampled time includes this one's, "" for none.
	within string
	// bounced: the time in bounce buffers has been taken out.
	bounced bool
}

// own is the id of the row of the process's own computing.
const own = "own"

// unseen moves the hidden part into the row, if it is calibrated.
func (r *row) unseen(rate, unit Amount, calibrated bool) {
	if calibrated {
		r.hidden = rate.times(unit)
		r.Time = r.Time.plus(r.hidden)
	}
}

// rows returns all rows of a window. price prices those without a price.
func (l *Ledger) rows(price func([]row) error) ([]row, error) {
	var out []row
	for _, kind := range kinds {
		out = append(out, kind(l)...)
	}
	if err := price(out); err != nil || !l.has(CPUSamples) {
		return out, err
	}
	time := l.sampled("cpu", l.counted[event(CPUSamples, "mode", "user")])
	for _, r := range out {
		time = time.minus(r.hidden)
	}
	out = append(out, row{Row: Row{ID: own, Title: "user code", Part: User, Time: time, Evidence: l.cpuEvidence("user", "")}})
	for i := range out {
		if j := slices.IndexFunc(out, func(o row) bool { return o.ID == out[i].within }); j >= 0 {
			out[j].subtract(&out[i])
		}
	}
	// If more time belongs elsewhere than was sampled, the rows explain too much; the rest shows that.
	return slices.DeleteFunc(out, func(r row) bool { return (r.ID == own || r.ID == "faults" || r.bounced) && r.Time.Value <= 0 }), nil
}

// subtract subtracts a part from the row whose sampled time includes it. Events that both count, such as entering the
// kernel, take their part of the remainder too.
func (r *row) subtract(part *row) {
	r.Time = r.Time.minus(part.Time)
	if r.Rate == nil || part.Unit == nil || r.Time.Value <= 0 || r.Rate.Value < part.Rate.Value {
		return
	}
	whole := r.Time
	of := part.Rate.Value / r.Rate.Value
	part.Time, r.Time = part.Time.plus(whole.scaled(of)), whole.scaled(1-of)
	part.Unit = &Unit{part.Time.dividedBy(*part.Rate), Measured, part.Unit.How + "; with their part of the rest of the time sampled in " + r.Title}
	rate := r.Rate.minus(*part.Rate)
	r.Rows, r.Rate, r.Unit = nil, &rate, nil
	if rate.Value > 0 {
		r.Unit = measured(r.Time, rate, "the other "+r.Title)
	}
}

// priced returns a part of a row that is known only by its price.
func (l *Ledger) priced(id, title string, price *Price, rate Amount, evidence ...query.Evidence) (Row, bool) {
	if price == nil {
		return Row{}, false
	}
	each, ok := l.unit(price.Event)
	unit := Unit{each, Calibrated, price.How}
	return Row{ID: id, Title: title, Part: Kernel, Rate: &rate, Unit: &unit, Time: rate.times(each), Evidence: evidence}, ok
}

// measured returns the cost of one event: the sampled time of all of them divided by their number.
func measured(time, rate Amount, what string) *Unit {
	return &Unit{time.dividedBy(rate), Measured, "time in " + what + " by the sampling clock, divided by their number"}
}

// splitTime splits a time into a priced part and the rest. A price above the time leaves no rest, and fails a check.
func splitTime(whole Amount, part, rest Row) []Row {
	rest.Time = whole.minus(part.Time)
	if rest.Time.Value <= 0 {
		return []Row{part}
	}
	rest.Time.Low = max(0, rest.Time.Low) // a price up to its upper bound may be all of it
	return []Row{part, rest}
}

// SmallCalls is the id of the row of the calls with little time.
const SmallCalls = "syscalls"

// smallShare is the share of the active time below which calls are folded.
const smallShare = 0.005

// fold combines the calls with little time into one row.
func (l *Ledger) fold(rows []Row) []Row {
	var out, small []Row
	for _, r := range rows {
		if r.event.Metric == CallCount && r.Share.Value < smallShare {
			small = append(small, r)
		} else {
			out = append(out, r)
		}
	}
	if len(small) < 2 {
		return rows
	}
	other := Row{ID: SmallCalls, Title: fmt.Sprintf("%d other system calls", len(small)), Part: Kernel, Rows: small}
	v := 0.0
	var names []string
	for _, r := range small {
		other.Time, other.Share = other.Time.plus(r.Time), other.Share.plus(r.Share)
		name := r.event.Label("syscall")
		v += l.counted[event(CPUSamples, "mode", "kernel", "call", name)]
		names = append(names, name)
	}
	slices.Sort(names)
	if v > 0 {
		match := fmt.Sprintf("call=~%q", strings.Join(names, "|"))
		other.Evidence = []query.Evidence{cores("CPU time in them", v, l.process.Rate(CPUSamples, query.MatchersFor("mode", "kernel"), match))}
	}
	return append(out, other)
}

func cores(text string, v float64, expr string) query.Evidence {
	return query.Evidence{Text: text, Value: v, Unit: "cores", Expr: "sum(" + expr + ")"}
}

func perSecond(text string, v float64, expr string) query.Evidence {
	return query.Evidence{Text: text, Value: v, Unit: "1/s", Expr: "sum(" + expr + ")"}
}

// cpuEvidence returns the sampling clock's evidence, if there are samples.
func (l *Ledger) cpuEvidence(mode, call string) []query.Evidence {
	v, seen := l.counted[event(CPUSamples, "mode", mode, "call", call)]
	if !seen {
		return nil
	}
	what := "CPU time in " + call
	if mode == "user" {
		what = strings.TrimSpace("CPU time outside the kernel " + call)
	}
	return []query.Evidence{cores(what, v, l.process.Rate(CPUSamples, query.MatchersFor("mode", mode, "call", call)))}
}

func (l *Ledger) modeEvidence(mode string) []query.Evidence {
	return []query.Evidence{cores("CPU time in mode "+mode, l.total(CPUSamples, labelIs("mode", mode)), l.process.Rate(CPUSamples, query.MatchersFor("mode", mode)))}
}

// plain returns a label's value in words.
func plain(value string) string { return metric.Words(value) }
