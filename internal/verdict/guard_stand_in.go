package verdict

import (
	"strings"
)

var emulated = Guard{
	ID:     "emulated",
	Doc:    "A VM's CPU was emulated in software. The job runs, but its times are those of the emulator.",
	Effect: "a warning: the ratio is not what a VM costs",
	Help:   "use a host with /dev/kvm",
	check: func(p *pass) {
		for i := range p.e.Environments {
			e := &p.e.Environments[i]
			if strings.HasPrefix(e.TEE.Settings["accelerator"], "tcg") {
				p.say(warn, scope{arm: e.ID}, nil, "%s is emulated in software (%s)", e.ID, e.TEE.Settings["accelerator"])
			}
		}
	},
}

var madeUp = Guard{
	ID:     "made-up",
	Doc:    "An arm measured nothing: the fake launcher draws its values from a seed, to test teescope itself.",
	Effect: "a warning: the numbers say nothing about any machine",
	Help:   "use another launcher",
	check: func(p *pass) {
		for i := range p.e.Environments {
			e := &p.e.Environments[i]
			if says := e.TEE.Settings["measures"]; says != "" {
				p.say(warn, scope{arm: e.ID}, nil, "%s measures %s", e.ID, says)
			}
		}
	},
}
