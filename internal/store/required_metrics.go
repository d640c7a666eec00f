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
// queries, those after unless, and those that only one side of an or names. It fails if PromQL refuses the expression, or if its result is not an instant vector.
func Reads(expr string) ([]string, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("parse the expression: %w", err)
	}
	if t := e.Type(); t != parser.ValueTypeVector {
		return nil, fmt.Errorf("the expression gives a %s, want an instant vector", parser.DocumentedType(t))
	}
	return slices.Sorted(maps.Keys(requiredMetrics(e))), nil
}

// requiredMetrics are the metrics without which an expression has no value, or one that says nothing.
func requiredMetrics(n parser.Node) map[string]bool {
	names := map[string]bool{}
	switch e := n.(type) {
	case *parser.VectorSelector:
		for _, m := range e.LabelMatchers {
			if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
				names[m.Value] = true
			}
		}
		return names
	case *parser.Call:
		if e.Func.Name == "absent" || e.Func.Name == "absent_over_time" {
			return names
		}
	case *parser.BinaryExpr:
		switch e.Op {
		case parser.LUNLESS: // without the right side all of the left one is left
			return requiredMetrics(e.LHS)
		case parser.LOR: // either side has values without the other
			right := requiredMetrics(e.RHS)
			maps.DeleteFunc(right, func(name string, _ bool) bool { return !requiredMetrics(e.LHS)[name] })
			return right
		}
	}
	for child := range parser.ChildrenIter(n) {
		maps.Copy(names, requiredMetrics(child))
	}
	return names
}
