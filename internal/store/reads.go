package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Reads returns, in order, the metrics that an expression needs: those that it names, except those whose absence it
// queries. It fails if PromQL refuses the expression, or if its result is not an instant vector.
func Reads(expr string) ([]string, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("parse the expression: %w", err)
	}
	if t := e.Type(); t != parser.ValueTypeVector {
		return nil, fmt.Errorf("the expression gives a %s, want an instant vector", parser.DocumentedType(t))
	}
	names := map[string]bool{}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok || slices.ContainsFunc(path, asksAbsence) {
			return nil
		}
		for _, m := range v.LabelMatchers {
			if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
				names[m.Value] = true
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(names)), nil
}

func asksAbsence(n parser.Node) bool {
	c, ok := n.(*parser.Call)
	return ok && (c.Func.Name == "absent" || c.Func.Name == "absent_over_time")
}
