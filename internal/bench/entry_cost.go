package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// Each arm's empty system call is timed by the CPU time that this machine's kernel
// charges to the arm's processes, like the workload's: clocks inside a sandbox or a
// guest may differ, and wall time includes others. Launching also uses CPU time, so a
// job with few calls is subtracted from jobs with many.
const (
	fewCalls  = 500
	mostCalls = 5_000_000
	// callSeconds is about how long the calls of a job take, callJobs the number of
	// such jobs.
	callSeconds = 0.5
	callJobs    = 3
	// The worker makes all calls of a window once before, which warms it up.
	passes = 2
)

// entry measures a system call in an environment as the programs of a job make it; why
// says why it is unknown.
func (s *session) entry(ctx context.Context, env Environment, job Job) (cost *result.CallCost, why string) {
	if s.o.Counters == nil {
		return nil, s.o.NoCounters
	}
	form, err := s.form(job)
	if err != nil {
		return nil, err.Error()
	}
	few, err := s.calls(ctx, env, form, fewCalls)
	if err != nil {
		return nil, err.Error()
	}
	n := min(max(int(callSeconds/few.wall*fewCalls), 4*fewCalls), mostCalls)
	var each []float64
	seen := 0.0
	for range callJobs {
		many, err := s.calls(ctx, env, form, n)
		if err != nil {
			return nil, err.Error()
		}
		each = append(each, (many.cpu-few.cpu)/float64(passes*(n-fewCalls)))
		seen += (many.seen - few.seen) / float64(callJobs*passes*(n-fewCalls))
	}
	slices.Sort(each)
	if each[0] <= 0 {
		return nil, "launching the job used as much CPU time as the calls"
	}
	return &result.CallCost{Seconds: each[len(each)/2], Low: each[0], High: each[len(each)-1], Seen: seen, Form: form}, ""
}

// called is the observed result of a job of system calls.
type called struct {
	wall float64 // seconds by the clock inside
	cpu  float64 // seconds by this machine's kernel
	seen float64 // calls of this name seen by this machine's kernel
}

// nullCall is the call that the worker makes.
const nullCall = "getppid"

// form is the form of the worker whose system calls stand for those of a job. It matters
// only in a library OS; then the other arms' are priced alike, too.
func (s *session) form(job Job) (string, error) {
	if s.Plan == nil || !slices.ContainsFunc(s.Arms, func(a Arm) bool { return a.Launcher.LibraryOS }) {
		return micro.Static, nil
	}
	form, err := linkage(s.o.Host, job)
	if err != nil {
		return "", fmt.Errorf("a library OS answers the calls of static and dynamic programs at different costs, and it is unknown whether these programs are static or dynamic: %w", err)
	}
	if err := micro.Missing(form); err != nil {
		return "", fmt.Errorf("the workload's programs are %s: %w", form, err)
	}
	return form, nil
}

// calls makes n system calls in an environment, by the worker in a form.
func (s *session) calls(ctx context.Context, env Environment, form string, n int) (called, error) {
	if err := s.o.Counters.Begin(ctx); err != nil {
		return called{}, err
	}
	name := "micro"
	if form == micro.Dynamic { // launchers keep what they were given under a name
		name = "micro-dynamic"
	}
	out, err := env.Run(ctx, Job{Inside: host.Cmd{Argv: []string{"{work}/" + name, "calm", "0", "wall", "syscall", "null", "1", "1", strconv.Itoa(n), "0"}},
		Files: []File{{Name: name, Data: micro.In(form), Exec: true}}})
	counted, cerr := s.o.Counters.Finish(ctx, out.Processes)
	if err = errors.Join(err, cerr); err != nil {
		return called{}, err
	}
	if counted.CPU == nil || len(out.Processes) == 0 {
		return called{}, errors.New("this machine's kernel does not count the CPU time of the environment's processes")
	}
	c := called{cpu: *counted.CPU}
	for _, k := range counted.Counters {
		if k.Name == "tee_syscalls_total" && k.Labels["syscall"] == nullCall && k.Value != nil {
			c.seen += *k.Value
		}
	}
	done := ""
	for line := range strings.Lines(string(out.Inside.Stdout)) {
		switch f := strings.Fields(line); {
		case len(f) == 4 && f[0] == "end":
			nanoseconds, err := metric.ParseNumber(f[3])
			if err != nil {
				return called{}, fmt.Errorf("cannot read the time in the worker's line %.60q: %w", line, err)
			}
			c.wall += nanoseconds / 1e9
		case len(f) == 3 && f[0] == "done":
			done = f[1] + " " + f[2]
		}
	}
	if done != fmt.Sprintf("%d 0", n) || !(c.wall > 0) {
		return called{}, fmt.Errorf("the worker's numbers of system calls and of wrong results are %q, want %d and 0, in a time above 0", done, n)
	}
	return c, nil
}
