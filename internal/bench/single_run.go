package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// makeRun makes one run. Its error means that the experiment cannot continue; a failed run
// is a result.
func (s *session) makeRun(ctx context.Context, slot result.Slot) (*result.Run, error) {
	c, a := s.find(slot)
	params := s.params(c, a)
	job, err := s.Workload.Job(params)
	if err != nil {
		return nil, err
	}
	if job, err = s.placed(ctx, job, slot.Env); err != nil {
		return nil, err
	}
	env := s.envs[slot.Env]
	if err := env.Idle(ctx, false); err != nil {
		return nil, fmt.Errorf("thaw environment %s: %w", slot.Env, err)
	}
	r := &result.Run{ID: runID(slot), Env: slot.Env, Case: slot.Case, Pair: slot.Pair, Position: s.position(slot),
		StartedAt: s.o.Host.Now().UTC(), Status: result.OK, Missing: map[string]string{}}
	if r.Clock = s.watch.Clock(); r.Clock == "" {
		r.Missing["clock_source"] = "the kernel does not report its clock source"
	}
	out, err := s.observed(ctx, env, job, r)
	if ctx.Err() != nil {
		if len(s.doc.Runs) == 0 {
			return nil, fmt.Errorf("%w during the first run; nothing was measured or saved", ErrStopped)
		}
		return nil, fmt.Errorf("%w during run %s; that run is lost", ErrStopped, r.ID)
	}
	if errors.Is(err, ErrRebooted) {
		return nil, fmt.Errorf("environment %s: %w: %w", slot.Env, err, errAnew)
	}
	if errors.Is(err, ErrGone) {
		return nil, fmt.Errorf("environment %s: %w", slot.Env, err)
	}
	out.Params = params
	if ierr := env.Idle(ctx, true); ierr != nil {
		return nil, fmt.Errorf("freeze environment %s: %w", slot.Env, ierr)
	}
	refs, rerr := s.raw(r.ID, out)
	if rerr != nil {
		return nil, rerr
	}
	r.Raw = refs
	cut := cutOf(out)
	if cut != "" {
		r.Missing["output"] = cut
	}
	if err != nil {
		r.Status, r.Reason = result.Failed, out.withCause(err).Error()
	} else {
		s.Workload.Read(out, s.Primary, r)
		if s.learn(slot.Env, out) {
			if err := s.stream.Environment(s.doc.Environment(slot.Env)); err != nil {
				return nil, err
			}
		}
	}
	if cut != "" && r.Status == result.Failed {
		r.Reason += " (" + cut + ")"
	}
	s.perOperation(r)
	return r, nil
}

// learn records the server and the network path that a run found, and where they differ from those of an earlier run. It reports
// whether there was anything new. Why an end is unknown is no property of the path.
func (s *session) learn(env string, out Outcome) (news bool) {
	rec := s.doc.Environment(env)
	record := func(into *map[string]string, field, k, v string) {
		was, known := (*into)[k]
		switch at := field + "." + k; {
		case !known:
			*into, news = withEntry(*into, k, v), true
		case was != v && rec.Changed[at] == "":
			rec.Changed, news = withEntry(rec.Changed, at, fmt.Sprintf("%q before the runs, %q in one of them", was, v)), true
		}
	}
	if s.Workload.Server != nil {
		if v := s.Workload.Server(out); v != "" {
			record(&rec.Software.Versions, "software.versions", result.ServerVersion, v)
		}
	}
	if s.Workload.Path != nil {
		for k, v := range s.Workload.Path(out) {
			end, problem := strings.CutSuffix(k, ".problem")
			switch at := networkPath + "." + end; {
			case !problem:
				record(&rec.Path, networkPath, k, v)
			case rec.Missing[at] == "":
				rec.Missing, news = withEntry(rec.Missing, at, v), true
			}
		}
	}
	environment.Fingerprint(rec)
	return news
}

// networkPath is the field of an environment that runs fill in.
const networkPath = "network_path"

// found keeps what the runs before a stop found out about an environment.
func found(old, rec *result.Environment) {
	learned(old, rec)
	rec.Changed = old.Changed
	for k, why := range old.Missing {
		if strings.HasPrefix(k, networkPath+".") {
			rec.Missing = withEntry(rec.Missing, k, why)
		}
	}
	environment.Fingerprint(rec)
}

// learned copies what runs find.
func learned(old, rec *result.Environment) {
	rec.Path = old.Path
	if v := old.Software.Versions[result.ServerVersion]; v != "" {
		rec.Software.Versions = withEntry(rec.Software.Versions, result.ServerVersion, v)
	}
}

// withEntry adds a value to a map, which may be nil.
func withEntry(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// cutOf says what was not kept of a run's outputs; "" where all was.
func cutOf(out Outcome) string {
	var parts []string
	for _, o := range []struct {
		whose string
		host.Cut
	}{{"", out.Inside.Cut}, {" of the load generator", out.Outside.Cut}} {
		if o.Stdout > 0 || o.Stderr > 0 {
			parts = append(parts, o.String()+o.whose)
		}
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("%s were dropped; at most %s of an output are stored", strings.Join(parts, " and "), metric.Value(host.MostKept, "bytes"))
}

// placed is a job of an arm with its ports, and its outside at the load's location.
func (s *session) placed(ctx context.Context, job Job, arm string) (Job, error) {
	r := s.reached[arm]
	return s.o.Client.prepareOutside(ctx, s.o.Host, r.fillIn(job))
}

func (s *session) find(slot result.Slot) (*Case, *Arm) {
	var c *Case
	var a *Arm
	for i := range s.Cases {
		if s.Cases[i].ID == slot.Case {
			c = &s.Cases[i]
		}
	}
	for i := range s.Arms {
		if s.Arms[i].Label == slot.Env {
			a = &s.Arms[i]
		}
	}
	return c, a
}

// position is the position of a slot among the arms of its pair and case.
func (s *session) position(slot result.Slot) int {
	n := 0
	for _, o := range s.doc.Design.Order {
		if o == slot {
			break
		}
		if o.Pair == slot.Pair && o.Case == slot.Case {
			n++
		}
	}
	return n
}

// observed runs the job, with counters and interference measured around it.
func (s *session) observed(ctx context.Context, env Environment, job Job, r *result.Run) (Outcome, error) {
	limit := s.limit()
	counting := s.o.NoCounters
	inside, notInside := s.inside[r.Env], error(nil)
	if inside != nil {
		notInside = inside.Begin(ctx)
	}
	if s.o.Counters != nil {
		if err := s.o.Counters.Begin(ctx); err != nil {
			counting = err.Error()
		}
	}
	var windows []Counters
	if s.o.Counters != nil {
		windows = append(windows, s.o.Counters)
	}
	if inside != nil && notInside == nil {
		windows = append(windows, inside)
	}
	job, waited := s.waited(windowed(ctx, job, windows...))
	defer waited()
	s.watch.Begin()
	began := time.Now() //nolint:forbidigo // the monotonic clock of the run's duration; the host's clock may be a fixture's
	rctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the run took longer than %v and was ended (allow more time with --timeout)", limit))
	out, err := env.Run(rctx, job)
	if err != nil && rctx.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", context.Cause(rctx), err)
	}
	cancel()
	r.Seconds = time.Since(began).Seconds()
	var counted Counted
	switch {
	case counting != "":
		r.Missing["counters"] = counting
	case len(out.Processes) == 0 && err == nil:
		r.Missing["counters"] = "this machine's kernel does not see the workload's processes"
	default:
		var cerr error
		if counted, cerr = s.o.Counters.Finish(ctx, out.Processes); cerr != nil {
			r.Missing["counters"] = cerr.Error()
		}
		r.Counters, r.HostCounters = counted.Counters, counted.Host
		if out.Machine && inside == nil {
			for i := range r.Counters {
				r.Counters[i].Note = cmp.Or(r.Counters[i].Note, result.MonitorThreads)
			}
		}
		for _, k := range counted.Never {
			if !out.Machine {
				r.Counters = append(r.Counters, k)
			} else if inside == nil {
				r.Missing[k.Name] = "the run had its own kernel, whose counters were not read"
			}
		}
		maps.Copy(r.Missing, counted.Missing)
		if why := whyUncounted(out, counted); why != "" {
			r.Missing["counters"] = why
			r.Counters = unseen(r.Counters, why)
		}
	}
	if inside != nil {
		var own Counted
		if notInside == nil {
			own, notInside = inside.Finish(ctx, append([]string{taskName(job.Inside.Argv[0])}, job.Processes...))
		}
		maps.Copy(r.Missing, own.Missing)
		if r.Counters = append(own.Counters, own.Never...); notInside != nil {
			r.Missing["counters"] = notInside.Error()
		}
	}
	out.Counters = r.Counters
	own, partial := workCPU(out, counted)
	r.Interference = s.watch.Finish(own)
	if partial != "" && r.Interference.ForeignCPU != nil {
		r.Interference.ForeignCPU, r.Interference.Missing["foreign_cpu_ratio"] = nil, partial
	}
	r.Interference.MonitorCPU = counted.Cost
	return out, err
}

// whyUncounted says why the counters by process miss most of the workload, or is "": the
// kernel's own account of the command's CPU time has far more than they do, so it works
// under other names than those counted.
func whyUncounted(out Outcome, c Counted) string {
	const least = 4 * time.Millisecond
	used := out.Inside.User + out.Inside.System
	if !out.Whole || c.CPU == nil || used < least || *c.CPU >= used.Seconds()/2 {
		return ""
	}
	return fmt.Sprintf("processes named %s used %s of CPU time, but the whole command used %s. The command also works under other process names, whose events cannot be separated from those of other programs",
		strings.Join(out.Processes, ", "), metric.Value(*c.CPU, "seconds"), metric.Value(used.Seconds(), "seconds"))
}

// unseen takes the values of counters by process.
func unseen(counters []result.Counter, why string) []result.Counter {
	for i := range counters {
		if c := &counters[i]; c.Scope == "process" || c.Labels["process"] != "" {
			c.Value, c.PerOperation, c.Trust, c.Note = nil, nil, result.None, why
		}
	}
	return counters
}

// taskName is what the kernel calls a program.
func taskName(program string) string {
	name := path.Base(program)
	return name[:min(len(name), 15)] // TASK_COMM_LEN
}

// windowed tells the counters when the operations counted by the job's outside
// begin and end, and tells the outside when they have been read.
func windowed(ctx context.Context, job Job, counters ...Counters) Job {
	if job.Outside == nil || job.Window[0] == "" {
		return job
	}
	outside := *job.Outside
	outside.Heard = func(line string) string {
		if line != job.Window[0] && line != job.Window[1] {
			return ""
		}
		for _, c := range counters {
			c.Window(ctx, line == job.Window[0])
		}
		return "go on\n"
	}
	job.Outside = &outside
	return job
}

// workCPU is the CPU time in seconds that a run used on purpose on this machine, and why it may be too little ("" if it is
// not). The launched command's own report covers only part of it if a service did the work (a container's, a sandbox's, an
// emulator's process). The counters see that by name, and a virtual machine's monitor is asked.
func workCPU(out Outcome, c Counted) (own float64, partial string) {
	own = (out.Inside.User + out.Inside.System).Seconds()
	if c.CPU != nil {
		own = max(own, *c.CPU)
	}
	if out.Monitor != nil {
		own = max(own, out.Monitor.CPU.Seconds())
	}
	if len(out.Processes) > 0 && !out.Whole && c.CPU == nil && out.Monitor == nil {
		partial = "a service of the launcher did the work. Only the counters can separate this service from other programs, but they have no value of its CPU time"
	}
	return own + (out.Outside.User + out.Outside.System + out.Beside).Seconds(), partial
}

// perOperation divides the counters by the operations of the run.
func (s *session) perOperation(r *result.Run) {
	if s.Workload.Operations == nil {
		return
	}
	m := r.Metric(s.Workload.Operations.Name)
	if m == nil || m.Value == nil || *m.Value <= 0 {
		return
	}
	for _, list := range [][]result.Counter{r.Counters, r.HostCounters} {
		for i := range list {
			if c := &list[i]; c.Value != nil {
				v := *c.Value / *m.Value
				c.PerOperation = &v
			}
		}
	}
}
