package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/verdict"
	"github.com/teescope/teescope/workloads/micro"
)

// Counters reads the monitor's sources around a run.
type Counters interface {
	Begin(context.Context) error
	// Window narrows what is counted: it begins, or ends, now. Without it, what is
	// counted is all between Begin and End.
	Window(ctx context.Context, begins bool)
	// End returns what was counted for the processes of these names and for the machine.
	End(ctx context.Context, processes []string) (Counted, error)
}

// Counted is what the counters say of a run.
type Counted struct {
	Counters []result.Counter
	// CPU are the CPU seconds of the workload's processes from Begin to End, and
	// Cost those that the counting itself took in the kernel; nil where that is not known.
	CPU, Cost *float64
}

// Options are what running needs besides the plan.
type Options struct {
	Host  *host.Host
	Kinds []*tee.Kind
	// Counters may be nil; NoCounters then says why.
	Counters   Counters
	NoCounters string
	// UnitCosts are what the counters are priced with; nil without counters.
	UnitCosts *result.UnitCosts
	// Client is where the outside of jobs runs; nil is this machine.
	Client *Client
	// Version and Command of this program, for the document.
	Version string
	Command []string
	Commit  *result.Commit
	// Timeout ends a run that hangs; 0 is twenty times the workload's estimate
	// and at least two minutes.
	Timeout time.Duration
	// Verdict holds the thresholds of guards and verdicts.
	Verdict verdict.Options
	// Progress is told of each step; nil is silent.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Done, Total int
	// Doing is what comes next, in words.
	Doing string
	// Last is the run that has just ended; nil between other steps.
	Last *result.Run
	// Left is the expected time to the end; 0 while it is not known.
	Left time.Duration
}

// ErrArm is wrapped when an environment failed so often from the start that
// there will be nothing to compare. The document is finished and says so.
var ErrArm = errors.New("nothing to compare")

// ErrStopped is wrapped when the context ended within an experiment.
var ErrStopped = errors.New("stopped")

// ErrLeft is wrapped when an environment could not be taken down, and nothing
// else went wrong: the document is finished.
var ErrLeft = errors.New("something of it is left behind")

// giveUp is the number of failed runs, without a good one, after which an arm
// is given up.
const giveUp = 3

// Run runs a plan from its beginning and writes the document at path.
func Run(ctx context.Context, p *Plan, o Options, path string) (*result.Experiment, error) {
	doc, err := document(p, o)
	if err != nil {
		return nil, err
	}
	stream, err := result.Create(path, doc)
	if err != nil {
		return nil, err
	}
	return execute(ctx, p, o, doc, stream)
}

// Resume goes on with an experiment that stopped before its end.
func Resume(ctx context.Context, l Lists, o Options, path string) (*result.Experiment, error) {
	doc, stream, err := result.Resume(path)
	if err != nil {
		return nil, err
	}
	p, err := planOf(doc, l, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resume %s: %w", path, err), stream.Close())
	}
	return execute(ctx, p, o, doc, stream)
}

// document is all that is known before the first run.
func document(p *Plan, o Options) (*result.Experiment, error) {
	kind := result.Interleaved
	if len(p.Arms) == 1 {
		kind = result.Single
	}
	w := p.Workload
	doc := &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: newID(), Name: p.Name, StartedAt: o.Host.Now().UTC(),
		Tool:   result.Tool{Name: "teescope", Version: o.Version, Go: runtime.Version(), Command: o.Command},
		Commit: o.Commit,
		Design: result.Design{Kind: kind, Seed: p.Seed, PairsPlanned: p.Pairs, Order: p.Schedule(), Alpha: 0.05, Margin: p.Margin,
			Primary: p.Primary, Subject: subject(p), Calibration: p.Calibration, Ceilings: p.Ceilings, Client: o.Client.place(p)},
		Workload:   result.Workload{Name: w.Name, Version: w.Version, Doc: w.Doc, OutputPerArm: w.PerArm},
		Origin:     p.Origin,
		References: p.References,
		UnitCosts:  o.UnitCosts,
	}
	for _, d := range p.metrics() {
		doc.Workload.Metrics = append(doc.Workload.Metrics, result.Describe(d))
	}
	if w.Operations != nil {
		doc.Workload.Operations = w.Operations.Name
	}
	for i := range p.Cases {
		c, err := identify(o.Host, p, &p.Cases[i])
		if err != nil {
			return nil, err
		}
		doc.Cases = append(doc.Cases, c)
	}
	for i, a := range p.Arms {
		doc.Environments = append(doc.Environments, result.Environment{
			ID: a.Label, Role: role(i, len(p.Arms)), Launcher: a.Launcher.Name, Params: a.Params, Subject: a.Subject})
	}
	return doc, nil
}

// subject names the one thing in which the arms are declared to differ.
func subject(p *Plan) string {
	var names []string
	for _, a := range p.Arms {
		for k, v := range a.Subject {
			if v != p.Arms[0].Subject[k] && !slices.Contains(names, k) {
				names = append(names, k)
			}
		}
		if a.Launcher != p.Arms[0].Launcher || !sameParams(a.Params, p.Arms[0].Params) {
			if !slices.Contains(names, "environment") {
				names = append(names, "environment")
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, "+")
}

func sameParams(a, b Params) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

func role(i, n int) result.Role {
	switch {
	case i == 0:
		return result.Baseline
	case i < n-1:
		return result.Intermediate
	}
	return result.Treatment
}

// newID is a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// session is an experiment that runs.
type session struct {
	*Plan
	o      Options
	doc    *result.Experiment
	stream *result.Stream
	watch  *environment.Watcher
	envs   map[string]Environment
	ports  map[string][]int // by arm
}

func execute(ctx context.Context, p *Plan, o Options, doc *result.Experiment, stream *result.Stream) (*result.Experiment, error) {
	s := &session{Plan: p, o: o, doc: doc, stream: stream, envs: map[string]Environment{}, ports: map[string][]int{}}
	err := s.all(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w, the %d runs before it are kept: continue with --resume: %w", ErrStopped, len(doc.Runs), err)
	}
	var left error // by an environment that could not be taken down; what was measured stands
	for label, e := range s.envs {
		if cerr := e.Close(); cerr != nil {
			left = errors.Join(left, fmt.Errorf("close environment %s: %w: %w", label, ErrLeft, cerr))
		}
	}
	if cerr := o.Client.close(context.WithoutCancel(ctx), o.Host); cerr != nil {
		left = errors.Join(left, fmt.Errorf("%w: %w", ErrLeft, cerr))
	}
	switch {
	case err == nil || errors.Is(err, ErrArm):
		end := o.Host.Now().UTC()
		doc.EndedAt = &end
		verdict.Conclude(doc, o.Verdict)
		if err = errors.Join(err, stream.Finish(doc)); err == nil {
			err = left
		}
		return doc, err
	case len(doc.Runs) == 0:
		return nil, errors.Join(err, left, stream.Discard())
	}
	return nil, errors.Join(err, left, stream.Close())
}

func (s *session) all(ctx context.Context) error {
	err := s.Check(s.o.Host)
	if err != nil {
		return err
	}
	if s.watch, err = environment.Watch(s.o.Host); err != nil {
		return err
	}
	if err := s.o.Client.open(ctx, s.o.Host); err != nil {
		return err
	}
	for i := range s.Arms {
		if err := s.open(ctx, &s.Arms[i]); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%w while environment %s was opened", ErrStopped, s.Arms[i].Label)
			}
			return fmt.Errorf("open environment %s: %w", s.Arms[i].Label, err)
		}
	}
	done := map[string]bool{}
	for i := range s.doc.Runs {
		done[s.doc.Runs[i].ID] = true
	}
	began, ran := s.o.Host.Now(), 0
	for i, slot := range s.doc.Design.Order {
		if done[runID(slot)] {
			continue
		}
		pr := Progress{Done: i, Total: len(s.doc.Design.Order), Doing: runID(slot)}
		if ran > 0 {
			pr.Left = s.o.Host.Now().Sub(began) / time.Duration(ran) * time.Duration(pr.Total-i)
		}
		s.progress(pr)
		r, err := s.one(ctx, slot)
		if err != nil {
			return err
		}
		if err := s.stream.Run(r); err != nil {
			return err
		}
		s.doc.Runs = append(s.doc.Runs, *r)
		ran++
		s.progress(Progress{Done: i + 1, Total: pr.Total, Last: r})
		if err := s.hopeless(slot.Env); err != nil {
			return err
		}
	}
	return s.unchanged(ctx)
}

func (s *session) progress(p Progress) {
	if s.o.Progress != nil {
		s.o.Progress(p)
	}
}

// hopeless gives an arm up that only ever failed.
func (s *session) hopeless(label string) error {
	failed, last := 0, ""
	for i := range s.doc.Runs {
		if r := &s.doc.Runs[i]; r.Env == label {
			if r.Status == result.OK {
				return nil
			}
			failed, last = failed+1, r.Reason
		}
	}
	if failed < giveUp {
		return nil
	}
	return fmt.Errorf("environment %s: %d runs of %d failed, the last because: %s: %w", label, failed, failed, last, ErrArm)
}

// open opens an arm and notes what it is, as seen from inside.
func (s *session) open(ctx context.Context, a *Arm) error {
	s.progress(Progress{Doing: "open " + a.Label, Total: len(s.doc.Design.Order)})
	began := s.o.Host.Now()
	env, err := a.Launcher.Open(ctx, s.o.Host, a.Params)
	if err != nil {
		return err
	}
	s.envs[a.Label] = env
	if s.ports[a.Label], err = s.o.Host.FreePorts(len(portNames)); err != nil {
		return fmt.Errorf("environment %s: %w", a.Label, err)
	}
	took := s.o.Host.Now().Sub(began).Seconds()
	rec, err := s.capture(ctx, a, env)
	if err != nil {
		return err
	}
	rec.OpenSeconds = &took
	if rec.NullSeconds, err = s.null(ctx, env); err != nil {
		return err
	}
	job, err := s.Workload.Job(s.params(&s.Cases[0], a))
	if err != nil {
		return err
	}
	if job, err = s.placed(ctx, job, a.Label); err != nil {
		return err
	}
	if rec.FirstSeconds, err = s.first(ctx, env, job); err != nil {
		return err
	}
	old := s.doc.Environment(a.Label)
	if len(s.doc.Runs) > 0 && old.Fingerprint != "" {
		if d := environment.Diff(old, rec); len(d) > 0 {
			return fmt.Errorf("it is not what it was before the stop (%s was %q and is %q); begin anew", d[0].Field, d[0].Baseline, d[0].Treatment)
		}
	}
	rec.Role = old.Role
	*old = *rec
	if err := s.stream.Environment(rec); err != nil {
		return err
	}
	return env.Idle(ctx, true)
}

// capture reads an arm's environment from inside, through the way every run goes.
func (s *session) capture(ctx context.Context, a *Arm, env Environment) (*result.Environment, error) {
	rec := &result.Environment{}
	out, err := env.Run(ctx, Job{
		Inside: host.Cmd{Argv: append([]string{"{work}/micro", "capture"}, environment.Paths()...)},
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
		why = "capture from inside: " + err.Error()
		if ctx.Err() != nil {
			return nil, err
		}
		rec.TEE.Type = "unknown"
		rec.Missing = map[string]string{"hardware": why, "software": why, "tee": why}
	}
	rec.ID, rec.Launcher, rec.Params, rec.Subject = a.Label, a.Launcher.Name, maps.Clone(a.Params), a.Subject
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
	s.ask(ctx, env, rec)
	if !a.Launcher.Remote {
		// A container or a VM has an id of its own, or none; the machine is this one.
		if id, err := environment.HostID(s.o.Host); err == nil {
			rec.Hardware.Serial = id
			delete(rec.Missing, "hardware.host_id")
		}
	}
	environment.Fingerprint(rec)
	return rec, nil
}

// nullRuns are made of an empty job in each arm: what launching itself takes.
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
			return nil, nil // an environment that only takes its own programs
		}
		took = append(took, out.Inside.Wall.Seconds())
	}
	return environment.Spread(took), nil
}

// first makes a run that is not counted: files are laid out, programs and pages
// are fetched. What it took is kept, as the cost of a cold start.
func (s *session) first(ctx context.Context, env Environment, job Job) (*float64, error) {
	began := s.o.Host.Now()
	rctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	if _, err := env.Run(rctx, job); err != nil {
		return nil, ctx.Err() // the runs that count will say why it fails
	}
	took := s.o.Host.Now().Sub(began).Seconds()
	return &took, nil
}

// limit is the time after which a run is taken for hanging.
func (s *session) limit() time.Duration {
	if s.o.Timeout > 0 {
		return s.o.Timeout
	}
	var longest time.Duration
	for i := range s.Cases {
		d, _ := s.Workload.Estimate(s.Cases[i].Params)
		longest = max(longest, d)
	}
	return max(20*longest, 2*time.Minute)
}

// unchanged looks at every arm once more at the end: a TEE that was switched
// off, a clock source that was lost, make all that was measured doubtful.
func (s *session) unchanged(ctx context.Context) error {
	for i := range s.Arms {
		a := &s.Arms[i]
		env := s.envs[a.Label]
		if err := env.Idle(ctx, false); err != nil {
			return err
		}
		now, err := s.capture(ctx, a, env)
		if err != nil {
			return err
		}
		rec := s.doc.Environment(a.Label)
		late(rec, now)
		for _, d := range environment.Diff(rec, now) {
			if rec.Changed == nil {
				rec.Changed = map[string]string{}
			}
			rec.Changed[d.Field] = fmt.Sprintf("%q before the runs, %q after", d.Baseline, d.Treatment)
		}
		if err := env.Idle(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

// late adds what an environment could only show after its first job: the
// evidence of an enclave that did not exist before.
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

func runID(s result.Slot) string { return fmt.Sprintf("p%02d-%s-%s", s.Pair, s.Case, s.Env) }

// planOf makes the plan of a document that is to be continued.
func planOf(doc *result.Experiment, l Lists, o Options) (*Plan, error) {
	w, err := l.Workload(doc.Workload.Name)
	if err != nil {
		return nil, err
	}
	if w.Version != doc.Workload.Version {
		return nil, fmt.Errorf("it was begun with version %d of workload %s, this program has %d", doc.Workload.Version, w.Name, w.Version)
	}
	d := &doc.Design
	p := &Plan{Name: doc.Name, Workload: w, Pairs: d.PairsPlanned, Seed: d.Seed, Primary: d.Primary, Margin: d.Margin, Calibration: d.Calibration, Ceilings: d.Ceilings}
	for _, c := range doc.Cases {
		p.Cases = append(p.Cases, Case{c.ID, c.Params})
	}
	for _, e := range doc.Environments {
		x, err := l.launcher(e.Launcher)
		if err != nil {
			return nil, err
		}
		p.Arms = append(p.Arms, Arm{Label: e.ID, Launcher: x, Params: e.Params, Subject: e.Subject})
	}
	for i := range p.Cases {
		c, err := identify(o.Host, p, &p.Cases[i])
		if err != nil {
			return nil, err
		}
		if c.Identity != doc.Cases[i].Identity {
			return nil, fmt.Errorf("case %s: its data have changed since it was begun; begin anew", c.ID)
		}
	}
	return p, nil
}

// raw keeps the outputs of a run beside the document.
func (s *session) raw(id string, out Outcome) ([]result.RawFile, error) {
	texts := map[string][]byte{"stdout": out.Inside.Stdout, "stderr": out.Inside.Stderr}
	if len(out.Outside.Stdout)+len(out.Outside.Stderr) > 0 {
		texts["outside.stdout"], texts["outside.stderr"] = out.Outside.Stdout, out.Outside.Stderr
	}
	for n, b := range out.Raw {
		texts[n] = b
	}
	names := make([]string, 0, len(texts))
	for n, b := range texts {
		if len(bytes.TrimSpace(b)) > 0 {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	var refs []result.RawFile
	for _, n := range names {
		ref, err := s.stream.Raw(id, n, texts[n])
		if err != nil {
			return refs, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
