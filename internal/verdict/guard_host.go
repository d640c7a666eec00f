package verdict

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

var sameHostClient = Guard{
	ID:     "same-host-client",
	Doc:    "The load generator ran on the machine of the servers: they shared CPUs and caches, and there was no network between them.",
	Effect: "a note",
	Help:   "run the load generator on another machine (--client ssh:HOST), or give the load generator and the server separate CPUs",
	check: func(p *guardRun) {
		if p.e.Design.Client == "" {
			return // no load from outside
		}
		var shared []string
		for i := range p.e.Environments {
			e := &p.e.Environments[i]
			switch {
			case !ownLoad(e) && slices.Contains(strings.Split(p.e.Design.Client, "; "), result.SameHost) && !isRemote(e) || ownLoad(e) && e.Params["nodes"] == "same":
				shared = append(shared, e.ID)
			case ownLoad(e) && e.Params["nodes"] == "any":
				p.unknown(scope{arm: e.ID}, "whether the load of %s ran on the node of its servers: the choice of the node was left to the cluster (nodes=any)", e.ID)
			}
		}
		if len(shared) == 0 {
			return
		}
		of := ""
		if len(shared) < len(p.e.Environments) {
			of = " of " + strings.Join(shared, ", ")
		}
		p.report(tell, scope{}, nil, "the load generator ran on the same machine as the servers%s", of)
	},
}

// isRemote reports whether an environment was not on the harness's machine.
func isRemote(e *result.Environment) bool {
	return e.Boot != "" || e.Clock != nil || e.Launcher == "pod"
}

// ownLoad reports whether an environment ran its load itself, in a second pod.
func ownLoad(e *result.Environment) bool { return e.Launcher == "pod" && e.Params["load"] == "pod" }

var otherPlatform = Guard{
	ID:     "other-platform",
	Doc:    "The arms did not run on the same host (grade C: the same kind of host, D: another platform). The ratio is a platform difference: it has no single cause and is not called overhead.",
	Effect: "only a note: grade C or D already says that the arms are not known to have run on the same host",
	Help:   "run both arms on one host, in one interleaved experiment, or measure the difference between two equal arms on the two machines",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			if k.grade != result.GradeC && k.grade != result.GradeD {
				continue
			}
			for _, e := range []*result.Environment{k.base, k.treat} {
				if e.Hardware.Serial == "" {
					p.unknown(k.arms(), "whether %s ran on the same host: %s", e.ID, missing(e, "hardware.host_id"))
				}
			}
			p.report(tell, k.arms(), nil, "there is no evidence that %s and %s ran on the same host, so their ratio may come from the hosts: it has grade %s and is called a platform difference", k.treat.ID, k.base.ID, k.grade)
		}
	},
}
