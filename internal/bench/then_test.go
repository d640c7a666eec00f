package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// served is a workload with a rate, whose capacity is its primary metric without one.
func served() *Workload {
	capacity := &metric.Desc{Name: "requests_per_second", Unit: "requests_per_second", Better: metric.Higher, Help: "Rate."}
	tail := &metric.Desc{Name: "response_p99_seconds", Unit: "seconds", Better: metric.Lower, Help: "Tail."}
	return &Workload{Name: "served", Version: 1,
		Params:  []Param{{Name: "rate", Default: "0"}, {Name: "connections", Default: "8"}},
		Metrics: func(Params) []*metric.Desc { return []*metric.Desc{capacity, tail} },
		Primary: func(p Params) *metric.Desc {
			if p["rate"] != "0" {
				return tail
			}
			return capacity
		},
		Estimate: func(Params) (time.Duration, int64) { return time.Second, 0 },
		Job:      func(Params) (Job, error) { return Job{}, nil },
	}
}

const servedFile = `
name: e
workload: served
params: {connections: "8"}
environments: [a=fake, b=fake]
pairs: 6
then:
  - {name: equal, loads: [50%, 0.8]}
  - {name: sweep, loads: [120%], pairs: 2, primary: requests_per_second, margin: 5%}
`

func servedPlan(t *testing.T, file string) *Plan {
	t.Helper()
	e, err := LoadExperiment("e", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(Choice{Experiment: e, Seed: 7}, Lists{Workloads: []*Workload{served()}, Launchers: []*Launcher{{Name: "fake"}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// capacities are runs with these values of an arm.
func capacities(doc *result.Experiment, env string, values ...float64) {
	for _, v := range values {
		doc.Runs = append(doc.Runs, result.Run{Case: onlyCase, Env: env, Status: result.OK, Metrics: []result.Metric{{Name: "requests_per_second", Value: &v}}})
	}
}

// TestThen: the passes offer both arms shares of what the slower one can do.
func TestThen(t *testing.T) {
	p := servedPlan(t, servedFile)
	doc := &result.Experiment{}
	capacities(doc, "a", 1000, 90000, 80000) // the median counts
	capacities(doc, "b", 12345, 12345, 1)
	next, err := p.Then[0].Next(p, doc)
	if err != nil {
		t.Fatal(err)
	}
	if next.Name != "e-equal" || next.Primary != "response_p99_seconds" || next.Pairs != 6 || len(next.Cases) != 2 || len(next.Then) != 0 || next.Seed == p.Seed {
		t.Errorf("the pass is %+v", next)
	}
	for i, want := range []Case{{"load=50%", Params{"rate": "6170", "connections": "8"}}, {"load=80%", Params{"rate": "9880", "connections": "8"}}} {
		if c := next.Cases[i]; c.ID != want.ID || c.Params["rate"] != want.Params["rate"] || c.Params["connections"] != "8" {
			t.Errorf("case %d is %+v, want %+v", i, c, want)
		}
	}
	if next, err = p.Then[1].Next(p, doc); err != nil || next.Primary != "requests_per_second" || next.Pairs != 2 || next.Margin != 0.05 || next.Cases[0].Params["rate"] != "14800" {
		t.Errorf("the second pass is %+v, %v", next, err)
	}
	if n := p.Then[1].Runs(p); n != 4 {
		t.Errorf("it has %d runs, want 4", n)
	}
	doc.Runs = doc.Runs[:3]
	if _, err := p.Then[0].Next(p, doc); err == nil || !strings.Contains(err.Error(), "capacity of b") {
		t.Errorf("without a capacity of b: %v", err)
	}
}

func TestThenRefused(t *testing.T) {
	for _, then := range []string{"{name: x}", "{loads: [50%]}", "{name: x, loads: [0%]}", "{name: x, loads: [11]}", "{name: x, loads: [y]}", "{name: a/b, loads: [1]}",
		"{name: x, loads: [1], pairs: -1}", "{name: x, loads: [1], params: {rate: 5}}", "{name: x, loads: [1], rate: 5}"} {
		if _, err := LoadExperiment("e", []byte("name: e\nworkload: served\nthen: ["+then+"]")); err == nil {
			t.Errorf("then %s is accepted", then)
		}
	}
	p := servedPlan(t, strings.Replace(servedFile, `connections: "8"`, `rate: "5"`, 1))
	if _, err := p.Then[0].Next(p, &result.Experiment{}); err == nil || !strings.Contains(err.Error(), "capacity first") {
		t.Errorf("a pass after a latency is accepted: %v", err)
	}
}

func TestRound(t *testing.T) {
	for v, want := range map[float64]string{123456: "123000", 9.8765: "9.88", 0.012345: "0.0123", 1000: "1000", 999.9: "1000"} {
		if got := round(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

func TestClient(t *testing.T) {
	c, err := ParseClient("ssh:me@there,port=22,server=10.0.0.1,identity=k")
	if err != nil || c.Name != "ssh:me@there" || c.Server != "10.0.0.1" || c.server() != "10.0.0.1" || (*Client)(nil).server() != "127.0.0.1" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{"", "there", "ssh:", "ssh:-oProxyCommand=x", "ssh:there,x=1", "ssh:there,server=name", "ssh:there,port"} {
		if _, err := ParseClient(text); err == nil {
			t.Errorf("client %q is accepted", text)
		}
	}
}
