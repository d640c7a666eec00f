package explain

import "github.com/teescope/teescope/internal/query"

// faults returns a row for page faults: their sampled time, and below it the calibrated cost by cause, which checks
// it.
func faults(l *Ledger) []row {
	r := row{Row: Row{event: event(FaultCount, "space", "user"), ID: "faults", Title: "page faults", Part: Kernel, Rows: l.pricedFaults()}}
	if !l.has(CPUSamples) {
		if len(r.Rows) == 0 {
			return nil
		}
		for _, p := range r.Rows {
			r.Time = r.Time.plus(p.Time)
			r.Evidence = append(r.Evidence, p.Evidence...)
		}
		return []row{r}
	}
	sampled := l.total(CPUSamples, labelIs("mode", "fault"))
	if sampled <= 0 {
		return nil
	}
	r.Time, r.Evidence = l.sampled("cpu", sampled), l.modeEvidence("fault")
	number := l.faultRate()
	if number <= 0 {
		r.Rows = nil
		return []row{r}
	}
	rate := l.rated("faults", number)
	unseen, hides := l.unit("fault_unseen")
	r.unseen(rate, unseen, hides)
	r.Rate, r.Unit = &rate, measured(r.Time, rate, "page faults")
	r.Evidence = append(r.Evidence, perSecond("page faults outside the kernel", number, l.process.Rate(FaultCount, userSpace)))
	return []row{r}
}

// faultRate returns the process's page faults outside the kernel per second.
func (l *Ledger) faultRate() float64 { return l.total(FaultCount, everything) }

// pricedFaults returns the faults with a calibrated price, by cause.
func (l *Ledger) pricedFaults() (out []Row) {
	for _, e := range l.events(FaultCount) {
		cause := e.Label("cause")
		if v := l.counted[e]; v > 0 {
			if r, ok := l.priced("fault:"+cause, "faults, "+plain(cause), l.price(e), l.rated("faults", v),
				perSecond("page faults, "+cause, v, l.process.Rate(FaultCount, userSpace, query.MatchersFor("cause", cause)))); ok {
				out = append(out, r)
			}
		}
	}
	return out
}
