package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// kernel is an environment that imitates the worker's system calls, and this machine's kernel's
// account of it.
type kernel struct {
	launch float64   // CPU seconds of a job without calls
	each   []float64 // CPU seconds of a call, by job; the last value also applies to all later jobs
	wall   float64   // seconds of a call by the clock inside
	seen   float64   // share of the calls that the machine's kernel sees

	output  func(n int) string // replaces the worker's output
	fails   error
	blind   bool // the CPU time is unknown
	nowhere bool // the processes are invisible

	asked []int  // calls, by job
	ran   string // the worker of the last job
	cpu   float64
	calls float64
}

func (k *kernel) Run(_ context.Context, j Job) (Outcome, error) {
	n, err := strconv.Atoi(j.Inside.Argv[len(j.Inside.Argv)-2])
	if err != nil {
		return Outcome{}, err
	}
	each := k.each[min(len(k.asked), len(k.each)-1)]
	k.asked, k.ran = append(k.asked, n), j.Inside.Argv[0]
	k.cpu, k.calls = k.launch+passes*float64(n)*each, passes*float64(n)*k.seen
	text := fmt.Sprintf("begin 0\nend 0 %d %.0f\nbegin 0\nend 0 %d %.0f\ndone %d 0\n", n/2, k.wall*float64(n/2)*1e9, n-n/2, k.wall*float64(n-n/2)*1e9, n)
	if k.output != nil {
		text = k.output(n)
	}
	out := Outcome{Inside: host.Output{Stdout: []byte(text)}, Processes: []string{"micro"}}
	if k.nowhere {
		out.Processes = nil
	}
	return out, k.fails
}

func (*kernel) Describe(context.Context, *result.Environment) error { return nil }
func (*kernel) Idle(context.Context, bool) error                    { return nil }
func (*kernel) Close() error                                        { return nil }

func (*kernel) Begin(context.Context) error  { return nil }
func (*kernel) Window(context.Context, bool) {}

func (k *kernel) Finish(context.Context, []string) (Counted, error) {
	other := 7.0
	c := Counted{CPU: &k.cpu, Counters: []result.Counter{
		{Name: "tee_syscalls_total", Labels: map[string]string{"syscall": nullCall}, Value: &k.calls},
		{Name: "tee_syscalls_total", Labels: map[string]string{"syscall": "write"}, Value: &other},
		{Name: "tee_context_switches_total", Value: &other},
	}}
	if k.blind {
		c.CPU = nil
	}
	return c, nil
}

// TestEntry: the cost of a system call is the difference between many calls and few, whatever
// launching costs; a failed measurement gives its reason.
func TestEntry(t *testing.T) {
	fast := func(k kernel) kernel {
		k.launch, k.wall, k.seen = 5e-3, 1e-7, 1
		if k.each == nil {
			k.each = []float64{1e-7}
		}
		return k
	}
	for _, c := range []struct {
		name   string
		kernel kernel
		want   result.CallCost // its spread is checked if not 0
		asked  int             // calls in a job with many
		why    string
	}{
		{"native", fast(kernel{}), result.CallCost{Seconds: 1e-7, Seen: 1}, mostCalls, ""},
		{"spread", fast(kernel{each: []float64{1e-7, 1.3e-7, 0.8e-7, 1e-7}}), result.CallCost{Seconds: 1e-7, Low: 0.8e-7, High: 1.3e-7, Seen: 1}, mostCalls, ""},
		{"a sandbox's own kernel", kernel{launch: 0.2, each: []float64{2e-6}, wall: 2e-6}, result.CallCost{Seconds: 2e-6, Low: 2e-6, High: 2e-6}, 250_000, ""},
		{"half of them seen", kernel{each: []float64{1e-6}, wall: 1e-6, seen: 0.5}, result.CallCost{Seconds: 1e-6, Seen: 0.5}, 500_000, ""},
		{"slow", kernel{each: []float64{1e-3}, wall: 1e-3}, result.CallCost{Seconds: 1e-3}, 4 * fewCalls, ""},
		{"nothing but launching", fast(kernel{each: []float64{0}}), result.CallCost{}, 0, "launching the job used as much"},
		{"one of the jobs took less than launching", fast(kernel{each: []float64{1e-4, 1e-7, 0, 1e-7}}), result.CallCost{}, 0, "launching the job used as much"},
		{"no CPU time", fast(kernel{blind: true}), result.CallCost{}, 0, "this machine's kernel does not count"},
		{"another machine", fast(kernel{nowhere: true}), result.CallCost{}, 0, "this machine's kernel does not count"},
		{"no worker", fast(kernel{fails: errors.New("exec format error")}), result.CallCost{}, 0, "exec format error"},
		{"says nothing", fast(kernel{output: func(int) string { return "" }}), result.CallCost{}, 0, `wrong results are "", want 500`},
		{"wrong calls", fast(kernel{output: func(n int) string { return fmt.Sprintf("end 0 %d 1000\ndone %d 2\n", n, n) }}), result.CallCost{}, 0, `wrong results are "500 2"`},
		{"too few calls", fast(kernel{output: func(n int) string { return fmt.Sprintf("end 0 %d 1000\ndone %d 0\n", n, n-1) }}), result.CallCost{}, 0, `wrong results are "499 0"`},
		{"a clock that stands still", fast(kernel{output: func(n int) string { return fmt.Sprintf("end 0 %d 0\ndone %d 0\n", n, n) }}), result.CallCost{}, 0, "in a time above 0"},
		{"no number", fast(kernel{output: func(int) string { return "end 0 1 soon\n" }}), result.CallCost{}, 0, `cannot read the time in the worker's line "end 0 1 soon\n"`},
		{"not a number", fast(kernel{output: func(n int) string { return fmt.Sprintf("end 0 %d NaN\ndone %d 0\n", n, n) }}), result.CallCost{}, 0, `"NaN" is not a number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := c.kernel
			s := &session{o: Options{Counters: &k}}
			got, why := s.entry(t.Context(), &k, Job{})
			if c.why != "" {
				if got != nil || !strings.Contains(why, c.why) {
					t.Errorf("%s: %+v, %q, want nothing because of %q", c.name, got, why, c.why)
				}
				return
			}
			if got == nil || why != "" {
				t.Errorf("%s: %+v, %q", c.name, got, why)
				return
			}
			near := func(what string, got, want float64) {
				if math.Abs(got-want) > 0.002*want {
					t.Errorf("%s: %s %g, want %g", c.name, what, got, want)
				}
			}
			near("seconds", got.Seconds, c.want.Seconds)
			near("seen", got.Seen, c.want.Seen)
			if c.want.Low != 0 {
				near("low", got.Low, c.want.Low)
				near("high", got.High, c.want.High)
			}
			if want := append([]int{fewCalls}, slices.Repeat([]int{c.asked}, callJobs)...); !slices.Equal(k.asked, want) {
				t.Errorf("%s: jobs of %v calls, want %v", c.name, k.asked, want)
			}
		})
	}
	s := &session{o: Options{NoCounters: "switched off"}}
	if got, why := s.entry(t.Context(), &kernel{}, Job{}); got != nil || why != "switched off" {
		t.Errorf("without counters: %+v, %q", got, why)
	}
}

// TestEntryForm: in a library OS, and in the arm next to it, system calls are priced as programs linked like the
// workload's make them; elsewhere by the static worker, which runs everywhere.
func TestEntryForm(t *testing.T) {
	if micro.In(micro.Dynamic) == nil {
		t.Skip("no worker was built for this architecture")
	}
	h := host.Local()
	dir := t.TempDir()
	install := func(name string, data []byte) string {
		name = dir + "/" + name
		if err := h.Install(name, data, 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	static, dynamic := install("static", micro.Program), install("dynamic", micro.In(micro.Dynamic))
	script := install("script", []byte("#! "+dynamic+" -e\n"))
	again := install("again", []byte("#!/usr/bin/env -S A=1 "+script+" -x\n"))
	loop := install("loop", []byte("#!"+dir+"/loop\n"))
	library := []Arm{{Label: "native", Launcher: &Launcher{}}, {Label: "lib", Launcher: &Launcher{LibraryOS: true}}}
	job := func(argv ...string) Job { return Job{Inside: host.Cmd{Argv: argv}} }
	for _, c := range []struct {
		name string
		arms []Arm
		job  Job
		form string
		why  string
	}{
		{"no library OS", library[:1], job(dynamic), micro.Static, ""},
		{"dynamic", library, job(dynamic, static), micro.Dynamic, ""},
		{"static", library, job(static), micro.Static, ""},
		{"script", library, job(script), micro.Dynamic, ""},
		{"script of a script", library, job(again), micro.Dynamic, ""},
		{"own file", library, Job{Inside: host.Cmd{Argv: []string{"{work}/x"}}, Files: []File{{Name: "x", Data: micro.Program, Exec: true}}}, micro.Static, ""},
		{"folders of the job", library, Job{Inside: host.Cmd{Argv: []string{static}}, Programs: []string{"/usr/lib/jvm/*"}}, micro.Static, ""},
		{"both kinds", library, Job{Inside: host.Cmd{Argv: []string{static}}, Programs: []string{"sh"}}, "", "static is static, and sh is dynamic"},
		{"not here", library, job("teescope-no-such-program"), "", "does not exist"},
		{"no program", library, job(install("text", []byte("text"))), "", "is neither a script nor an ELF program"},
		{"no interpreter", library, job(install("bare", []byte("#!\n"))), "", "names no interpreter"},
		{"a script that is its own interpreter", library, job(loop), "", "is neither a script nor an ELF program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := kernel{launch: 5e-3, each: []float64{1e-7}, wall: 1e-7, seen: 1}
			s := &session{Plan: &Plan{Arms: c.arms}, o: Options{Counters: &k, Host: h}}
			got, why := s.entry(t.Context(), &k, c.job)
			if c.why != "" {
				if got != nil || !strings.Contains(why, c.why) {
					t.Errorf("%s: %+v, %q, want nothing because of %q", c.name, got, why, c.why)
				}
				return
			}
			if worker := map[string]string{micro.Static: "{work}/micro", micro.Dynamic: "{work}/micro-dynamic"}[c.form]; got == nil || got.Form != c.form || k.ran != worker {
				t.Errorf("%s: %+v, %q by %s, want %s", c.name, got, why, k.ran, c.form)
			}
		})
	}
}
