package rules

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// together answers queries for all candidates of a sign at once: what holds on thousands of machines, such as hidden
// counters, costs no more queries than what holds on one.
type together struct {
	sign       sign
	candidates []metric.Point
	elements   map[[2]string]map[string][]metric.Point // by expr and over of a number, then by $here
}

// element returns the subject's element of a number.
func (t *together) element(ctx context.Context, x expansion, n number) ([]metric.Point, error) {
	key := [2]string{n.expr, n.over}
	if of, ok := t.elements[key]; ok {
		return of[x.here], nil
	}
	all := x
	all.here = t.matchers()
	points, err := x.pass.Query(ctx, all.query(n.expr, n.over), x.pass.To)
	if err != nil {
		return nil, err
	}
	of := map[string][]metric.Point{}
	for _, p := range points {
		here := t.sign.hereMatchers(p.Labels)
		of[here] = append(of[here], p)
	}
	if t.elements == nil {
		t.elements = map[[2]string]map[string][]metric.Point{}
	}
	t.elements[key] = of
	return of[x.here], nil
}

// namedMost is how many values of a label a query for all candidates names. With more it has all series of its metric,
// as the search for the candidates had.
const namedMost = 8

// matchers returns $here of all candidates.
func (t *together) matchers() string {
	values := map[string][]string{}
	for _, c := range t.candidates {
		for _, l := range t.sign.hereLabels(c.Labels) {
			if v := c.Labels[l]; len(values[l]) <= namedMost && !slices.Contains(values[l], v) {
				values[l] = append(values[l], v)
			}
		}
	}
	var out []string
	for l, list := range values {
		if len(list) > namedMost {
			continue
		}
		for i, v := range list {
			list[i] = regexp.QuoteMeta(v)
		}
		out = append(out, fmt.Sprintf("%s=~%q", l, strings.Join(list, "|")))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
