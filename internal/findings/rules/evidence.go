package rules

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// evidence gathers the numbers behind a finding. Each is the result of its query, so a reader who runs the query for
// the same time gets the same number. The first error stays in err, and later calls do nothing.
type evidence struct {
	pass *findings.Pass
	list []query.Evidence
	err  error
}

// add evaluates expr, which gives one number or none, records it and returns it. Without a result it returns NaN,
// which is neither above nor below any limit. Each query is listed once.
func (e *evidence) add(ctx context.Context, text, unit, expr string) float64 {
	return e.addResult(text, unit, expr, func() ([]metric.Point, error) { return e.pass.Query(ctx, expr, e.pass.To) })
}

// addResult is add with the result of expr from elsewhere.
func (e *evidence) addResult(text, unit, expr string, ask func() ([]metric.Point, error)) float64 {
	if e.err != nil {
		return math.NaN()
	}
	points, err := ask()
	switch {
	case err != nil:
		e.err = err
	case len(points) > 1:
		e.err = fmt.Errorf("query %s: gives %d series, want one number", expr, len(points))
	case len(points) == 1 && !math.IsInf(points[0].Value, 0): // a division by 0 is no number either
		if !slices.ContainsFunc(e.list, func(o query.Evidence) bool { return o.Expr == expr }) {
			e.list = append(e.list, query.Evidence{Text: text, Value: points[0].Value, Unit: unit, Expr: expr})
		}
		return points[0].Value
	}
	return math.NaN()
}

// window returns the pass's window as PromQL writes it.
func window(p *findings.Pass) string { return query.PromDuration(p.To.Sub(p.From)) }

// newest returns the newest part of the window. A cause must hold there too, so a finding does not outlive its cause
// by a whole window.
func newest(p *findings.Pass) string {
	return query.PromDuration(min(p.To.Sub(p.From)/2, recent(p)))
}

// recent returns the shortest time that surely holds two readings, half a minute at least.
func recent(p *findings.Pass) time.Duration { return max(30*time.Second, 2*p.Interval) }

// ofProcess selects a metric of the process and machine with these labels.
func ofProcess(metric string, labels map[string]string, matchers ...string) string {
	return query.Scope{Here: query.MatchersOf(labels, "job", "instance", "process")}.Select(metric, matchers...)
}

// lifeOf returns the query that has a value while the subject with these labels exists; "" for one that does not end.
func lifeOf(labels map[string]string) string {
	for _, by := range []struct{ label, metric string }{
		{"process", query.StartTime}, {"id", "container_cpu_usage_seconds_total"}, {"vm", "tee_vm_info"},
	} {
		if v := labels[by.label]; v != "" {
			return onMachine(by.metric, labels, fmt.Sprintf("%s=%q", by.label, v))
		}
	}
	return ""
}

// namer returns a function that names subjects: by their name alone, or with the machine
// if the store has the metric from several machines.
func namer(ctx context.Context, p *findings.Pass, metric string) (func(name, instance string) string, error) {
	points, err := p.QueryOnce(ctx, fmt.Sprintf("count(count by (instance) (%s))", metric))
	if err != nil {
		return nil, err
	}
	several := len(points) == 1 && points[0].Value > 1
	return func(name, instance string) string {
		if several {
			return findings.QualifiedSubject(name, instance)
		}
		return name
	}, nil
}

// named returns the name that namer gives to a single subject.
func named(ctx context.Context, p *findings.Pass, name, metric, instance string) (string, error) {
	call, err := namer(ctx, p, metric)
	if err != nil {
		return "", err
	}
	return call(name, instance), nil
}
