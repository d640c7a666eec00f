package bench

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/workloads/micro"
)

// open opens an arm and describes it, as seen from inside.
func (s *session) open(ctx context.Context, a *Arm) error {
	s.opening("open " + a.Label)
	began := s.o.Host.Now()
	env, err := a.Launcher.Open(ctx, s.o.Host, a.Params)
	if err != nil {
		return err
	}
	s.envs[a.Label] = env
	if s.reached[a.Label], err = s.reach(ctx, a, env); err != nil {
		return err
	}
	took := s.o.Host.Now().Sub(began).Seconds()
	job, err := s.Workload.Job(s.params(&s.Cases[0], a))
	if err != nil {
		return err
	}
	if job, err = s.placed(ctx, job, a.Label); err != nil {
		return err
	}
	began = s.o.Host.Now()
	if err := s.prepare(ctx, a, env, job); err != nil {
		return err
	}
	took += s.o.Host.Now().Sub(began).Seconds()
	if ownKernels(s.Plan, s.o) {
		if _, err := env.Run(ctx, s.o.Inside.Job); err != nil {
			s.inside[a.Label] = noCounters{fmt.Errorf("count events inside the environment: %w", err)}
		} else {
			s.inside[a.Label] = s.o.Inside.Counters(env)
		}
	}
	rec, err := s.capture(ctx, a, env)
	if err != nil {
		return err
	}
	rec.OpenSeconds = &took
	if rec.NullSeconds, err = s.null(ctx, env); err != nil {
		return err
	}
	var why string
	if rec.Call, why = s.entry(ctx, env, job); why != "" {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rec.Missing["system_call"] = why
	}
	if err := s.has(ctx, a, env, job); err != nil {
		return err
	}
	if why, err = s.reaches(ctx, a, env); err != nil {
		return err
	}
	if why != "" {
		rec.Missing["identity"] = why
	}
	s.opening("first run in " + a.Label + " (not part of the result)") // may last minutes: keys of proofs are made, models loaded
	if rec.FirstSeconds, err = s.first(ctx, env, job); err != nil {
		return err
	}
	old := s.doc.Environment(a.Label)
	if len(s.doc.Runs) > 0 && old.Fingerprint != "" {
		found(old, rec)
		if d := environment.Diff(old, rec); len(d) > 0 {
			return fmt.Errorf("the environment has changed since the experiment stopped (%s was %q and is now %q): %w", d[0].Field, d[0].Baseline, d[0].Treatment, errAnew)
		}
	}
	if len(s.doc.Runs) > 0 && old.Boot != rec.Boot {
		return fmt.Errorf("the environment's boot ID was %q before the experiment stopped and is now %q: the machine was rebooted, or this is another machine: %w: %w", old.Boot, rec.Boot, ErrRebooted, errAnew)
	}
	rec.Role = old.Role
	*old = *rec
	if err := s.stream.Environment(rec); err != nil {
		return err
	}
	return env.Idle(ctx, true)
}

// prepare starts an environment with what its jobs bring; of files of one name those of job, the first.
func (s *session) prepare(ctx context.Context, a *Arm, env Environment, job Job) error {
	p, ok := env.(Prepared)
	if !ok {
		return nil
	}
	var jobs []Job
	for i := range s.Cases {
		later, err := s.Workload.Job(s.params(&s.Cases[i], a))
		if err != nil {
			return err
		}
		jobs = append(jobs, later)
	}
	if ownKernels(s.Plan, s.o) {
		jobs = append(jobs, s.o.Inside.Job)
	}
	if s.loaded(a) {
		jobs = append(jobs, identityJob(""))
	}
	return p.Prepare(ctx, append(jobs, job)...)
}

// capture reads an arm's environment from inside, on the same path as every run.
func (s *session) capture(ctx context.Context, a *Arm, env Environment) (*result.Environment, error) {
	rec := &result.Environment{}
	out, err := env.Run(ctx, Job{
		Inside: host.Cmd{Argv: append([]string{"{work}/micro", "capture"}, environment.Paths()...), Most: 2 * environment.MaxBytes},
		Files:  []File{{Name: "micro", Data: micro.Program, Exec: true}},
	})
	why := ""
	if err == nil {
		var inside *host.Host
		var remove func() error
		if inside, remove, err = environment.Unpack(s.o.Host, out.Inside.Stdout); err == nil {
			*rec = environment.Capture(inside, tee.Detect(inside, s.o.Kinds))
			err = remove()
		}
	}
	if err != nil {
		why = "cannot read the environment from inside: " + err.Error()
		if ctx.Err() != nil {
			return nil, err
		}
		rec.TEE.Type = "unknown"
		rec.Missing = map[string]string{"hardware": why, "software": why, "tee": why}
	}
	rec.ID, rec.Launcher, rec.Params, rec.Subject = a.Label, a.Launcher.Name, maps.Clone(a.Params), a.Subject
	rec.Network = s.reached[a.Label].way
	if err := env.Describe(ctx, rec); err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	job, err := s.Workload.Job(s.params(&s.Cases[0], a))
	if err != nil {
		return nil, err
	}
	own, err := programs(s.o.Host, job)
	if err != nil {
		return nil, err
	}
	if rec.Digests == nil {
		rec.Digests = map[string]string{}
	}
	maps.Copy(rec.Digests, own)
	rec.Software.Worker = workers(s.o.Host, job)
	s.askInside(ctx, env, rec)
	if !a.Launcher.Remote {
		// A container or a VM has its own id, or none; the machine is this one.
		if id, err := machine.HostID(s.o.Host); err == nil {
			rec.Hardware.Serial = id
			delete(rec.Missing, "hardware.host_id")
		}
	}
	environment.Fingerprint(rec)
	return rec, nil
}

// nullRuns are runs of an empty job in each arm: the cost of launching itself.
const nullRuns = 3

// null measures the harness's own cost in an environment. Nothing is subtracted
// from any result; the reader sees both.
func (s *session) null(ctx context.Context, env Environment) (*result.Spread, error) {
	var took []float64
	for range nullRuns {
		out, err := env.Run(ctx, Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "null"}},
			Files: []File{{Name: "micro", Data: micro.Program, Exec: true}}})
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			return nil, nil // an environment that only accepts its own programs
		}
		took = append(took, out.Inside.Wall.Seconds())
	}
	return environment.Spread(took), nil
}

// has returns an error if an environment with programs of its own lacks one of a job.
func (s *session) has(ctx context.Context, a *Arm, env Environment, job Job) error {
	if a.Launcher.Elsewhere == nil || !a.Launcher.Elsewhere(a.Params) {
		return nil
	}
	needed := calls(s.o.Host, job)
	if len(needed) == 0 {
		return nil
	}
	argv := append([]string{"{work}/micro", "has"}, needed...)
	out, err := env.Run(ctx, Job{Inside: host.Cmd{Argv: argv}, Files: []File{{Name: "micro", Data: micro.Program, Exec: true}}})
	if lacks := strings.Fields(string(out.Inside.Stdout)); err != nil && ctx.Err() == nil && len(lacks) > 0 {
		return fmt.Errorf("the environment lacks %s: install what is missing, or name an image that has it (the job runs %q)", strings.Join(lacks, ", "), shortened(job.Inside.Argv))
	}
	return ctx.Err() // an environment that only accepts its own programs says it in its runs
}

// calls are the programs that a job starts and does not bring: its own and others by name, or the interpreter of its own
// script. What is named by a pattern may be absent.
func calls(h *host.Host, job Job) []string {
	if own, ok := strings.CutPrefix(job.Inside.Argv[0], "{work}/"); ok {
		return interpreter(h, job, own)
	}
	if strings.HasPrefix(job.Inside.Argv[0], "{") {
		return nil
	}
	out := []string{job.Inside.Argv[0]}
	for _, p := range job.Programs {
		if !strings.Contains(p, "/") || p == "/bin/sh" {
			out = append(out, p)
		}
	}
	return out
}

// interpreter is that of a script among a job's files; nil for other files.
func interpreter(h *host.Host, job Job, name string) []string {
	for _, f := range job.Files {
		if f.Name != name {
			continue
		}
		b, err := f.Content(h) // an error is that of the run
		line, ok := bytes.CutPrefix(b, []byte("#!"))
		if line, _, _ = bytes.Cut(line, []byte("\n")); err == nil && ok && len(bytes.Fields(line)) > 0 {
			return []string{string(bytes.Fields(line)[0])}
		}
	}
	return nil
}

// shortened is the beginning of a command.
func shortened(argv []string) string {
	const most = 60
	text := strings.Join(argv, " ")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}

// opening says what comes next before the runs.
func (s *session) opening(doing string) {
	s.progress(Progress{Doing: doing, Total: len(s.doc.Design.Order)})
}

// first makes a run that is not counted: files are laid out, programs and pages are
// fetched. Its duration is kept, as the cost of a cold start.
func (s *session) first(ctx context.Context, env Environment, job Job) (*float64, error) {
	began := s.o.Host.Now()
	rctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	job, waited := s.waited(windowed(ctx, job))
	defer waited()
	if _, err := env.Run(rctx, job); err != nil {
		return nil, ctx.Err() // the counted runs will say why it fails
	}
	took := s.o.Host.Now().Sub(began).Seconds()
	return &took, nil
}

// limit is the time after which a run counts as hanging.
func (s *session) limit() time.Duration {
	if s.o.Timeout > 0 {
		return s.o.Timeout
	}
	var longest time.Duration
	for i := range s.Cases {
		d, _ := s.Workload.Estimate(s.Cases[i].Params)
		longest = max(longest, d)
	}
	return host.Patience(max(20*longest, 2*time.Minute))
}

// unchanged describes every arm again at the end: if a TEE was switched off or a clock source
// was lost, all measurements are doubtful.
func (s *session) unchanged(ctx context.Context) error {
	for i := range s.Arms {
		a := &s.Arms[i]
		if s.lost[a.Label] != nil {
			continue
		}
		env := s.envs[a.Label]
		if err := env.Idle(ctx, false); err != nil {
			return err
		}
		now, err := s.capture(ctx, a, env)
		if err != nil {
			return err
		}
		rec := s.doc.Environment(a.Label)
		learned(rec, now)
		late(rec, now)
		for _, d := range environment.Diff(rec, now) {
			rec.Changed = withEntry(rec.Changed, d.Field, fmt.Sprintf("%q before the runs, %q after", d.Baseline, d.Treatment))
		}
		switch why, err := s.reaches(ctx, a, env); {
		case ctx.Err() != nil:
			return err
		case err != nil:
			rec.Changed = withEntry(rec.Changed, "network", fmt.Sprintf("after the runs %v", err))
		case why != "" && rec.Missing["identity"] == "":
			rec.Missing = withEntry(rec.Missing, "identity", "after the runs: "+why)
		}
		if err := env.Idle(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

// ownKernels reports whether the runs are counted inside: only if each arm has a kernel of its
// own, so that all arms are counted alike. Where the cost of the guest itself is measured,
// counting inside would be most of it.
func ownKernels(p *Plan, o Options) bool {
	return o.Inside != nil && o.Counters != nil && !slices.ContainsFunc(p.Arms, func(a Arm) bool {
		job, err := p.Workload.Job(p.params(&p.Cases[0], &a))
		return err != nil || job.Monitor || a.Launcher.OwnKernel == nil || !a.Launcher.OwnKernel(a.Params)
	})
}

// noCounters is the Counters of an arm that cannot count.
type noCounters struct{ error }

func (c noCounters) Begin(context.Context) error                       { return c.error }
func (noCounters) Window(context.Context, bool)                        {}
func (c noCounters) Finish(context.Context, []string) (Counted, error) { return Counted{}, c.error }

// late adds what an environment could only show after its first job: the evidence of an
// enclave that did not exist before.
func late(rec, now *result.Environment) {
	for _, e := range now.TEE.Evidence {
		if !slices.Contains(rec.TEE.Evidence, e) {
			rec.TEE.Evidence = append(rec.TEE.Evidence, e)
		}
	}
	for k, v := range now.TEE.Settings {
		if _, known := rec.TEE.Settings[k]; !known {
			if rec.TEE.Settings == nil {
				rec.TEE.Settings = map[string]string{}
			}
			rec.TEE.Settings[k] = v
		}
	}
}
