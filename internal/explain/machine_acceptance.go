package explain

import "github.com/teescope/teescope/internal/findings"

// acceptance is memory that a confidential guest takes into its protection when it is
// first needed.
var acceptance = machineKind{
	reads: []machineSeries{{name: AcceptedBytes}},
	rows: func(l *Ledger) []Row {
		v := l.shared[event(AcceptedBytes)]
		if v <= 0 {
			return nil
		}
		rate := exactly(v)
		return []Row{{ID: "acceptance", Title: "bytes of memory accepted", Part: Kernel, Rate: &rate, Reason: notPriced,
			Evidence: []findings.Evidence{{Text: "bytes of memory accepted", Value: v, Unit: "bytes/s", Expr: "sum(" + l.machineRate(AcceptedBytes) + ")"}}}}
	},
}
