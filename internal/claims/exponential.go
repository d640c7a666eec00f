package claims

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// exponential checks that equal steps of a parameter change a value by equal factors. The first two points of a
// series give the factor with its interval, which the later points must have; so a series needs three.
func (t *Table) exponential(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	if err != nil {
		return 0, err
	}
	par := s.args[1].col
	slack := linearShare
	if s.within >= 0 {
		slack = s.within
	}
	if s.what == "claim" {
		f.Kind = Scaling
	}
	x := func(p point) float64 { q, _ := t.value(p.row, par); return q.v }
	tried := 0
	for _, g := range t.groups(ps, func(c int) bool { return c == par }) {
		if len(g) < 3 {
			continue
		}
		tried++
		slices.SortFunc(g, func(a, b point) int { return cmp.Compare(x(a), x(b)) })
		if i := slices.IndexFunc(g, func(p point) bool { return p.q.hi <= 0 }); i >= 0 {
			f.Follows = append(f.Follows, fmt.Sprintf("%s: %s is not above 0, and an exponential function never reaches 0", t.keys(g[i].row, -1), t.spell(g[i])))
			continue
		}
		a, b := g[0], g[1]
		step := x(b) - x(a)
		// An end at or below 0 leaves the factor without a bound on that side.
		least, most := math.Inf(-1), math.Inf(1)
		if b.q.lo > 0 {
			least = math.Log(b.q.lo/a.q.hi) / step
		}
		if a.q.lo > 0 {
			most = math.Log(b.q.hi/a.q.lo) / step
		}
		for _, p := range g[2:] {
			far := x(p) - x(b)
			want := quantity{v: b.q.v * math.Exp(math.Log(b.q.v/a.q.v)/step*far), lo: max(b.q.lo, 0) * math.Exp(least*far), hi: b.q.hi * math.Exp(most*far), dims: p.q.dims}
			if math.IsNaN(want.v) || math.IsNaN(want.lo) || math.IsNaN(want.hi) || !areDisjoint(p.q, want.widen(slack), 0) {
				continue
			}
			u := t.unitOf(p.e, &expr{op: "agg"})
			others := strings.TrimPrefix(t.keys(a.row, par)+": ", ": ")
			f.Follows = append(f.Follows, fmt.Sprintf("%s%s from %s to %s changes it from %s to %s, %s x; the same factor for each such step makes it %s at %s, and it is %s",
				others, t.columns[par].name, t.number(a.row, par), t.number(b.row, par), t.worth(a), t.worth(b), group(b.q.v/a.q.v), show(want.v, u), t.number(p.row, par), t.worth(p)))
		}
	}
	return tried, nil
}
