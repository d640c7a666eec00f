package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/teescope/teescope/internal/result"
)

// step is a case of a sweep over one numeric parameter.
type step struct {
	name string
	x    float64
	cas  *result.Case
}

// sweeps groups the cases that differ only in one of these parameters, in the order of its value. Groups of one are
// left out.
func (p *guardRun) sweeps(names []string) [][]step {
	groups := map[string][]step{}
	for i := range p.e.Cases {
		c := &p.e.Cases[i]
		for _, name := range names {
			x, err := strconv.ParseFloat(c.Params[name], 64)
			if err != nil || !(x > 0) {
				continue
			}
			rest := maps.Clone(c.Params)
			delete(rest, name)
			key := name + fmt.Sprint(rest) // fmt prints maps sorted by key
			groups[key] = append(groups[key], step{name, x, c})
		}
	}
	var out [][]step
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		slices.SortFunc(g, func(a, b step) int { return int(math.Copysign(1, a.x-b.x)) })
		if len(g) > 1 {
			out = append(out, g)
		}
	}
	return out
}
