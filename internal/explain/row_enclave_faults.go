package explain

import "github.com/teescope/teescope/internal/query"

// faultsTimed describes the origin of a fault's time.
const faultsTimed = "time of the SGX driver in faults on enclave memory, of all processes, divided by their number"

// enclaveFaults returns a row for page faults on enclave memory: how many the process has, and the SGX driver's time
// for one. If most load a page back, the EPC is too small.
func enclaveFaults(l *Ledger) []row {
	v := l.kindlessTotal(EnclaveFaults)
	if !(v > 0) {
		return nil
	}
	rate := l.counts(EnclaveFaults, v)
	r := row{within: "faults", Row: Row{event: event(EnclaveFaults), ID: "enclave_faults", Title: "faults on enclave memory", Part: Kernel, TEE: true, Rate: &rate,
		Evidence: []query.Evidence{perSecond("page faults on enclave memory", v, l.process.Rate(EnclaveFaults))}}}
	if loaded := l.total(EnclavePages, labelIs("operation", "loaded_back")); loaded > 0 {
		r.Evidence = append(r.Evidence, perSecond("pages loaded back into the EPC", loaded, l.process.Rate(EnclavePages, query.MatchersFor("operation", "loaded_back"))))
	}
	if l.faultTime.Value <= 0 {
		r.Reason = "the time of one fault was not measured"
		return []row{r}
	}
	r.Unit = &Unit{l.faultTime, Measured, faultsTimed}
	r.Time = rate.times(l.faultTime)
	r.Evidence = append(r.Evidence, query.Evidence{Text: "mean time of the SGX driver for one", Value: l.faultTime.Value, Unit: "seconds", Expr: l.eachOf(EnclaveFaultTime)(l.machine.Over)})
	return []row{r}
}
