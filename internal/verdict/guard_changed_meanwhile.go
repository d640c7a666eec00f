package verdict

import (
	"maps"
	"slices"
)

var changedMeanwhile = Guard{
	ID:     "changed-meanwhile",
	Doc:    "An environment changed while the experiment ran, so its runs are not comparable.",
	Effect: "invalid",
	Help:   "find what changed the environment (an update, a host policy, a migration) and run again",
	check: func(p *guardRun) {
		for _, e := range p.e.Environments {
			for _, field := range slices.Sorted(maps.Keys(e.Changed)) {
				p.report(refuse, scope{arm: e.ID}, nil, "%s changed during the experiment: %s was %s", e.ID, field, e.Changed[field])
			}
		}
	},
}
