package explain

import "github.com/teescope/teescope/internal/query"

// enclavePaging is the eviction of enclave pages, by ksgxd and by threads that need a page at once. For these threads
// it is part of their faults on enclave memory.
var enclavePaging = machineKind{
	reads: append(histogram(ReclaimTime, "context", ""), machineSeries{name: ReclaimerCPU},
		machineSeries{name: LoadedBack}, machineSeries{name: Interrupts, matchers: shootdowns}),
	rows: func(l *Ledger) (out []Row) {
		series := histogram(ReclaimTime, "", "")
		if r, ok := l.timed("reclaim", "batches of EPC pages evicted by threads that need a free page", series, labelIs("context", "direct"), query.MatchersFor("context", "direct")); ok {
			r.Cause = "epc_paging"
			out = append(out, r)
		}
		if v := l.shared[event(ReclaimerCPU)]; v > 0 {
			out = append(out, Row{ID: "ksgxd", Title: "evicting EPC pages in the background (ksgxd)", Part: Kernel, Time: exactly(v), Cause: "epc_paging",
				Evidence: []query.Evidence{cores("CPU time of ksgxd", v, l.machine.Rate(ReclaimerCPU))}})
		}
		if l.faultTime.Value <= 0 {
			out = append(out, l.loadedBack()...)
		}
		if out == nil {
			return nil
		}
		return append(out, l.shotDown()...)
	},
}

// loadedBack returns the row of pages loaded back, for drivers that count them and whose time is not measured.
func (l *Ledger) loadedBack() []Row {
	v := l.shared[event(LoadedBack)]
	if !(v > 0) {
		return nil
	}
	rate := exactly(v)
	r := Row{ID: "loaded_back", Title: "pages loaded back into the EPC", Part: Kernel, Rate: &rate, Cause: "epc_paging", Reason: notPriced,
		Evidence: []query.Evidence{perSecond("pages loaded back into the EPC", v, l.machine.Rate(LoadedBack))}}
	if each, ok := l.unitOf(l.price(event(LoadedBack))); ok {
		r.Unit, r.Time, r.Reason = &each, rate.times(each.Amount), orderOfMagnitude+each.How
	}
	return []Row{r}
}

// shootdowns are the interrupts by which one CPU has others call a function (CAL): to drop a translation, and to make
// threads leave an enclave whose pages the SGX driver evicts. Those for translations are counted once more as TLB, but
// since Linux 4.8 they are not taken out of CAL (arch/x86/kernel/irq.c).
const shootdowns = `type="CAL"`

// shotDown returns the row of shootdowns, which has no price: where an interrupt finds a thread in an enclave, its cost
// is that of an asynchronous exit.
func (l *Ledger) shotDown() []Row {
	v := l.shared[event(Interrupts)]
	if !(v > 0) {
		return nil
	}
	rate := exactly(v)
	return []Row{{ID: "shootdowns", Title: "shootdowns: interrupts between CPUs", Part: Kernel, Rate: &rate,
		Reason:   "other programs cause them too, and " + notPriced + "; a thread that is interrupted in its enclave leaves it by an asynchronous exit",
		Evidence: []query.Evidence{perSecond("interrupts between CPUs", v, l.machine.Rate(Interrupts, shootdowns))}}}
}
