package explain

import "github.com/teescope/teescope/internal/query"

// acceptance is memory that a confidential guest accepts (takes into its protection) on first use. Where the kernel's
// function is not timed, each byte costs at least a copy: accepting a page clears it.
var acceptance = machineKind{
	reads: append(histogram(AcceptTime, "", ""), machineSeries{name: AcceptedBytes}),
	rows: func(l *Ledger) []Row {
		r, timed := l.timed("acceptance", "calls that accept memory", histogram(AcceptTime, "", ""), everything)
		expr := "sum(" + l.machine.Rate(AcceptedBytes) + ")"
		if !timed {
			return l.copied(Row{ID: "acceptance", Title: "bytes of memory accepted", Advice: acceptEarly}, event(AcceptedBytes), expr,
				"at least: one pass over each byte within the nearest cache, without the call that accepts a page")
		}
		r.Advice = acceptEarly
		if v := l.shared[event(AcceptedBytes)]; v > 0 {
			r.Evidence = append(r.Evidence, query.Evidence{Text: "bytes of memory accepted", Value: v, Unit: "bytes/s", Expr: expr})
		}
		return []Row{r}
	},
}

const acceptEarly = "Accept all memory before the work begins: boot with accept_memory=eager, or touch it once."
