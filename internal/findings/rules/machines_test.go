package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/storetest"
)

// asked counts the evaluations of each query.
type asked struct {
	findings.Querier
	times map[string]int
}

func (a asked) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	a.times[expr]++
	return a.Querier.Query(ctx, expr, at)
}

// TestManyMachines: each of many machines with a cause has its finding, and what concerns all series of a metric is
// asked once, not for each machine.
func TestManyMachines(t *testing.T) {
	const machines = 20
	var load strings.Builder
	load.WriteString("load 5s\n")
	for i := range machines {
		on := fmt.Sprintf("job=\"agents\",instance=\"node-%d\",cpu=\"0\"", i)
		fmt.Fprintf(&load, "  node_cpu_seconds_total{%s,mode=\"idle\"} 0+3x24\n  node_cpu_seconds_total{%s,mode=\"steal\"} 0+2x24\n", on, on)
	}
	at := time.Unix(120, 0)
	q := asked{storetest.Load(t, load.String()), map[string]int{}}
	o := findings.DefaultOptions()
	o.Now, o.Started, o.Interval = func() time.Time { return at }, at, 5*time.Second
	var steal []*findings.Rule
	for _, r := range All {
		if r.Name == "cpu_steal" {
			steal = append(steal, r)
		}
	}
	e := findings.New(steal, q, o)
	e.Evaluate(t.Context())
	on := map[findings.Machine]bool{}
	for _, r := range e.Records() {
		if on[r.Machine] = true; r.Machine.Job != "agents" || r.Subject != "machine on "+r.Instance {
			t.Errorf("%q is a finding of %v", r.Subject, r.Machine)
		}
	}
	if len(on) != machines {
		t.Errorf("findings of %d machines, want %d: %v", len(on), machines, e.Rules())
	}
	for expr, n := range q.times {
		if n > 1 {
			t.Errorf("%d times in one pass: %s", n, expr)
		}
	}
}

// TestQuietMachines: machines without a cause are judged by queries about all of them: their number does not matter.
func TestQuietMachines(t *testing.T) {
	var asks []map[string]int
	for _, machines := range []int{2, 12} {
		var load strings.Builder
		load.WriteString("load 5s\n")
		for i := range machines {
			load.WriteString(quietMachine(fmt.Sprintf("job=\"agents\",instance=\"node-%d\"", i), 2))
		}
		at := time.Unix(600, 0)
		q := asked{storetest.Load(t, load.String()), map[string]int{}}
		o := findings.DefaultOptions()
		o.Now, o.Started, o.Interval = func() time.Time { return at }, time.Unix(0, 0), 5*time.Second
		e := findings.New(All, q, o)
		e.Evaluate(t.Context())
		for _, r := range e.Rules() {
			if r.Answer != findings.Silent && r.Name != "anomaly" { // there is no history
				t.Errorf("%s is %s: %s", r.Name, r.Answer, r.Reason)
			}
		}
		asks = append(asks, q.times)
	}
	if few, many := len(asks[0]), len(asks[1]); few != many {
		t.Errorf("%d queries for 2 machines, %d for 12; for one of these alone:", few, many)
		for expr := range asks[1] {
			if strings.Contains(expr, "node-11") {
				t.Error(expr)
			}
		}
	}
}
