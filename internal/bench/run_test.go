package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

// scripted is an environment that prints a number of seconds: base, times the arm's factor, with
// a little noise. It is frozen when idle.
type scripted struct {
	machine bool // jobs run in a virtual machine
	t       *testing.T
	factor  float64
	runs    int
	idle    bool
	closed  bool
	stuck   error        // the error of Close
	output  *host.Output // instead of the number
	// reached is what the n-th check that the load reaches this environment gives; nil: it does.
	reached func(n int) (Outcome, error)
	checks  int
	full    bool     // the program that counts inside does not fit
	ready   []string // the programs of the jobs that Prepare got
	// fail is called before each run of the job.
	fail func(n int) error
}

func (s *scripted) Describe(context.Context, *result.Environment) error { return nil }

func (s *scripted) Prepare(_ context.Context, jobs ...Job) error {
	s.ready = nil
	for _, j := range jobs {
		s.ready = append(s.ready, j.Inside.Argv[0])
	}
	return nil
}

func (s *scripted) Run(ctx context.Context, j Job) (Outcome, error) {
	if s.idle {
		s.t.Error("a run in a frozen environment")
	}
	if s.reached != nil && slices.Contains(j.Inside.Argv, "identity") {
		inside, outside := strings.Join(j.Inside.Argv, " "), strings.Join(j.Outside.Argv, " ")
		if word := j.Inside.Argv[3]; len(word) < 20 || !strings.Contains(outside, word) || strings.Contains(inside+outside, "{port}") {
			s.t.Errorf("inside %q and outside %q", inside, outside)
		}
		s.checks++
		return s.reached(s.checks)
	}
	if s.full && j.Inside.Argv[0] == "counts" {
		return Outcome{}, errors.New("no room for it")
	}
	if j.Inside.Argv[0] != "job" {
		return outcomeOf(host.Local().Exec(ctx, host.Cmd{Argv: []string{"true"}}))
	}
	s.runs++
	if j.Outside != nil && j.Outside.Heard != nil {
		for _, line := range []string{"waiting", "from here", "on the way", "to here"} {
			if answer := j.Outside.Heard(line); (answer != "") != strings.HasSuffix(line, " here") {
				s.t.Errorf("%q is answered with %q", line, answer)
			}
		}
	}
	if s.fail != nil {
		if err := s.fail(s.runs); err != nil {
			return Outcome{Inside: host.Output{Stderr: []byte("it broke\n")}}, err
		}
	}
	if s.output != nil {
		return Outcome{Inside: *s.output, Processes: []string{"job"}}, ctx.Err()
	}
	v := s.factor * (1 + 0.001*float64(s.runs%5))
	return Outcome{Inside: host.Output{Stdout: []byte(strconv.FormatFloat(v, 'g', -1, 64) + "\n")}, Processes: []string{"job"}, Machine: s.machine}, ctx.Err()
}

func outcomeOf(o host.Output, err error) (Outcome, error) { return Outcome{Inside: o}, err }

func (s *scripted) Idle(_ context.Context, on bool) error { s.idle = on; return nil }
func (s *scripted) Close() error                          { s.closed = true; return s.stuck }

// counting counts as many events as the run had milliseconds.
type counting struct {
	begun   int
	never   []result.Counter
	missing map[string]string
	windows []bool
}

func (c *counting) Begin(context.Context) error           { c.begun++; return nil }
func (c *counting) Window(_ context.Context, begins bool) { c.windows = append(c.windows, begins) }

func (c *counting) Finish(_ context.Context, ps []string) (Counted, error) {
	if !slices.Equal(ps, []string{"job"}) {
		return Counted{}, fmt.Errorf("processes %v", ps)
	}
	v := 42.0
	return Counted{Counters: []result.Counter{{Name: "tee_syscalls_total", Value: &v, Scope: "process", Trust: result.Full}}, Never: c.never, Missing: c.missing}, nil
}

// TestCountersOfAnotherName: if the workload did not run under the counted process names, their
// counters are not used for it.
func TestCountersOfAnotherName(t *testing.T) {
	second, little := 1.0, 0.3
	for name, c := range map[string]struct {
		whole bool
		used  time.Duration
		cpu   *float64
		seen  bool
	}{
		"the same":             {true, time.Second, &second, true},
		"little of it":         {true, time.Second, &little, false},
		"too short to say":     {true, 3 * time.Millisecond, new(float64), true},
		"not of the command":   {false, time.Second, &little, true},
		"CPU time is unknown":  {true, time.Second, nil, true},
		"none, by their names": {true, 14 * time.Millisecond, new(float64), false},
	} {
		t.Run(name, func(t *testing.T) {
			why := whyUncounted(Outcome{Inside: host.Output{User: c.used}, Whole: c.whole, Processes: []string{"loader"}}, Counted{CPU: c.cpu})
			if (why == "") != c.seen {
				t.Errorf("%s: %q", name, why)
			}
		})
	}
	a, b := 1.0, 2.0
	got := unseen([]result.Counter{{Name: "own", Value: &a, Scope: "process", Trust: result.Full}, {Name: "all", Value: &b, Scope: "machine", Trust: result.Partial}}, "why")
	if got[0].Value != nil || got[0].Trust != result.None || got[0].Note != "why" || got[1].Value == nil {
		t.Errorf("%+v", got)
	}
}

// TestWorkCPU: work of a launcher's service is never taken for that of others.
func TestWorkCPU(t *testing.T) {
	one := 1.0
	command := host.Output{User: 100 * time.Millisecond, System: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		out     Outcome
		cpu     *float64
		own     float64
		partial bool
	}{
		"the command":           {Outcome{Inside: command, Whole: true, Processes: []string{"job"}}, nil, 0.2, false},
		"counted":               {Outcome{Inside: command, Processes: []string{"job"}}, &one, 1, false},
		"a service":             {Outcome{Inside: command, Processes: []string{"job"}}, nil, 0.2, true},
		"a machine":             {Outcome{Inside: command, Processes: []string{"qemu"}, Monitor: &Monitor{CPU: 3 * time.Second}}, nil, 3, false},
		"another host, a load":  {Outcome{Inside: host.Output{}, Outside: command}, nil, 0.2, false},
		"a program beside that": {Outcome{Inside: command, Whole: true, Processes: []string{"job"}, Beside: time.Second}, nil, 1.2, false},
	} {
		t.Run(name, func(t *testing.T) {
			if own, partial := workCPU(c.out, Counted{CPU: c.cpu}); own != c.own || (partial != "") != c.partial {
				t.Errorf("%s: %v s, %q", name, own, partial)
			}
		})
	}
}

var jobs = &metric.Desc{Name: "job_operations", Unit: "operations", Help: "Operations."}

// bed returns a plan with scripted environments.
func bed(t *testing.T, pairs int, envs map[string]*scripted) (*Plan, Options, Lists) {
	t.Helper()
	l := members()
	w := l.Workloads[0]
	w.Metrics = func(Params) []*metric.Desc { return []*metric.Desc{seconds, jobs} }
	w.Operations = jobs
	w.Sweep = nil
	w.Parse = func(o Outcome) ([]metric.Sample, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(string(o.Inside.Stdout)), 64)
		if err != nil {
			return []metric.Sample{{Desc: jobs, Value: 21}}, fmt.Errorf("output %q is not a number", o.Inside.Stdout)
		}
		return []metric.Sample{{Desc: seconds, Value: v}, {Desc: jobs, Value: 21}}, nil
	}
	w.Check = func(o Outcome) (string, error) {
		if strings.Contains(string(o.Inside.Stdout), "wrong") {
			return "", errors.New("the answer is wrong")
		}
		return "same", nil
	}
	arms := []string{"native", "tee"}
	for _, name := range slices.Sorted(maps.Keys(envs)) {
		if !slices.Contains(arms, name) {
			more := *l.Launchers[0]
			more.Name = name
			l.Launchers, arms = append(l.Launchers, &more), append(arms, name)
		}
	}
	for _, x := range l.Launchers {
		x.Open = func(context.Context, *host.Host, Params) (Environment, error) {
			if envs[x.Name] == nil {
				return nil, errors.New("no such thing here")
			}
			e := envs[x.Name]
			e.t, e.closed, e.idle = t, false, false
			return e, nil
		}
	}
	p, err := onePlan(Choice{Experiment: job(), Envs: arms, Pairs: pairs, Seed: 1}, l)
	if err != nil {
		t.Fatal(err)
	}
	// A machine whose CPUs are idle: other work on the real one must not set pairs aside.
	h := host.At(t.TempDir())
	if err := h.Install("/proc/stat", []byte("cpu  1 0 1 100 0 0 0 0 0 0\ncpu0 1 0 1 100 0 0 0 0 0 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return p, Options{Host: h, Counters: &counting{}, Verdict: verdict.Options{Diff: environment.Diff}}, l
}

func TestRun(t *testing.T) {
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}}
	p, o, _ := bed(t, 8, envs)
	var said []Progress
	o.Progress = func(p Progress) { said = append(said, p) }
	path := filepath.Join(t.TempDir(), "r.json")
	e, err := Run(t.Context(), p, o, path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := result.Read(path)
	if err != nil || len(read.Runs) != 16 || read.EndedAt == nil {
		t.Fatalf("read back: %v", err)
	}
	if !envs["native"].closed || !envs["tee"].closed {
		t.Error("an environment was left open")
	}
	if len(e.Comparisons) == 0 {
		t.Fatal("no comparison")
	}
	c := e.Comparisons[0]
	if c.Metric != "took_seconds" || !c.Primary || c.Ratio == nil || *c.Ratio < 1.49 || *c.Ratio > 1.51 || c.Pairs != 8 {
		t.Errorf("comparison %+v", c)
	}
	r := e.Runs[0]
	if len(r.Counters) != 1 || r.Counters[0].PerOperation == nil || *r.Counters[0].PerOperation != 2 {
		t.Errorf("counters %+v, want 42 events over 21 operations", r.Counters)
	}
	if len(r.Raw) != 1 || r.Raw[0].Path != "r.raw/"+r.ID+".stdout" {
		t.Errorf("raw %+v", r.Raw)
	}
	if last := said[len(said)-1]; last.Done != 16 || last.Last == nil {
		t.Errorf("last progress %+v", last)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeftBehind: an environment that cannot be taken down is reported, and no result is lost.
func TestLeftBehind(t *testing.T) {
	p, o, _ := bed(t, 6, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5, stuck: errors.New("the folder is busy")}})
	path := filepath.Join(t.TempDir(), "r.json")
	if e, err := Run(t.Context(), p, o, path); e == nil || !errors.Is(err, ErrLeft) || !strings.Contains(err.Error(), "environment tee") {
		t.Errorf("error %v", err)
	}
	if e, err := result.Read(path); err != nil || len(e.Runs) != 12 || len(e.Comparisons) == 0 {
		t.Errorf("read back: %v", err)
	}
}

// TestReachesTheArm: a load that reaches another server than the one started is refused before the
// runs, and doubted after them; an environment that cannot run the check says so.
func TestReachesTheArm(t *testing.T) {
	failed := errors.New("exit status 1")
	other := Outcome{Outside: host.Output{Code: otherAnswers, Stderr: []byte("teescope-work identity: 127.0.0.1:7 is answered by another program (answer: \"X\")\n")}}
	silent := Outcome{Outside: host.Output{Code: 1, Stderr: []byte("teescope-work identity: no answer from 127.0.0.1:7 within 30s\n")}}
	refused := Outcome{Inside: host.Output{Code: 1, Stderr: []byte("no such program\n")}}
	for name, c := range map[string]struct {
		reached              func(n int) (Outcome, error)
		err, missing, change string
	}{
		"the arm":          {reached: func(int) (Outcome, error) { return Outcome{}, nil }},
		"another":          {reached: func(int) (Outcome, error) { return other, failed }, err: "open environment tee: the load does not reach the servers that were started in the environment (loopback)"},
		"another, later":   {reached: func(n int) (Outcome, error) { return other, map[bool]error{true: failed}[n > 1] }, change: "answered by another program"},
		"no answer":        {reached: func(int) (Outcome, error) { return silent, failed }, missing: "no answer from 127.0.0.1:7"},
		"no answer, later": {reached: func(n int) (Outcome, error) { return silent, map[bool]error{true: failed}[n > 1] }, missing: "after the runs: not checked whether the load"},
		"nothing runs it":  {reached: func(int) (Outcome, error) { return refused, failed }, missing: "no such program"},
		"nothing, no word": {reached: func(int) (Outcome, error) { return Outcome{}, failed }, missing: "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5, reached: c.reached}}
			p, o, _ := bed(t, 2, envs)
			p.Workload.Job = func(Params) (Job, error) {
				return Job{Inside: host.Cmd{Argv: []string{"job"}}, Outside: &host.Cmd{Argv: []string{"load", "{host}:{port}"}}}, nil
			}
			e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if err != nil {
				return
			}
			env := e.Environment("tee")
			if got := env.Missing["identity"]; !strings.Contains(got, c.missing) || (got == "") != (c.missing == "") {
				t.Errorf("missing: %q, want %q", got, c.missing)
			}
			if got := env.Changed["network"]; !strings.Contains(got, c.change) || (got == "") != (c.change == "") {
				t.Errorf("changed: %q, want %q", got, c.change)
			}
		})
	}
}

// TestStopAndResume stops in the middle, as Ctrl-C does, and resumes: no run is lost or made
// twice, and the order is the planned one.
func TestStopAndResume(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}}
	envs["tee"].fail = func(n int) error {
		if n == 5 {
			cancel()
		}
		return nil
	}
	p, o, l := bed(t, 6, envs)
	path := filepath.Join(t.TempDir(), "r.json")
	_, err := Run(ctx, p, o, path)
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "--resume") {
		t.Fatalf("error %v", err)
	}
	if !envs["native"].closed || !envs["tee"].closed {
		t.Error("an environment was left open")
	}
	if _, err := result.Read(path); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("read before the end: %v", err)
	}
	envs["tee"].fail = nil
	e, err := Resume(t.Context(), l, o, path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range e.Runs {
		got = append(got, r.ID)
	}
	var want []string
	for _, s := range p.Schedule() {
		want = append(want, runID(s))
	}
	if !slices.Equal(got, want) {
		t.Errorf("runs %v, want %v", got, want)
	}
	if _, err := Resume(t.Context(), l, o, path); err == nil || !strings.Contains(err.Error(), "is finished") {
		t.Errorf("resume of a finished one: %v", err)
	}
}

// TestStopAtTheEnd stops after the last run, while the environments are checked again: that is
// not a success, and nothing is lost.
func TestStopAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}}
	p, o, l := bed(t, 6, envs)
	o.Progress = func(p Progress) {
		if p.Done == 12 && p.Last != nil {
			cancel()
		}
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if e, err := Run(ctx, p, o, path); e != nil || !errors.Is(err, ErrStopped) {
		t.Fatalf("document %v, error %v", e != nil, err)
	}
	o.Progress = nil
	e, err := Resume(t.Context(), l, o, path)
	if err != nil || len(e.Runs) != 12 {
		t.Errorf("resume: %v", err)
	}
}

func TestResumeRefusesAnotherJob(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	envs := map[string]*scripted{"native": {factor: 1, fail: func(n int) error {
		if n == 3 {
			cancel()
		}
		return nil
	}}, "tee": {factor: 1}}
	p, o, l := bed(t, 6, envs)
	path := filepath.Join(t.TempDir(), "r.json")
	if _, err := Run(ctx, p, o, path); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	l.Workloads[0].Version++
	if _, err := Resume(t.Context(), l, o, path); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("another version: %v", err)
	}
	if _, err := os.Stat(path + ".partial"); err != nil {
		t.Errorf("the runs are gone: %v", err)
	}
}

// TestFailures: a failed run is kept with its reason, an arm that always fails ends the
// experiment, and neither becomes a number.
func TestFailures(t *testing.T) {
	broken := errors.New("exit status 1")
	for name, c := range map[string]struct {
		fail func(int) error
		runs int // of both arms, minimum
		err  error
		want string
	}{
		"once":   {func(n int) error { return map[bool]error{true: broken}[n == 4] }, 16, nil, "exit status 1: it broke"},
		"always": {func(int) error { return broken }, 2*result.GiveUp - 1, ErrArm, "exit status 1: it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1, fail: c.fail}}
			p, o, _ := bed(t, 8, envs)
			path := filepath.Join(t.TempDir(), "r.json")
			e, err := Run(t.Context(), p, o, path)
			if !errors.Is(err, c.err) {
				t.Errorf("%s: error %v, want %v", name, err, c.err)
			}
			if e == nil || len(e.Runs) < c.runs {
				t.Fatalf("%s: %d runs", name, len(e.Runs))
			}
			failed := 0
			for _, r := range e.Runs {
				if r.Status == result.Failed {
					failed++
					if r.Reason != c.want || len(r.Metrics) != 0 {
						t.Errorf("%s: reason %q, metrics %v", name, r.Reason, r.Metrics)
					}
				}
			}
			if failed == 0 {
				t.Errorf("%s: no failed run", name)
			}
			if c.err != nil && (len(e.Comparisons) == 0 || e.Comparisons[0].Verdict != stats.Invalid && e.Comparisons[0].Verdict != stats.Inconclusive || e.Comparisons[0].Ratio != nil) {
				t.Errorf("%s: comparison %+v", name, e.Comparisons)
			}
			if _, err := result.Read(path); err != nil {
				t.Errorf("%s: the document: %v", name, err)
			}
		})
	}
}

// TestArmGivenUp: an arm that always fails ends nothing while two others remain, even if the
// experiment is stopped and resumed in between.
func TestArmGivenUp(t *testing.T) {
	broken := func(int) error { return errors.New("exit status 1") }
	for name, c := range map[string]struct {
		bad  []string
		runs map[string]int // that succeeded
		all  int
	}{
		"one of three":     {[]string{"tee"}, map[string]int{"native": 8, "other": 8}, 16 + result.GiveUp},
		"the first":        {[]string{"native"}, map[string]int{"tee": 8, "other": 8}, 16 + result.GiveUp},
		"all but the last": {[]string{"native", "tee"}, map[string]int{"other": result.GiveUp}, 3 * result.GiveUp},
	} {
		t.Run(name, func(t *testing.T) {
			envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}, "other": {factor: 2}}
			for _, arm := range c.bad {
				envs[arm].fail = broken
			}
			p, o, l := bed(t, 8, envs)
			ctx, cancel := context.WithCancel(t.Context())
			o.Progress = func(p Progress) {
				if p.Done == 5 && p.Last != nil && name == "one of three" {
					cancel()
				}
			}
			path := filepath.Join(t.TempDir(), "r.json")
			e, err := Run(ctx, p, o, path)
			if name == "one of three" {
				if !errors.Is(err, ErrKept) {
					t.Fatalf("%s: stopped with %v", name, err)
				}
				o.Progress = nil
				e, err = Resume(t.Context(), l, o, path)
			}
			cancel()
			if e == nil || !errors.Is(err, ErrArm) {
				t.Fatalf("%s: %v", name, err)
			}
			for _, arm := range c.bad {
				if !strings.Contains(err.Error(), "environment "+arm+": 3 of 3 runs failed") {
					t.Errorf("%s: %s is not named: %v", name, arm, err)
				}
			}
			well := map[string]int{}
			for _, r := range e.Runs {
				if r.Status == result.OK {
					well[r.Env]++
				}
			}
			if read, err := result.Read(path); err != nil || len(read.Runs) > c.all || len(well) != len(c.runs) {
				t.Errorf("%s: %d runs, want at most %d; %v of them ended well: %v", name, len(e.Runs), c.all, well, err)
			}
			for arm, n := range c.runs {
				if len(c.bad) == 1 && well[arm] != n || len(c.bad) == 2 && well[arm] > n {
					t.Errorf("%s: %d runs of %s ended well, want %d", name, well[arm], arm, n)
				}
			}
		})
	}
}

// TestBarrenCase: a case that has no value in an arm is left out there, and the other cases run to their end.
func TestBarrenCase(t *testing.T) {
	p, o, _ := bed(t, 8, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}})
	p.Cases = []Case{{ID: "even", Params: Params{"kind": "x", "size": "1"}}, {ID: "odd", Params: Params{"kind": "y", "size": "1"}}}
	parse := p.Workload.Parse
	p.Workload.Parse = func(out Outcome) ([]metric.Sample, error) {
		list, err := parse(out)
		if err == nil && out.Params["kind"] == "y" && list[0].Value > 1.4 {
			return nil, errors.New("no steady state")
		}
		return list, err
	}
	e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for _, r := range e.Runs {
		runs[r.Case+" "+r.Env+" "+string(r.Status)]++
	}
	if want := map[string]int{"even native ok": 8, "even tee ok": 8, "odd native ok": 8, "odd tee failed": result.GiveUp}; !maps.Equal(runs, want) {
		t.Errorf("%v, want %v", runs, want)
	}
}

// TestFullDisk: runs before the disk was full are kept, the error says how to continue, and with
// free space it does.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(dir, "r.json"), filepath.Join(dir, "filler")
	p, o, l := bed(t, 6, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}})
	o.Progress = func(p Progress) {
		if p.Done == 4 && p.Last != nil {
			if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("fill the disk: %v", err)
			}
		}
	}
	e, err := Run(t.Context(), p, o, path)
	if e != nil || !errors.Is(err, unix.ENOSPC) || !errors.Is(err, ErrKept) || !strings.Contains(err.Error(), "(runs: 4): continue with `teescope bench run --resume --out "+path+"`") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	o.Progress = nil
	if e, err := Resume(t.Context(), l, o, path); err != nil || len(e.Runs) != 12 {
		t.Errorf("resume: %v", err)
	}
}

func TestHangingRunIsEnded(t *testing.T) {
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1}}
	p, o, _ := bed(t, 6, envs)
	o.Timeout = 20 * time.Millisecond
	hang := p.Arms[1].Launcher.Open
	p.Arms[1].Launcher.Open = func(ctx context.Context, h *host.Host, ps Params) (Environment, error) {
		e, err := hang(ctx, h, ps)
		return hanging{e.(*scripted)}, err
	}
	e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
	if !errors.Is(err, ErrArm) || e == nil {
		t.Fatal(err)
	}
	for _, r := range e.Runs {
		if r.Env == "tee" && (!strings.Contains(r.Reason, "took longer than 20ms") || strings.Contains(r.Reason, "\n")) {
			t.Errorf("reason %q", r.Reason)
		}
	}
}

type hanging struct{ *scripted }

func (h hanging) Run(ctx context.Context, j Job) (Outcome, error) {
	if j.Inside.Argv[0] != "job" {
		return h.scripted.Run(ctx, j)
	}
	<-ctx.Done()
	return Outcome{}, ctx.Err()
}

// TestOpenFails leaves no file and no open environment.
func TestOpenFails(t *testing.T) {
	envs := map[string]*scripted{"native": {factor: 1}}
	p, o, _ := bed(t, 6, envs)
	dir := t.TempDir()
	if _, err := Run(t.Context(), p, o, filepath.Join(dir, "r.json")); err == nil || !strings.Contains(err.Error(), "open environment tee: no such thing here") {
		t.Errorf("error %v", err)
	}
	if !envs["native"].closed {
		t.Error("native was left open")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestMissingMetric: a run without its primary metric failed; it is not 0.
func TestMissingMetric(t *testing.T) {
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1}}
	p, o, _ := bed(t, 6, envs)
	good := p.Workload.Parse
	p.Workload.Parse = func(out Outcome) ([]metric.Sample, error) {
		if envs["tee"].runs == 3 {
			out.Inside.Stdout = []byte("version 99 says nothing\n")
		}
		return good(out)
	}
	e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for i := range e.Runs {
		if r := &e.Runs[i]; r.Status == result.Failed {
			found = true
			if m := r.Metric("took_seconds"); m == nil || m.Value != nil || !strings.Contains(m.Reason, "is not a number") {
				t.Errorf("metric %+v", m)
			}
		}
	}
	if !found {
		t.Error("no run failed")
	}
}

// TestWindow: if the outside announces when it measures, the counters are told, in each counted
// run and in no other.
func TestWindow(t *testing.T) {
	for _, window := range [][2]string{{}, {"from here", "to here"}} {
		p, o, _ := bed(t, 6, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 2}})
		plain := p.Workload.Job
		p.Workload.Job = func(params Params) (Job, error) {
			j, err := plain(params)
			j.Outside, j.Window = &host.Cmd{Argv: []string{"load"}}, window
			return j, err
		}
		if _, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json")); err != nil {
			t.Fatal(err)
		}
		var want []bool
		if window[0] != "" {
			want = slices.Repeat([]bool{true, false}, 12)
		}
		if got := o.Counters.(*counting).windows; !slices.Equal(got, want) {
			t.Errorf("window %q: the counters were told %v, want %v", window, got, want)
		}
	}
}

// TestNever: what cannot happen to this machine's kernel is 0 for what runs under it, and not known in a virtual machine.
func TestNever(t *testing.T) {
	p, o, _ := bed(t, 6, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5, machine: true}})
	zero, reason := 0.0, map[string]string{"tee_sgx_enclave_entries_total": "off"}
	o.Counters = &counting{never: []result.Counter{{Name: "tee_never_total", Value: &zero, Scope: "machine", Trust: result.Partial}}, missing: reason}
	e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Runs {
		known := slices.ContainsFunc(r.Counters, func(k result.Counter) bool { return k.Name == "tee_never_total" })
		if known != (r.Env == "native") || known != (r.Missing["tee_never_total"] == "") || r.Missing["tee_sgx_enclave_entries_total"] != "off" {
			t.Errorf("%s: counters %+v, missing %v", r.Env, r.Counters, r.Missing)
		}
	}
}

// insideCounting counts in a guest, under the name of the job's program.
type insideCounting struct {
	begun int
	err   error
}

func (c *insideCounting) Begin(context.Context) error  { c.begun++; return c.err }
func (c *insideCounting) Window(context.Context, bool) {}

func (c *insideCounting) Finish(_ context.Context, ps []string) (Counted, error) {
	v := float64(7 + len(ps))
	return Counted{Counters: []result.Counter{{Name: "tee_swiotlb_seconds_total", Labels: map[string]string{"ps": strings.Join(ps, " ")}, Value: &v}}}, nil
}

// TestNothingInside: where the cost of a guest is measured, no monitor runs in it.
func TestNothingInside(t *testing.T) {
	p, o, l := bed(t, 6, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}})
	for i := range l.Launchers {
		l.Launchers[i].OwnKernel = func(Params) bool { return true }
	}
	o.Inside = &Inside{}
	if !ownKernels(p, o) {
		t.Error("kernels of their own are not counted inside")
	}
	given := p.Workload.Job
	p.Workload.Job = func(params Params) (Job, error) {
		j, err := given(params)
		j.Monitor = true
		return j, err
	}
	if ownKernels(p, o) {
		t.Error("a monitor would run inside the guest whose cost is measured")
	}
}

// TestInside: if every arm has its own kernel, counters come from inside, and this machine's
// prices are not applied to them. An arm that cannot count says why.
func TestInside(t *testing.T) {
	for _, own := range []int{2, 1} {
		envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5, full: true}}
		p, o, l := bed(t, 6, envs)
		for i := range own {
			l.Launchers[i].OwnKernel = func(Params) bool { return true }
		}
		o.UnitCosts = &result.UnitCosts{Units: []result.UnitCost{{Event: "syscall", Seconds: 1e-7}}}
		inside := map[Environment]*insideCounting{}
		o.Inside = &Inside{Job: Job{Inside: host.Cmd{Argv: []string{"counts"}}}, Counters: func(env Environment) Counters {
			inside[env] = &insideCounting{}
			return inside[env]
		}}
		e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
		if err != nil {
			t.Fatal(err)
		}
		want := append([]string{"job", "counts"}[:own], "job") // the first case's files win
		if ready := envs["native"].ready; !slices.Equal(ready, want) {
			t.Errorf("%d arms with their own kernel: prepared for %q, want %q", own, ready, want)
		}
		if own < 2 {
			if len(inside) > 0 || len(e.UnitCosts.Units) != 1 || len(e.Runs[0].Counters) != 1 || e.Runs[0].Counters[0].Name != "tee_syscalls_total" {
				t.Errorf("one arm without a kernel of its own: %d counted inside, %+v", len(inside), e.Runs[0].Counters)
			}
			continue
		}
		if len(e.UnitCosts.Units) > 0 || e.UnitCosts.Reason == "" || inside[envs["native"]].begun != 6 {
			t.Errorf("prices %+v, begun %+v", e.UnitCosts, inside)
		}
		for _, r := range e.Runs {
			if r.Env == "tee" {
				if len(r.Counters) > 0 || !strings.Contains(r.Missing["counters"], "no room") {
					t.Errorf("counters %+v, missing %v", r.Counters, r.Missing)
				}
			} else if len(r.Counters) != 1 || r.Counters[0].Name != "tee_swiotlb_seconds_total" || r.Counters[0].Labels["ps"] == "" || r.Counters[0].PerOperation == nil {
				t.Errorf("counters %+v, missing %v", r.Counters, r.Missing)
			}
		}
	}
}

// TestSparePairs: a quick run replaces pairs that are lost, as many as it has spare ones, also after a stop; without loss it
// makes none.
func TestSparePairs(t *testing.T) {
	broken := errors.New("exit status 1")
	for name, c := range map[string]struct {
		fails []int // runs of the arm, the first of which is not counted
		pairs int
	}{
		"none is lost":  {nil, QuickPairs},
		"one is lost":   {[]int{4}, QuickPairs + 1},
		"many are lost": {[]int{3, 4, 5}, QuickPairs + QuickSpare},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			stop := 0
			envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}}
			envs["tee"].fail = func(n int) error {
				if n == stop {
					cancel()
				}
				if slices.Contains(c.fails, n) {
					return broken
				}
				return nil
			}
			p, o, l := bed(t, QuickPairs, envs)
			p.Spare = QuickSpare
			path := filepath.Join(t.TempDir(), "r.json")
			stop = 1 + c.pairs // the last run, which is a spare one where one is lost
			if _, err := Run(ctx, p, o, path); !errors.Is(err, ErrStopped) {
				t.Fatalf("%s: %v", name, err)
			}
			stop = 0
			e, err := Resume(t.Context(), l, o, path)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(e.Runs) != 2*c.pairs || len(e.Design.Order) != 2*c.pairs || e.Design.PairsPlanned != QuickPairs {
				t.Errorf("%s: %d runs of %d in the order, want %d pairs", name, len(e.Runs), len(e.Design.Order), c.pairs)
			}
			if want := p.schedule(c.pairs); !slices.Equal(e.Design.Order, want) {
				t.Errorf("%s: order %v, want that of the seed %v", name, e.Design.Order, want)
			}
		})
	}
}
