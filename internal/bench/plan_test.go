package bench

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

var seconds = &metric.Desc{Name: "took_seconds", Unit: "seconds", Better: metric.Lower, Help: "Time."}

// members are a workload and launchers that start nothing.
func members() Lists {
	w := &Workload{Name: "job", Version: 2,
		Params: []Param{{Name: "size", Default: "1"}, {Name: "kind", Default: "x", Values: []string{"x", "y"}},
			{Name: "binary", Subject: true}, {Name: "command", Text: true}},
		Metrics:  func(Params) []*metric.Desc { return []*metric.Desc{seconds} },
		Primary:  func(Params) *metric.Desc { return seconds },
		Estimate: func(Params) (time.Duration, int64) { return time.Second, 100 },
		Sweep:    map[string][]string{"kind": {"x", "y"}},
		Job: func(p Params) (Job, error) {
			if p["size"] == "0" {
				return Job{}, errors.New("size: want more than nothing")
			}
			return Job{Inside: host.Cmd{Argv: []string{"job", p["size"], p["binary"]}}}, nil
		}}
	plain := func(name string) *Launcher {
		return &Launcher{Name: name, Params: []Param{{Name: "cpus"}}, Short: map[string]string{"tee": "cpus"}[name],
			Check:    func(*host.Host, Params) error { return nil },
			Commands: func(_ Params, j Job) ([]host.Cmd, error) { return []host.Cmd{j.Inside}, nil }}
	}
	return Lists{Workloads: []*Workload{w}, Launchers: []*Launcher{plain("native"), plain("tee")},
		File: func(path string) (*Launcher, error) { return plain(path), nil }}
}

// onePlan returns the only plan of a choice.
func onePlan(c Choice, l Lists) (*Plan, error) {
	plans, err := NewPlans(c, l)
	if err != nil {
		return nil, err
	}
	if len(plans) != 1 {
		return nil, fmt.Errorf("%d plans, want one", len(plans))
	}
	return plans[0], nil
}

func job() *Experiment { return &Experiment{Name: "e", Workload: "job"} }

func TestPlanOfAChoice(t *testing.T) {
	for name, c := range map[string]struct {
		choice Choice
		labels string // of the arms
		cases  string
		err    string
	}{
		"defaults":             {Choice{Experiment: job()}, "native", "kind=x kind=y", ""},
		"two environments":     {Choice{Experiment: job(), Envs: []string{"native", "tee"}}, "native tee", "kind=x kind=y", ""},
		"a parameter given":    {Choice{Experiment: job(), Params: Params{"kind": "y"}}, "native", "default", ""},
		"alternatives":         {Choice{Experiment: job(), Params: Params{"kind": "y", "size": "4|8"}}, "native", "size=4 size=8", ""},
		"free text":            {Choice{Experiment: job(), Params: Params{"kind": "y", "command": "a | b"}}, "native", "default", ""},
		"labels":               {Choice{Experiment: job(), Envs: []string{"base=native,binary=a", "head=native,binary=b"}}, "base head", "kind=x kind=y", ""},
		"told apart":           {Choice{Experiment: job(), Envs: []string{"native", "native,cpus=0"}}, "native native,cpus=0", "kind=x kind=y", ""},
		"a template":           {Choice{Experiment: job(), Envs: []string{"native", "mine=./x.yaml"}}, "native mine", "kind=x kind=y", ""},
		"calibrate":            {Choice{Experiment: job(), Envs: []string{"x=tee,cpus=1"}, Calibrate: true}, "a b", "kind=x kind=y", ""},
		"with a colon":         {Choice{Experiment: job(), Envs: []string{"native", "tee:1", "tee:2,binary=a", "x=tee:3"}}, "native tee tee:2,binary=a x", "kind=x kind=y", ""},
		"a template's colon":   {Choice{Experiment: job(), Envs: []string{"native", "mine=./a:b.yaml"}}, "native mine", "kind=x kind=y", ""},
		"calibrate a colon":    {Choice{Experiment: job(), Envs: []string{"x=tee:1"}, Calibrate: true}, "a b", "kind=x kind=y", ""},
		"no such colon":        {Choice{Experiment: job(), Envs: []string{"native:1"}}, "", "", "after the colon"},
		"an empty colon":       {Choice{Experiment: job(), Envs: []string{"tee:"}}, "", "", "want a value after the colon"},
		"a colon and its name": {Choice{Experiment: job(), Envs: []string{"tee:1,cpus=1"}}, "", "", "cpus is given twice"},
		"a parameter twice":    {Choice{Experiment: job(), Envs: []string{"tee,cpus=1,cpus=1"}}, "", "", "cpus is given twice"},
		"calibrate two":        {Choice{Experiment: job(), Envs: []string{"native", "tee"}, Calibrate: true}, "", "", "one --env"},
		"the same twice":       {Choice{Experiment: job(), Envs: []string{"native", "native"}}, "", "", "calibrate"},
		"unknown workload":     {Choice{Experiment: &Experiment{Workload: "nope"}}, "", "", "bench list"},
		"unknown launcher":     {Choice{Experiment: job(), Envs: []string{"nope"}}, "", "", "bench list"},
		"unknown parameter":    {Choice{Experiment: job(), Params: Params{"speed": "1"}}, "", "", "the parameters are size, kind"},
		"value not allowed":    {Choice{Experiment: job(), Params: Params{"kind": "z"}}, "", "", "one of x, y"},
		"the job refuses":      {Choice{Experiment: job(), Params: Params{"size": "0"}}, "", "", "more than nothing"},
		"alternative twice":    {Choice{Experiment: job(), Params: Params{"size": "4|4"}}, "", "", "twice"},
		"job differs in arms":  {Choice{Experiment: job(), Envs: []string{"native", "tee,size=3"}}, "", "", "same in all environments"},
		"no value":             {Choice{Experiment: job(), Envs: []string{"native,cpus"}}, "", "", "want K=V"},
		"empty environment":    {Choice{Experiment: job(), Envs: []string{""}}, "", "", "LAUNCHER"},
		"unknown metric":       {Choice{Experiment: job(), Primary: "speed"}, "", "", "the metrics are took_seconds"},
		"negative pairs":       {Choice{Experiment: job(), Pairs: -1}, "", "", "at least 1"},
		"launcher's parameter": {Choice{Experiment: job(), Envs: []string{"native,gpus=1"}}, "", "", "the parameters are cpus"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := onePlan(c.choice, members())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: error %v, want %q", name, err, c.err)
				}
				return
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			var labels, ids []string
			for _, a := range p.Arms {
				labels = append(labels, a.Label)
			}
			for _, x := range p.Cases {
				ids = append(ids, x.ID)
			}
			if got := strings.Join(labels, " "); got != c.labels {
				t.Errorf("%s: arms %q, want %q", name, got, c.labels)
			}
			if got := strings.Join(ids, " "); got != c.cases {
				t.Errorf("%s: cases %q, want %q", name, got, c.cases)
			}
		})
	}
}

// TestNotation: the word after a colon is the parameter that it is short for, so both forms are one environment.
func TestNotation(t *testing.T) {
	p, err := onePlan(Choice{Experiment: job(), Envs: []string{"short=tee:me@there", "long=tee,cpus=me@there", "address=tee:::1"}}, members())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := p.Arms[0].Params, p.Arms[1].Params; a["cpus"] != "me@there" || !maps.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	if a := p.Arms[2].Params; a["cpus"] != "::1" {
		t.Errorf("an address of version 6: %v", a)
	}
}

func TestOrigin(t *testing.T) {
	e := job()
	if p, err := onePlan(Choice{Experiment: e}, members()); err != nil || p.Origin != nil {
		t.Errorf("of the user's own: %+v, %v", p.Origin, err)
	}
	e.Source, e.Corrects = "a paper", "its clock"
	p, err := onePlan(Choice{Experiment: e}, members())
	if want := (result.Origin{Source: "a paper", Corrects: "its clock"}); err != nil || p.Origin == nil || *p.Origin != want {
		t.Errorf("%+v, %v; want %+v", p.Origin, err, want)
	}
}

// TestSchedule: every case meets every arm once in each pair, the arms of a pair are adjacent,
// both orders occur, and the seed determines everything.
func TestSchedule(t *testing.T) {
	p, err := onePlan(Choice{Experiment: job(), Envs: []string{"native", "tee"}, Pairs: 20, Seed: 7}, members())
	if err != nil {
		t.Fatal(err)
	}
	order := p.Schedule()
	if len(order) != 20*2*2 {
		t.Fatalf("%d runs", len(order))
	}
	seen := map[result.Slot]bool{}
	first := map[string]int{}
	for i := 0; i < len(order); i += 2 {
		a, b := order[i], order[i+1]
		if a.Pair != b.Pair || a.Case != b.Case || a.Env == b.Env || seen[a] || seen[b] {
			t.Fatalf("slots %v and %v", a, b)
		}
		seen[a], seen[b] = true, true
		first[a.Env]++
	}
	if first["native"] == 0 || first["tee"] == 0 {
		t.Errorf("first in a pair: %v", first)
	}
	if !slices.Equal(order, p.Schedule()) {
		t.Error("the same seed gives another order")
	}
	p.Seed = 8
	if slices.Equal(order, p.Schedule()) {
		t.Error("another seed gives the same order")
	}
}

func TestIdentity(t *testing.T) {
	id := func(c Choice) string {
		t.Helper()
		c.Experiment = job()
		if c.Params == nil {
			c.Params = Params{}
		}
		if c.Params["kind"] == "" {
			c.Params["kind"] = "x"
		}
		p, err := onePlan(c, members())
		if err != nil {
			t.Fatal(err)
		}
		out, err := identify(host.Local(), p, &p.Cases[0])
		if err != nil {
			t.Fatal(err)
		}
		return out.Identity
	}
	base := id(Choice{})
	if id(Choice{Params: Params{"binary": "other"}}) != base || id(Choice{Envs: []string{"tee", "native,binary=x"}}) != base {
		t.Error("a subject makes another job")
	}
	if id(Choice{Params: Params{"size": "2"}}) == base {
		t.Error("a parameter does not make another job")
	}
}

func TestLoadExperiment(t *testing.T) {
	good := "name: n\nworkload: job\nparams: {size: 4}\nsweep: {kind: [x, y]}\nenvironments: [native, 'tee,cpus=0-1']\npairs: 12\nmargin: 5%\n" +
		"references: [{id: r, citation: a paper, unit: cost_ratio, low: 1.1, high: 1.2, source: literature}]\n"
	e, err := LoadExperiment("f.yaml", []byte(good))
	if err != nil || e.Params["size"] != "4" || e.Margin != 0.05 || e.Pairs != 12 || len(e.Environments) != 2 || len(e.References) != 1 || e.References[0].High != 1.2 || e.References[0].Source != result.Literature {
		t.Fatalf("%+v, %v", e, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "empty"},
		"unknown key":  {good + "colour: red\n", "colour"},
		"no name":      {"workload: job\n", "name is missing"},
		"no workload":  {"name: n\n", "workload is missing"},
		"margin":       {"name: n\nworkload: job\nmargin: 300%\n", "share like"},
		"both":         {"name: n\nworkload: job\nparams: {size: 1}\nsweep: {size: [1, 2]}\n", "params and in sweep"},
		"reference":    {"name: n\nworkload: job\nreferences: [{id: r, low: 2, high: 1}]\n", "a reference needs"},
		"empty sweep":  {"name: n\nworkload: job\nsweep: {size: []}\n", "no values"},
		"twice":        {"name: n\nworkload: job\nsweep: {size: [1, 1]}\n", "twice"},
		"pairs":        {"name: n\nworkload: job\npairs: -1\n", "want 1 or more, or 0 for the default"},
		"not a number": {"name: n\nworkload: job\npairs: many\n", "many"},
		"no mapping":   {"[1, 2]", "f.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := LoadExperiment("f.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}

func TestParams(t *testing.T) {
	p := Params{"n": "12", "d": "1.5s", "b": "64KiB", "big": "9999999999GiB", "bad": "x", "neg": "-3"}
	if v, err := p.Int("n", 1); v != 12 || err != nil {
		t.Error(v, err)
	}
	if v, err := p.Seconds("d"); v != 1500*time.Millisecond || err != nil {
		t.Error(v, err)
	}
	if v, err := p.Bytes("b"); v != 65536 || err != nil {
		t.Error(v, err)
	}
	for _, name := range []string{"bad", "neg", "big", "nowhere"} {
		t.Run(name, func(t *testing.T) {
			if v, err := p.Bytes(name); err == nil {
				t.Errorf("Bytes(%s) = %d", name, v)
			}
			if v, err := p.Seconds(name); err == nil {
				t.Errorf("Seconds(%s) = %v", name, v)
			}
		})
	}
	if _, err := p.Int("neg", 0); err == nil {
		t.Error("Int below the least")
	}
}

// TestNewPlans: cases with primary metrics of their own make separate results.
func TestNewPlans(t *testing.T) {
	l := members()
	rate := &metric.Desc{Name: "rate_per_second", Unit: "requests_per_second", Better: metric.Higher, Help: "Rate."}
	l.Workloads[0].Metrics = func(Params) []*metric.Desc { return []*metric.Desc{seconds, rate} }
	l.Workloads[0].Primary = func(p Params) *metric.Desc {
		if p["kind"] == "y" {
			return rate
		}
		return seconds
	}
	plans, err := NewPlans(Choice{Experiment: job(), Params: Params{"size": "1|2"}}, l)
	var got []string
	for _, p := range plans {
		got = append(got, fmt.Sprint(p.Name, " ", p.Primary, " ", len(p.Cases)))
	}
	if want := []string{"e-x took_seconds 2", "e-y rate_per_second 2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if plans, err = NewPlans(Choice{Experiment: job(), Primary: "took_seconds"}, l); err != nil || len(plans) != 1 || plans[0].Name != "e" {
		t.Errorf("one metric for all: %v, %v", plans, err)
	}
}

// TestHere: missing arms, and arms that refuse the job, are left out, as long as one remains.
func TestHere(t *testing.T) {
	absent := func(*host.Host, Params) error { return errors.New("no such hardware") }
	refuses := func(Params, Job) error { return errors.New("never") }
	elsewhere := func(Params) bool { return true }
	file := filepath.Join(t.TempDir(), "server.jar")
	for name, c := range map[string]struct {
		first, second, third func(*Launcher)
		job                  func(*Workload)
		binary               string // of the second arm
		left, err            string
	}{
		"all here":       {left: ""},
		"one is missing": {second: func(l *Launcher) { l.Check = absent }, left: "two: no such hardware"},
		"one refuses":    {third: func(l *Launcher) { l.Refuses = refuses }, left: "three: never"},
		"no baseline":    {first: func(l *Launcher) { l.Check = absent }, left: "one: no such hardware"},
		"one is here": {second: func(l *Launcher) { l.Check = absent }, third: func(l *Launcher) { l.Refuses = refuses },
			left: "two: no such hardwarethree: never"},
		"none is here": {first: func(l *Launcher) { l.Check = absent }, second: func(l *Launcher) { l.Check = absent }, third: func(l *Launcher) { l.Refuses = refuses },
			err: "environment three: never\nenvironment one, two: no such hardware"},
		"a tool of one": {binary: "java", job: func(w *Workload) {
			w.Tools = []Tool{{Command: "no-such-java", Package: "jre", With: func(p Params) bool { return p["binary"] == "java" }}}
		}, left: "two: workload job needs no-such-java on this machine; install the package jre"},
		"a tool elsewhere": {first: func(l *Launcher) { l.Elsewhere = elsewhere }, job: func(w *Workload) { w.Tools = []Tool{{Command: "no-such-java", Package: "jre"}} },
			left: "two: workload job needs no-such-java on this machine; install the package jrethree: workload job needs no-such-java on this machine; install the package jre"},
		"a tool of all": {job: func(w *Workload) { w.Tools = []Tool{{Command: "no-such-java", Package: "jre"}} },
			err: "workload job needs no-such-java on this machine; install the package jre"},
		"a file of one": {binary: file, job: func(w *Workload) {
			w.Job = func(p Params) (Job, error) {
				j := Job{Inside: host.Cmd{Argv: []string{"job"}}}
				if p["binary"] != "" {
					j.Files = []File{{Name: "server.jar", From: p["binary"], Hint: "make makes it"}, {Name: "made", Data: []byte("x")}}
				}
				return j, nil
			}
		}, left: "two: file server.jar of the job: stat " + file + ": no such file or directory (make makes it)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := members()
			if c.job != nil {
				c.job(l.Workloads[0])
			}
			var envs []string
			for i, change := range []func(*Launcher){c.first, c.second, c.third} {
				x := *l.Launchers[0]
				x.Name = []string{"one", "two", "three"}[i]
				if change != nil {
					change(&x)
				}
				l.Launchers = append(l.Launchers, &x)
				envs = append(envs, x.Name)
			}
			if c.binary != "" {
				envs[1] += ",binary=" + c.binary
			}
			p, err := onePlan(Choice{Experiment: job(), Envs: envs}, l)
			if err != nil {
				t.Fatal(err)
			}
			left, err := p.DropLacking(host.Local())
			got := ""
			for _, x := range left {
				got += x.Env + ": " + x.Why
			}
			if got != c.left || c.err != "" && (err == nil || err.Error() != c.err) || c.err == "" && (err != nil || len(p.Arms)+len(left) != 3) {
				t.Errorf("%s: %q left out of %d, %v; want %q, %s", name, got, len(p.Arms), err, c.left, c.err)
			}
		})
	}
}

// TestInstall: an experiment says once how to get the files that its jobs do not explain.
func TestInstall(t *testing.T) {
	l, dir := members(), t.TempDir()
	w := l.Workloads[0]
	w.Job = func(Params) (Job, error) {
		return Job{Inside: host.Cmd{Argv: []string{"job"}}, Files: []File{{Name: "a", From: dir + "/a"}, {Name: "b", From: dir + "/b"}, {Name: "c", From: dir + "/c", Hint: "make c"}}}, nil
	}
	missing := func(name, hint string) string {
		return fmt.Sprintf("file %s of the job: stat %s/%s: no such file or directory%s", name, dir, name, hint)
	}
	for install, want := range map[string]string{
		"":         missing("a", "") + "; " + missing("b", "") + "; " + missing("c", " (make c)"),
		"unpack x": missing("a", " (unpack x)") + "; " + missing("c", " (make c)"),
	} {
		t.Run(install, func(t *testing.T) {
			e := job()
			e.Install = install
			p, err := onePlan(Choice{Experiment: e}, l)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Check(host.Local()); err == nil || err.Error() != want {
				t.Errorf("install %q: %v, want %q", install, err, want)
			}
		})
	}
}

// TestBoots: a boot is measured only where a machine is booted for each run.
func TestBoots(t *testing.T) {
	l := members()
	w := l.Workloads[0]
	given := w.Job
	w.Job = func(p Params) (Job, error) {
		j, err := given(p)
		j.Boots = true
		return j, err
	}
	boots := *l.Launchers[0]
	boots.Name, boots.Boots = "vm", func(p Params) bool { return p["cpus"] == "1" }
	l.Launchers = append(l.Launchers, &boots)
	p, err := onePlan(Choice{Experiment: job(), Envs: []string{"vm,cpus=1", "kept=vm,cpus=2", "native"}}, l)
	if err != nil {
		t.Fatal(err)
	}
	left := p.Lacking(host.Local())
	if len(left) != 2 || left[0].Env != "kept" || left[1].Env != "native" || !strings.Contains(left[0].Why, "fresh=true") {
		t.Errorf("left out %+v", left)
	}
}

// TestMonitorElsewhere: what a virtual machine costs is measured only where there is one.
func TestMonitorElsewhere(t *testing.T) {
	l := members()
	w := l.Workloads[0]
	given := w.Job
	w.Job = func(p Params) (Job, error) {
		j, err := given(p)
		j.Monitor = true
		return j, err
	}
	guest := *l.Launchers[0]
	guest.Name, guest.Monitor = "vm", true
	l.Launchers = append(l.Launchers, &guest)
	p, err := onePlan(Choice{Experiment: job(), Envs: []string{"vm", "native"}}, l)
	if err != nil {
		t.Fatal(err)
	}
	left := p.Lacking(host.Local())
	if len(left) != 1 || left[0].Env != "native" || !strings.Contains(left[0].Why, "use the launcher qemu") {
		t.Errorf("left out %+v", left)
	}
}

// TestPaths: relative paths become absolute, and a comma separates only where a
// list is declared.
func TestPaths(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Complete("x", []Param{{Name: "one", Path: true}, {Name: "more", Path: true, List: true}, {Name: "none", Path: true}},
		Params{"one": "a b,c", "more": "a,/b,c/d", "none": ""})
	want := Params{"one": here + "/a b,c", "more": here + "/a,/b," + here + "/c/d", "none": ""}
	if err != nil || !maps.Equal(p, want) {
		t.Errorf("%v, %v; want %v", p, err, want)
	}
}

func FuzzLoadExperiment(f *testing.F) {
	f.Add([]byte("name: n\nworkload: job\nsweep: {a: [1, 2]}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := LoadExperiment("f.yaml", b)
		if err == nil && (e.Name == "" || e.Workload == "") {
			t.Errorf("accepted %q", b)
		}
	})
}

// TestMissingPrograms: a program of ours that is not here is named in one line, with the command that makes it.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", "")
	for from, made := range map[string]string{Worker: "`make build`", Prover: "`make build`", ZKVM: "`make zkvm`"} {
		t.Run(from, func(t *testing.T) {
			err := File{Name: "program", From: from}.checkReadable(host.Local())
			if err == nil || !strings.Contains(err.Error(), beside[from].command) || !strings.Contains(err.Error(), made) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want its name and %s", from, err, made)
			}
		})
	}
}
