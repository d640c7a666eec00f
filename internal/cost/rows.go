package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/cause"
)

// priced is a part of a row that is known by its price alone.
type priced struct {
	id, title string
	rate      Amount
	unit      Unit
	evidence  []analysis.Evidence
}

func (p priced) row(part Part) Row {
	return Row{ID: p.id, Title: p.title, Part: part, Rate: &p.rate, Unit: &p.unit, Time: p.rate.times(p.unit.Amount), Evidence: p.evidence}
}

// rows are all rows, not yet with their shares. Their times are cores and threads.
func (r *reading) rows() []Row {
	if len(r.cpu) == 0 {
		return append(r.pricedRows(), r.waitRows()...)
	}
	var out []Row
	own := r.sampled("cpu", r.cpu[doing{"user", ""}])
	entered := append(r.callRows(), r.faultRows()...)
	for _, e := range entered {
		own = own.minus(e.hidden)
		out = append(out, e.Row)
	}
	// Where more is hidden than was seen in user mode, the rows explain too much, which the rest shows.
	if own.Value > 0 {
		out = append(out, Row{ID: "own", Title: "own computing", Part: User, Time: own, Evidence: r.cpuEvidence("user", "")})
	}
	out = append(out, r.regionRows()...)
	for _, m := range []struct{ mode, id, title string }{
		{"interrupt", "interrupts", "interrupts"},
		{"thread", "thread", "kernel thread"},
	} {
		if v := total(r.cpu, func(d doing) bool { return d.mode == m.mode }); v > 0 {
			out = append(out, Row{ID: m.id, Title: m.title, Part: Kernel, Time: r.sampled("cpu", v), Evidence: r.modeEvidence(m.mode)})
		}
	}
	return append(out, r.waitRows()...)
}

// entryRow is a row of a system call or of page faults, with the part of its time
// that the sampling clock took for the process's own: on the way in and out
// interrupts are off, and the clock's interrupt comes when the kernel has been left.
type entryRow struct {
	Row
	hidden Amount
}

// unseen moves that part into the row, where it is calibrated.
func (e *entryRow) unseen(rate, unit Amount, calibrated bool) {
	if calibrated {
		e.hidden = rate.times(unit)
		e.Time = e.Time.plus(e.hidden)
	}
}

// folded is the name under which calls are counted that found the table of names
// full: the time in them is in the rows of the calls that they are.
const folded = "other"

func (r *reading) callRows() []entryRow {
	names := map[string]bool{}
	for d := range r.cpu {
		// Kernel time without a call is explained by nothing, and stays in the rest.
		names[d.call] = names[d.call] || d.mode == "kernel" && d.call != "" && !isRegion(d)
	}
	unseen, hides := r.unit("syscall_unseen")
	for c, rate := range r.calls {
		names[c] = names[c] || hides && rate > 0
	}
	delete(names, "")
	var out []entryRow
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			continue
		}
		row := entryRow{Row: Row{ID: "syscall:" + name, Title: name, Part: Kernel, Evidence: r.cpuEvidence("kernel", name)}}
		row.Time = r.sampled("cpu", r.cpu[doing{"kernel", name}])
		if v, counted := r.calls[name]; counted && v > 0 {
			rate := r.rated("syscalls", v)
			row.unseen(rate, unseen, hides)
			row.Rate = &rate
			row.Evidence = append(row.Evidence, r.callEvidence(name))
			if name == folded {
				row.Title = "calls not told apart"
			}
			if name == folded || r.partly(name) {
				out = append(out, row)
				continue
			}
			row.Unit = &Unit{Amount: row.Time.over(rate), Origin: Measured, How: "time in the call by the sampling clock, divided by the number of calls"}
			if entry, ok := r.entry(name, rate); ok {
				row.Rows = inside(row.Time, entry.row(Kernel), Row{ID: "inside:" + name, Title: "the call's own work", Part: Kernel})
			}
		}
		out = append(out, row)
	}
	return out
}

// partly says whether some of a call's time is in the row of a region that may have
// made it: then its time and its rate are not of the same calls.
func (r *reading) partly(call string) bool {
	within := total(r.cpu, func(d doing) bool { return d.mode == "kernel" && isRegion(d) })
	return within > 0 && (cause.OfCall(call) == nil || call == "getrandom")
}

// entry prices getting into a call and out again: what a call that does nothing costs.
func (r *reading) entry(call string, rate Amount) (priced, bool) {
	cost, ok := r.unit("syscall")
	return priced{id: "entry:" + call, title: "getting in and out", rate: rate,
		unit: Unit{cost, Calibrated, "a system call that does nothing, timed on this machine"}, evidence: []analysis.Evidence{r.callEvidence(call)}}, ok
}

// inside splits a time into a part that is priced and the rest of it. A price above
// the time leaves no rest, and fails a check.
func inside(whole Amount, part, rest Row) []Row {
	rest.Time = whole.minus(part.Time)
	if rest.Time.Value <= 0 {
		return []Row{part}
	}
	return []Row{part, rest}
}

// regions are what the sampling clock tells apart and is no system call.
var regions = map[string]string{"tls_handshake": "TLS handshakes (OpenSSL)", "guest": "running virtual machines"}

// isRegion says whether time counts for a region: its calls are a part of it.
func isRegion(d doing) bool {
	return d.mode == "user" && d.call != "" || d.mode == "kernel" && regions[d.call] != ""
}

func (r *reading) regionRows() (out []Row) {
	times := map[string]float64{}
	for d, v := range r.cpu {
		if isRegion(d) {
			times[d.call] += v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		row := Row{ID: "region:" + name, Title: cmp.Or(regions[name], name), Part: User, Time: r.sampled("cpu", times[name]),
			Evidence: []analysis.Evidence{cores("CPU time in "+name+", its system calls included", times[name], r.rate(cpuSamples, matchers("call", name)))}}
		if name == "tls_handshake" && r.handshakes > 0 {
			rate := exactly(r.handshakes)
			row.Rate = &rate
			row.Unit = &Unit{row.Time.over(rate), Measured, "time in handshakes by the sampling clock, divided by their number"}
			row.Evidence = append(row.Evidence, perSecond("TLS handshakes", r.handshakes, r.rate(handshakeCount)))
		}
		out = append(out, row)
	}
	return out
}

func (r *reading) faultRows() []entryRow {
	v := total(r.cpu, func(d doing) bool { return d.mode == "fault" })
	if v <= 0 {
		return nil
	}
	row := entryRow{Row: Row{ID: "faults", Title: "page faults", Part: Kernel, Time: r.sampled("cpu", v), Evidence: r.modeEvidence("fault")}}
	if number := r.faultRate(); number > 0 {
		rate := r.rated("faults", number)
		unseen, hides := r.unit("fault_unseen")
		row.unseen(rate, unseen, hides)
		row.Rate = &rate
		row.Unit = &Unit{row.Time.over(rate), Measured, "time in page faults by the sampling clock, divided by their number"}
		row.Evidence = append(row.Evidence, perSecond("page faults outside the kernel", number, r.rate(faultCount, `space="user"`)))
		row.Rows = r.pricedFaults()
	}
	return []entryRow{row}
}

// faultRate is how many page faults the process takes outside the kernel in a second.
func (r *reading) faultRate() (sum float64) {
	for _, n := range r.faults {
		sum += n
	}
	return sum
}

// pricedFaults are the faults whose price is calibrated, by cause.
func (r *reading) pricedFaults() (out []Row) {
	for _, cause := range slices.Sorted(maps.Keys(r.faults)) {
		cost, ok := r.unit("fault_" + cause)
		if v := r.faults[cause]; ok && v > 0 {
			out = append(out, priced{"fault:" + cause, "faults, " + strings.ReplaceAll(cause, "_", " "), r.rated("faults", v),
				Unit{cost, Calibrated, "such a fault of one page, timed on this machine; one that waits for a disk takes longer"},
				[]analysis.Evidence{perSecond("page faults, "+cause, v, r.rate(faultCount, `space="user"`, matchers("cause", cause)))},
			}.row(Kernel))
		}
	}
	return out
}

// pricedRows explain what can be explained where nothing is sampled: the prices of
// coming into the kernel, and no more.
func (r *reading) pricedRows() (out []Row) {
	for _, call := range slices.Sorted(maps.Keys(r.calls)) {
		if v := r.calls[call]; v > 0 {
			if entry, ok := r.entry(call, r.rated("syscalls", v)); ok {
				row := entry.row(Kernel)
				row.ID, row.Title = "syscall:"+call, call+" (entry only)"
				out = append(out, row)
			}
		}
	}
	if parts := r.pricedFaults(); len(parts) > 0 {
		row := Row{ID: "faults", Title: "page faults", Part: Kernel, Rows: parts}
		for _, p := range parts {
			row.Time = row.Time.plus(p.Time)
			row.Evidence = append(row.Evidence, p.Evidence...)
		}
		out = append(out, row)
	}
	return out
}

// waits are the states in which a thread has work and is kept from it. Waiting for a
// CPU is Tree.Queued.
var waits = []struct{ id, state, title string }{
	{"lock", "lock", "waiting for locks"},
	{"disk", "disk", "waiting for disks"},
}

func (r *reading) waitRows() (out []Row) {
	sync := `"` + strings.Join(cause.SyncCalls, "|") + `"`
	for _, w := range waits {
		selector := matchers("state", w.state)
		add := func(id, title string, is func(call string) bool, more ...string) {
			v := total(r.waits, func(d doing) bool { return d.mode == w.state && is(d.call) })
			if v > 0 {
				out = append(out, Row{ID: id, Title: title, Part: Wait, Time: r.waited(w.state, v), Evidence: []analysis.Evidence{
					{Text: "threads " + title, Value: v, Expr: "sum(" + r.rate(waitSamples, append(more, selector)...) + ")"}}})
			}
		}
		if w.id != "disk" {
			add(w.id, w.title, func(string) bool { return true })
			continue
		}
		syncs := func(call string) bool { return slices.Contains(cause.SyncCalls, call) }
		add("durable", "waiting for data on disk", syncs, "call=~"+sync)
		add(w.id, w.title, func(call string) bool { return !syncs(call) }, "call!~"+sync)
	}
	return out
}

// fold puts the calls that take little into one row.
func (r *reading) fold(rows []Row) []Row {
	var out, small []Row
	for _, row := range rows {
		if strings.HasPrefix(row.ID, "syscall:") && row.Share.Value < smallShare {
			small = append(small, row)
		} else {
			out = append(out, row)
		}
	}
	if len(small) < 2 {
		return rows
	}
	other := Row{ID: SmallCalls, Title: fmt.Sprintf("%d other system calls", len(small)), Part: Kernel, Rows: small}
	names := map[string]bool{}
	for _, row := range small {
		other.Time, other.Share = other.Time.plus(row.Time), other.Share.plus(row.Share)
		names[strings.TrimPrefix(row.ID, "syscall:")] = true
	}
	match := `call=~"` + strings.Join(slices.Sorted(maps.Keys(names)), "|") + `"`
	if v := total(r.cpu, func(d doing) bool { return d.mode == "kernel" && names[d.call] }); v > 0 {
		other.Evidence = []analysis.Evidence{cores("CPU time in them", v, r.rate(cpuSamples, matchers("mode", "kernel"), match))}
	}
	return append(out, other)
}

// SmallCalls is the id of the row of the calls that take little.
const SmallCalls = "syscalls"

// smallShare is the share of the active time below which calls are not told apart.
const smallShare = 0.005

func cores(text string, v float64, expr string) analysis.Evidence {
	return analysis.Evidence{Text: text, Value: v, Unit: "cores", Expr: "sum(" + expr + ")"}
}

func perSecond(text string, v float64, expr string) analysis.Evidence {
	return analysis.Evidence{Text: text, Value: v, Unit: "1/s", Expr: "sum(" + expr + ")"}
}

// cpuEvidence is what the sampling clock saw, if it saw it at all.
func (r *reading) cpuEvidence(mode, call string) []analysis.Evidence {
	v, seen := r.cpu[doing{mode, call}]
	if !seen {
		return nil
	}
	what := "CPU time in " + call
	if mode == "user" {
		what = strings.TrimSpace("CPU time outside the kernel " + call)
	}
	return []analysis.Evidence{cores(what, v, r.rate(cpuSamples, matchers("mode", mode, "call", call)))}
}

func (r *reading) modeEvidence(mode string) []analysis.Evidence {
	v := total(r.cpu, func(d doing) bool { return d.mode == mode })
	return []analysis.Evidence{cores("CPU time in mode "+mode, v, r.rate(cpuSamples, matchers("mode", mode)))}
}

func (r *reading) callEvidence(call string) analysis.Evidence {
	return perSecond(call+" calls", r.calls[call], r.rate(callCount, matchers("syscall", call)))
}
