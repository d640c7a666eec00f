package explain

import "github.com/teescope/teescope/internal/query"

// transitions has a row for calls into and out of enclaves, and one for asynchronous
// exits, whose cost nothing tells.
func transitions(l *Ledger) (out []row) {
	entries, exits := l.total(EnclaveEntries, everything), l.total(EnclaveExits, everything)
	if entries+exits > 0 {
		// Some runtimes show calls into an enclave as entries and calls out of it as exits,
		// others both halves of each call: the number of calls lies between.
		most, least := entries+exits, max(entries, exits)
		rate := Amount{(most + least) / 2, least, most}
		r := row{within: own, Row: Row{event: event(EnclaveEntries), ID: "transitions", Title: "calls into and out of enclaves", Part: User, TEE: true, Rate: &rate}}
		for _, side := range []struct {
			text, metric string
			v            float64
		}{{"entries into enclaves", EnclaveEntries, entries}, {"exits from enclaves", EnclaveExits, exits}} {
			if side.v > 0 {
				r.Evidence = append(r.Evidence, perSecond(side.text, side.v, l.process.Rate(side.metric)))
			}
		}
		if unit, ok := l.unitOf(l.priceNamed("enclave_transition")); ok {
			r.Unit, r.Time = &unit, rate.times(unit.Amount)
			switch unit.Origin {
			case Published:
				r.Reason = orderOfMagnitude + unit.How
			case Calibrated:
				r.Reason = "at least: only entering and leaving, without the runtime's work in each call"
			}
		} else {
			r.Reason = notPriced
		}
		out = append(out, r)
	}
	if v := l.total(EnclaveAsyncExits, everything); v > 0 {
		rate := exactly(v)
		out = append(out, row{Row: Row{ID: "async_exits", Title: "asynchronous exits from enclaves", Part: User, TEE: true, Rate: &rate, Reason: notPriced,
			Evidence: []query.Evidence{perSecond("asynchronous exits", v, l.process.Rate(EnclaveAsyncExits))}}})
	}
	return out
}
