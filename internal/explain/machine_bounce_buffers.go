package explain

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/query"
)

// bounceBuffers are copies between private memory and memory that devices reach
// (https://docs.kernel.org/core-api/swiotlb.html).
var bounceBuffers = machineKind{
	reads: []machineSeries{{name: BouncedBytes, by: "device"}, {name: BounceTime, by: "operation, context"}, {name: BounceFailures}},
	rows: func(l *Ledger) []Row {
		rows := l.bounced()
		if v := l.shared[event(BounceFailures)]; v > 0 {
			if rows == nil { // none fitted
				rate := exactly(v)
				rows = []Row{{ID: "bounce_buffers", Title: "mappings that failed because the pool of bounce buffers was full", Part: Kernel, Rate: &rate}}
			}
			r := &rows[0]
			r.Cause = "bounce_buffers"
			r.Evidence = append(r.Evidence, perSecond("mappings that failed because the pool was full", v, l.machine.Rate(BounceFailures)))
			r.Reason = strings.TrimPrefix(r.Reason+"; the pool was full, and it is unknown how long requests then wait", "; ")
		}
		return rows
	},
}

// bounced returns the row at its best price.
func (l *Ledger) bounced() []Row {
	whole := Row{ID: "bounce_buffers", Title: "bytes through bounce buffers", Cause: "bounced_io"}
	time := 0.0
	for _, e := range eventsIn(l.shared, BounceTime) {
		time += l.shared[e]
	}
	if time > 0 {
		return l.timedBounces(whole, time)
	}
	return l.byLabel(whole, BouncedBytes, "device", "bytes/s",
		"at least: one copy of each byte within the nearest cache; data that is read is copied twice")
}

// timedBounces returns the row if the kernel's functions are timed: by device, at the mean price of a byte.
func (l *Ledger) timedBounces(whole Row, time float64) []Row {
	bytes := 0.0
	for _, e := range eventsIn(l.shared, BouncedBytes) {
		bytes += l.shared[e]
	}
	whole.Part, whole.Time = Kernel, l.counts(BounceTime, time)
	whole.Evidence = []query.Evidence{cores("time in the kernel's functions of bounce buffers", time, l.machine.Rate(BounceTime))}
	for _, e := range eventsIn(l.shared, BounceTime) {
		operation, context := e.Label("operation"), e.Label("context")
		if v := l.shared[e]; v > 0 {
			whole.Evidence = append(whole.Evidence, cores(fmt.Sprintf("%s, in context %s", operation, context), v,
				l.machine.Rate(BounceTime, query.MatchersFor("operation", operation, "context", context))))
		}
	}
	if !(bytes > 0) {
		return []Row{whole}
	}
	rate := l.counts(BouncedBytes, bytes)
	whole.Rate = &rate
	whole.Unit = &Unit{exactly(time / bytes), Measured, "the time of the kernel's functions of bounce buffers in this window, divided by the bytes"}
	whole.Evidence = append(whole.Evidence, query.Evidence{Text: whole.Title, Value: bytes, Unit: "bytes/s", Expr: "sum(" + l.machine.Rate(BouncedBytes) + ")"})
	for _, e := range eventsIn(l.shared, BouncedBytes) {
		if v := l.shared[e]; v > 0 {
			rate, device := l.counts(BouncedBytes, v), e.Label("device")
			whole.Rows = append(whole.Rows, Row{ID: whole.ID + ":" + device, Title: device, Part: Kernel, Rate: &rate, Unit: whole.Unit, Time: rate.times(whole.Unit.Amount),
				Evidence: []query.Evidence{{Text: device, Value: v, Unit: "bytes/s", Expr: "sum(" + l.machine.Rate(BouncedBytes, query.MatchersFor("device", device)) + ")"}}})
		}
	}
	if len(whole.Rows) > 1 {
		whole.Reason = "devices at the mean cost of a byte"
	}
	return []Row{whole}
}
