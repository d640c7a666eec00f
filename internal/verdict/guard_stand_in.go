package verdict

import (
	"cmp"
)

var emulated = Guard{
	ID:     "emulated",
	Doc:    "A VM's CPU was emulated in software. The job runs, but its times are those of the emulator.",
	Effect: "a warning: the ratio is not the cost of a VM, and is shown as a stand-in",
	Help:   "use a host with /dev/kvm",
	check: func(p *guardRun) {
		for i := range p.e.Environments {
			if e := &p.e.Environments[i]; e.Emulated() {
				p.report(warn, scope{arm: e.ID}, nil, "%s is emulated in software (%s)", e.ID, cmp.Or(e.TEE.Settings["accelerator"], e.Software.Hypervisor))
			}
		}
	},
}

var madeUp = Guard{
	ID:     "made-up",
	Doc:    "An arm measured nothing: the fake launcher draws its values from a seed, to test teescope itself.",
	Effect: "a warning: the numbers say nothing about any machine, and are shown as a stand-in",
	Help:   "use another launcher",
	check: func(p *guardRun) {
		for i := range p.e.Environments {
			e := &p.e.Environments[i]
			if says := e.TEE.Settings["measures"]; says != "" {
				p.report(warn, scope{arm: e.ID}, nil, "%s measures %s", e.ID, says)
			}
		}
	},
}

var declaredStandIn = Guard{
	ID:     "stand-in",
	Doc:    "The experiment declares that an arm stands in for something else (stands_for), or the measured device is simulated. The ratio is right for what ran. It says nothing about the cost of the real thing.",
	Effect: "a warning; the comparison is grey and has the word stand-in before its numbers; it has no grade and is not called a cost",
	Help:   "measure the real thing, or name the arm after what really runs",
	check: func(p *guardRun) {
		for i := range p.e.Environments {
			if e := &p.e.Environments[i]; e.StandsFor != "" {
				p.report(warn, scope{arm: e.ID}, nil, "%s is really %s and only stands in for %s", e.ID, e.Launcher, e.StandsFor)
			}
		}
		for i := range p.e.Workload.Metrics {
			if d := &p.e.Workload.Metrics[i]; d.Simulated() && d.Name == p.e.Design.Primary {
				p.report(warn, scope{metric: d.Name}, nil, "the device behind %s is simulated", p.e.Label(d.Name))
			}
		}
	},
}
