package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/verdict"
)

// Counters reads the monitor's sources around a run.
type Counters interface {
	Begin(context.Context) error
	// Window narrows the counted time: it begins, or ends, now. Without it, everything
	// between Begin and Finish is counted. It is called while the job runs.
	Window(ctx context.Context, begins bool)
	// Finish returns the counts for the processes with these names and for the machine.
	Finish(ctx context.Context, processes []string) (Counted, error)
}

// Counted is the counters' result for a run.
type Counted struct {
	Counters []result.Counter
	// Never are the zeros of what cannot happen to this kernel; what runs under another one is
	// not meant.
	Never []result.Counter
	// Missing says why counters are absent, by name.
	Missing map[string]string
	// Host are events of the whole machine, for result.Run.HostCounters.
	Host []result.Counter
	// CPU are the CPU seconds of the workload's processes from Begin to Finish, and Cost
	// those that counting used in the kernel; nil if unknown.
	CPU, Cost *float64
}

// Inside makes Counters within an environment.
type Inside struct {
	// Job brings what counts there, and shows that it runs.
	Job Job
	// Counters is called after the job, once for each environment.
	Counters func(Environment) Counters
}

// Options are what running needs besides the plan.
type Options struct {
	Host  *host.Host
	Kinds []*tee.Kind
	// Counters may be nil; NoCounters then says why.
	Counters   Counters
	NoCounters string
	// Inside counts in environments with kernels of their own, in plans in which every arm is one. With nil, such
	// environments are counted like all others.
	Inside *Inside
	// UnitCosts price the counters; nil without counters.
	UnitCosts *result.UnitCosts
	// Client is where the outside of jobs runs; nil is this machine.
	Client *Client
	// Version and Command of this program, for the document.
	Version string
	Command []string
	Commit  *result.Commit
	// Timeout ends a hanging run; 0 is twenty times the workload's estimate and at
	// least two minutes.
	Timeout time.Duration
	// Verdict holds the thresholds of guards and verdicts.
	Verdict verdict.Options
	// Progress is called at each step; nil is silent.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Done, Total int
	// Doing is what comes next, in words.
	Doing string
	// Waits is what that has been waiting for, for a while; mostly "".
	Waits string
	// Last is the run that has just ended; nil between other steps.
	Last *result.Run
	// Left is the expected time to the end; 0 while unknown.
	Left time.Duration
}

// ErrArm is wrapped if an environment failed so often from the start that there is
// nothing to compare it with. The others continued while there were two of them; the
// document is finished and says so.
var ErrArm = errors.New("nothing to compare")

// ErrStopped is wrapped if the context ended during an experiment.
var ErrStopped = errors.New("stopped")

// ErrLeft is wrapped if an environment could not be taken down, and nothing else went
// wrong: the document is finished.
var ErrLeft = errors.New("parts of the environment are left behind")

// ErrKept is wrapped if an experiment ended early and its runs are kept.
var ErrKept = errors.New("completed runs are saved")

// errAnew is wrapped if the begun experiment cannot be continued.
var errAnew = errors.New("start over")

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
	return execute(ctx, p, o, doc, stream, path)
}

// Resume continues an experiment that stopped early.
func Resume(ctx context.Context, l Lists, o Options, path string) (*result.Experiment, error) {
	doc, stream, err := result.Resume(path)
	if err != nil {
		return nil, err
	}
	p, err := planOf(doc, l, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resume %s: %w", path, err), stream.Close())
	}
	return execute(ctx, p, o, doc, stream, path)
}

// Begun is the plan of the experiment begun at path, finished or not, with the passes
// that follow it.
func Begun(l Lists, o Options, path string) (*Plan, error) {
	doc, stream, err := result.Resume(path)
	if errors.Is(err, result.ErrFinished) {
		doc, err = result.Read(path)
	} else if err == nil {
		err = stream.Close()
	}
	if err != nil {
		return nil, err
	}
	p, err := planOf(doc, l, o)
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", path, err)
	}
	return p, nil
}

// session is an experiment that runs.
type session struct {
	*Plan
	o      Options
	doc    *result.Experiment
	stream *result.Stream
	watch  *environment.Watcher
	envs   map[string]Environment
	// reached is where the servers of an arm are.
	reached map[string]reach
	lost    map[string]error // why an arm was given up
	// inside are the Counters in the arms' own kernels; empty if runs are counted outside.
	inside map[string]Counters
	// doing is the last step reported to Progress.
	doing Progress
}

func execute(ctx context.Context, p *Plan, o Options, doc *result.Experiment, stream *result.Stream, path string) (*result.Experiment, error) {
	s := &session{Plan: p, o: o, doc: doc, stream: stream, envs: map[string]Environment{}, reached: map[string]reach{}, lost: map[string]error{}, inside: map[string]Counters{}}
	err := s.all(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	var left error // an environment could not be taken down; the measurements stand
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
	case !errors.Is(err, errAnew):
		err = fmt.Errorf("%w; %w (runs: %d): continue with `teescope bench run --resume --out %s`", err, ErrKept, len(doc.Runs), path)
	}
	return nil, errors.Join(err, left, stream.Close())
}

func (s *session) all(ctx context.Context) error {
	s.LoadElsewhere = s.o.Client != nil
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
	if s.o.Client != nil {
		s.doc.Design.ClientClock = s.o.Client.clock
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
	for i := range s.Arms {
		if err := s.hopeless(s.Arms[i].Label); err != nil {
			return err
		}
	}
	began, ran := s.o.Host.Now(), 0
	for i := 0; i < len(s.doc.Design.Order) || s.addSpare(); i++ {
		slot := s.doc.Design.Order[i]
		if done[runID(slot)] || s.lost[slot.Env] != nil || s.doc.Barren(slot.Case, slot.Env) {
			continue
		}
		pr := Progress{Done: i, Total: len(s.doc.Design.Order), Doing: runID(slot)}
		if ran > 0 {
			pr.Left = s.o.Host.Now().Sub(began) / time.Duration(ran) * time.Duration(pr.Total-i)
		}
		s.progress(pr)
		r, err := s.makeRun(ctx, slot)
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
	if err := s.unchanged(ctx); err != nil {
		return err
	}
	return s.givenUp()
}

// addSpare appends the next spare pair to the order, if one is left and fewer pairs than planned are valid and undisturbed.
// The seed draws it, so an experiment that is continued has the same.
func (s *session) addSpare() bool {
	d := &s.doc.Design
	next := d.PairsPlanned
	for _, slot := range d.Order {
		next = max(next, slot.Pair+1)
	}
	if next >= d.PairsPlanned+d.SparePairs || len(s.lost) > 0 || !verdict.ShortOfPairs(s.doc, s.o.Verdict) {
		return false
	}
	for _, slot := range s.schedule(next + 1) {
		if slot.Pair == next {
			d.Order = append(d.Order, slot)
		}
	}
	return true
}

func (s *session) progress(p Progress) {
	s.doing = p
	if s.o.Progress != nil {
		s.o.Progress(p)
	}
}

// hopeless gives up an arm that has only failed, in each of its cases; its error says that too few others are
// left to continue.
func (s *session) hopeless(label string) error {
	failed, last, tried := 0, "", map[string]bool{}
	for i := range s.doc.Runs {
		if r := &s.doc.Runs[i]; r.Env == label {
			if r.Status == result.OK {
				return nil
			}
			failed, last, tried[r.Case] = failed+1, r.Reason, true
		}
	}
	if failed < result.GiveUp || len(tried) < len(s.Cases) {
		return nil
	}
	s.lost[label] = fmt.Errorf("environment %s: %d of %d runs failed. The last failure was: %s: %w", label, failed, failed, last, ErrArm)
	if len(s.Arms)-len(s.lost) >= 2 {
		return nil
	}
	return s.givenUp()
}

// givenUp says which arms were given up, and why; nil if none was.
func (s *session) givenUp() error {
	var errs []error
	for i := range s.Arms {
		errs = append(errs, s.lost[s.Arms[i].Label])
	}
	return errors.Join(errs...)
}

func runID(s result.Slot) string { return fmt.Sprintf("p%02d-%s-%s", s.Pair, s.Case, s.Env) }

// raw keeps the outputs of a run next to the document.
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
