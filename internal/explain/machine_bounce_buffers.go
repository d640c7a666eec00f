package explain

import "github.com/teescope/teescope/internal/findings"

// bounceBuffers are copies between private memory and memory that devices reach
// (https://docs.kernel.org/core-api/swiotlb.html).
var bounceBuffers = machineKind{
	reads: []machineSeries{{name: BouncedBytes, by: "device"}},
	rows: func(l *Ledger) []Row {
		all := Row{ID: "bounce_buffers", Title: "bytes through bounce buffers", Part: Kernel, Cause: "bounce_buffers"}
		total := 0.0
		for _, e := range eventsIn(l.shared, BouncedBytes) {
			v := l.shared[e]
			if v <= 0 {
				continue
			}
			rate := exactly(v)
			device := e.Label("device")
			r := Row{ID: "bounce_buffers:" + device, Title: device, Part: Kernel, Rate: &rate,
				Evidence: []findings.Evidence{{Text: "bytes of " + device + " through bounce buffers", Value: v, Unit: "bytes/s", Expr: "sum(" + l.machineRate(BouncedBytes, matchers("device", device)) + ")"}}}
			l.priceAll(&r, e)
			r.Reason = "" // the whole's says it
			total += v
			all.Rows = append(all.Rows, r)
		}
		if total == 0 {
			return nil
		}
		rate := exactly(total)
		all.Rate = &rate
		l.priceAll(&all, event(BouncedBytes))
		if all.Unit != nil {
			all.Reason = "at least: one copy of each byte within the nearest cache; what is read is copied twice"
		}
		all.Evidence = []findings.Evidence{{Text: "bytes through bounce buffers", Value: total, Unit: "bytes/s", Expr: "sum(" + l.machineRate(BouncedBytes) + ")"}}
		return []Row{all}
	},
}
