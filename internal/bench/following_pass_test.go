package bench

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// served returns a workload with a parameter rate; without a rate its primary metric is its
// capacity.
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
	p, err := onePlan(Choice{Experiment: e, Seed: 7}, Lists{Workloads: []*Workload{served()}, Launchers: []*Launcher{{Name: "fake"}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// capacities adds runs of an arm with these values.
func capacities(doc *result.Experiment, env string, values ...float64) {
	for _, v := range values {
		doc.Runs = append(doc.Runs, result.Run{Case: onlyCase, Env: env, Status: result.OK, Metrics: []result.Metric{{Name: "requests_per_second", Value: &v}}})
	}
}

// TestThen: the passes offer both arms shares of the slower arm's capacity.
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

// TestBegun: the document of an experiment names the passes that follow, finished or not.
func TestBegun(t *testing.T) {
	p := servedPlan(t, servedFile)
	p.NoCounters, p.Origin = true, &result.Origin{Source: "a paper"}
	o := Options{Host: host.At(t.TempDir())}
	doc, err := document(p, o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "e.json")
	stream, err := result.Create(path, doc)
	if err != nil {
		t.Fatal(err)
	}
	l := Lists{Workloads: []*Workload{served()}, Launchers: []*Launcher{{Name: "fake"}}}
	if _, err := Begun(l, o, path); err == nil || !strings.Contains(err.Error(), "another teescope") {
		t.Errorf("while it runs: %v", err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	for _, finished := range []bool{false, true} {
		if finished {
			if _, stream, err = result.Resume(path); err == nil {
				err = stream.Finish(doc)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got, err := Begun(l, o, path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Then, p.Then) || got.Name != p.Name || got.Seed != p.Seed || !got.NoCounters || got.Origin.Source != "a paper" {
			t.Errorf("finished %v: the plan is %+v, want %+v", finished, got, p)
		}
		capacities(doc, "a", 1000)
		capacities(doc, "b", 1000)
		if next, err := got.Then[1].Next(got, doc); err != nil || next.Name != "e-sweep" || next.Cases[0].Params["rate"] != "1200" {
			t.Errorf("finished %v: the second pass is %+v, %v", finished, next, err)
		}
		doc.Runs = nil
	}
	l.Workloads[0].Version++
	if _, err := Begun(l, o, path); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("another version: %v", err)
	}
	if _, err := Begun(l, o, path+".other"); !errors.Is(err, result.ErrNotBegun) {
		t.Errorf("no file: %v", err)
	}
}

func TestThenRefused(t *testing.T) {
	for _, then := range []string{"{name: x}", "{loads: [50%]}", "{name: x, loads: [0%]}", "{name: x, loads: [11]}", "{name: x, loads: [y]}", "{name: a/b, loads: [1]}",
		"{name: x, loads: [1], pairs: -1}", "{name: x, loads: [50%, 0.5]}", "{name: x, loads: [1]}, {name: x, loads: [2]}", "{name: x, loads: [1], params: {rate: 5}}", "{name: x, loads: [1], rate: 5}"} {
		t.Run(then, func(t *testing.T) {
			if _, err := LoadExperiment("e", []byte("name: e\nworkload: served\nthen: ["+then+"]")); err == nil {
				t.Errorf("then %s is accepted", then)
			}
		})
	}
	// The message says what was written, and what it names is accepted.
	pairs := func(n string) error {
		_, err := LoadExperiment("e", []byte("name: e\nworkload: served\npairs: "+n+"\nthen: [{name: x, loads: [50%], pairs: "+n+"}]"))
		return err
	}
	if err := pairs("-1"); err == nil || !strings.Contains(err.Error(), "pairs: -1: want 1 or more, or 0 for the default") {
		t.Errorf("pairs of -1: %v", err)
	}
	if _, err := LoadExperiment("e", []byte("name: e\nworkload: served\nthen: [{name: x, loads: [50%], pairs: -1}]")); err == nil ||
		!strings.Contains(err.Error(), "then x: pairs: -1: want 1 or more, or 0 for as many pairs as the experiment has") {
		t.Errorf("pairs of -1 in a pass: %v", err)
	}
	for _, n := range []string{"0", "1"} {
		t.Run(n, func(t *testing.T) {
			if err := pairs(n); err != nil {
				t.Errorf("pairs of %s: %v", n, err)
			}
		})
	}
	// A pass that no capacity would make possible is refused before the first run.
	for change, want := range map[[2]string]string{
		{`connections: "8"`, `rate: "5"`}:                       "whose main metric is a capacity",
		{"pairs: 6", "pairs: 6\nprimary: response_p99_seconds"}: "whose main metric is a capacity",
		{"primary: requests_per_second", "primary: other"}:      `no metric "other"`,
		{"margin: 5%", "params: {other: x}"}:                    "other",
		{"margin: 5%", "params: {connections: none}"}:           "no connections",
	} {
		e, err := LoadExperiment("e", []byte(strings.Replace(servedFile, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		w := served()
		w.Job = func(p Params) (Job, error) {
			if p["connections"] == "none" {
				return Job{}, errors.New("no connections")
			}
			return Job{}, nil
		}
		_, err = onePlan(Choice{Experiment: e, Seed: 7}, Lists{Workloads: []*Workload{w}, Launchers: []*Launcher{{Name: "fake"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one of %q", change[1], err, want)
		}
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
	long, err := ParseClient("ssh,host=me@there,identity=k,server=10.0.0.1,port=22")
	if err != nil || !reflect.DeepEqual(c, long) {
		t.Errorf("in the notation of environments: %+v, %v, want %+v", long, err, c)
	}
	for _, text := range []string{"", "there", "ssh", "ssh:", "ssh:-oProxyCommand=x", "ssh:there,x=1", "ssh:there,server=name", "ssh:there,port", "ssh:there,port=", "ssh:there,host=there", "native:there"} {
		t.Run(text, func(t *testing.T) {
			if _, err := ParseClient(text); err == nil {
				t.Errorf("client %q is accepted", text)
			}
		})
	}
}
