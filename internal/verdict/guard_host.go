package verdict

import (
	"strings"

	"github.com/teescope/teescope/internal/result"
)

var sameHostClient = Guard{
	ID:     "same-host-client",
	Doc:    "The load generator ran on the machine of the servers: they shared CPUs and caches, and there was no network between them.",
	Effect: "a note",
	Help:   "run the load on another machine (--client ssh:HOST), or give the server and the client CPUs of their own",
	check: func(p *pass) {
		if p.e.Design.Client != result.SameHost {
			return
		}
		var here []string
		for i := range p.e.Environments {
			if e := &p.e.Environments[i]; e.Boot == "" { // else its servers are on another machine
				here = append(here, e.ID)
			}
		}
		of := ""
		if len(here) < len(p.e.Environments) {
			of = " of " + strings.Join(here, ", ")
		}
		p.say(tell, scope{}, nil, "the load generator ran on the machine of the servers%s", of)
	},
}

var otherPlatform = Guard{
	ID:     "other-platform",
	Doc:    "The arms did not run on the same host (grade C: the same kind of host, D: another platform). The ratio is a platform difference: it has no single cause and is not called overhead.",
	Effect: "a note: the grade says so",
	Help:   "run both arms on one host, in one interleaved experiment, or measure the difference between two equal arms on the two machines",
	check: func(p *pass) {
		for _, k := range p.contests {
			if k.grade != result.GradeC && k.grade != result.GradeD {
				continue
			}
			for _, e := range []*result.Environment{k.base, k.treat} {
				if e.Hardware.Serial == "" {
					p.unknown(k.arms(), "whether %s ran on the same host: %s", e.ID, missing(e, "hardware.host_id"))
				}
			}
			p.say(tell, k.arms(), nil, "%s and %s were not shown to run on one host: grade %s, a platform difference", k.treat.ID, k.base.ID, k.grade)
		}
	},
}
