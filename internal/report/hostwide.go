package report

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

// hostTable shows the events of the whole machine and of its helpers next to those of the workload, as figure 11 of
// the TEEMon paper (Middleware 2020).
func hostTable(e *result.Experiment, kase string) *Table {
	host := tabulate(e, kase, true, func(r *result.Run) []result.Counter { return r.HostCounters })
	own := tabulate(e, kase, true, ofWorkload)
	cols := []string{"counter", "of"}
	for i := range e.Environments {
		cols = append(cols, orDefault(e.Environments[i].ID, "unnamed"))
	}
	t := newTable("", cols...)
	row := func(k counted, of string) {
		name, unit := orDefault(hostNames[k.metric], k.metric), ""
		if strings.HasSuffix(k.metric, " seconds") {
			unit = "seconds"
		}
		if k.kind == userSpace {
			name += ", " + k.kind
		}
		cells := []Cell{{Text: name}, {Text: of}}
		for _, a := range k.arms {
			cells = append(cells, k.cell(a, unit))
		}
		t.add(cells...)
	}
	for _, total := range host {
		if total.part {
			continue
		}
		for _, k := range own {
			switch {
			case k.metric != total.metric:
			case k.scope == "machine":
				row(k, "processes with the names of the workload's processes")
			default:
				row(k, "the workload")
			}
		}
		for _, k := range host {
			if k.metric != total.metric || k.part && !k.any() {
				continue
			}
			k.scope = "" // a count of the machine itself, not a limit of another one
			of := "the whole machine"
			if k.part {
				of = k.kind
			}
			row(k, of)
		}
		if t.Caption == "" || total.any() {
			t.Caption = "Host-wide, per " + total.per
		}
	}
	t.Caption += inCase(e, kase) + ". The whole machine includes everything else: load generator, teescope, other programs."
	return t.align()
}

// hostNames are better names of some metrics than keyOf makes.
var hostNames = map[string]string{"process cpu seconds": "CPU time", "llc misses": "last-level cache misses", "sgx epc pages evicted": "EPC pages evicted", "vm exits": "exits of virtual machines"}

// userSpace names the page faults that the workload's own code caused.
const userSpace = "in user space"

// ofWorkload returns the workload's totals of the metrics that are counted host-wide, and its page faults in user
// space.
func ofWorkload(r *result.Run) []result.Counter {
	wanted, byProcess := map[string]bool{}, map[string]bool{}
	for i := range r.HostCounters {
		wanted[r.HostCounters[i].Name] = true
	}
	for i := range r.Counters {
		c := &r.Counters[i]
		byProcess[c.Name] = byProcess[c.Name] || c.Scope == "process" || c.Labels["process"] != ""
	}
	var faults, totals []result.Counter
	for _, c := range r.Counters {
		switch {
		case !wanted[c.Name] || !byProcess[c.Name]:
		case len(c.Labels) == 0:
			totals = append(totals, c)
			if c.Name == explain.FaultCount && c.Value != nil { // a run without faults does not name any
				zero := 0.0
				c.Labels, c.Value = map[string]string{"space": userSpace}, &zero
				if c.PerOperation != nil {
					c.PerOperation = &zero
				}
				faults = append(faults, c)
			}
		case c.Labels["space"] == "user":
			c.Labels = map[string]string{"space": userSpace}
			faults = append(faults, c)
		}
	}
	return append(faults, totals...)
}

// any reports whether some arm counted any.
func (c counted) any() bool {
	return slices.ContainsFunc(c.arms, func(a arm) bool { return a.value != nil && *a.value != 0 })
}
