package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/result"
)

// task is an experiment and where its result goes.
type task struct {
	plan *bench.Plan
	path string
}

// finished is the result of a task that is being resumed and has nothing left to do; nil
// of all others.
func (t task) finished(resume bool) (*result.Experiment, error) {
	if !resume {
		return nil, nil
	}
	begun, stream, err := result.Resume(t.path)
	done := errors.Is(err, result.ErrFinished)
	switch {
	case done:
		begun, err = result.Read(t.path)
	case errors.Is(err, result.ErrNotBegun):
		return nil, nil
	case err == nil:
		err = stream.Close()
	}
	switch {
	case err != nil:
		return nil, err
	case begun.Name != t.plan.Name:
		return nil, fmt.Errorf("%s has the runs of %s and not of %s", t.path, begun.Name, t.plan.Name)
	case !done:
		return nil, nil
	}
	return begun, nil
}

// run runs a task, or what is left of one that was begun before.
func (t task) run(ctx context.Context, o bench.Options, resume bool) (*result.Experiment, error) {
	if resume {
		e, err := bench.Resume(ctx, lists(), o, t.path)
		if !errors.Is(err, result.ErrNotBegun) {
			return e, err
		}
	}
	return bench.Run(ctx, t.plan, o, t.path)
}

// following are the passes that come after a task, under the load that its result
// gives.
func (t task) following(e *result.Experiment) ([]task, error) {
	var out []task
	for i := range t.plan.Then {
		pass := &t.plan.Then[i]
		next, err := pass.Next(t.plan, e)
		if err != nil {
			return nil, err
		}
		ext := filepath.Ext(t.path)
		out = append(out, task{next, strings.TrimSuffix(t.path, ext) + "-" + pass.Name + ext})
	}
	return out, nil
}

// printThen says in a dry run what follows.
func printThen(w io.Writer, p *bench.Plan) {
	for i := range p.Then {
		pass := &p.Then[i]
		var loads []string
		for _, l := range pass.Loads {
			loads = append(loads, l.String())
		}
		runs := pass.Runs(p)
		took, _ := p.Estimate()
		took = took * time.Duration(runs) / time.Duration(max(1, p.Pairs*len(p.Arms)*len(p.Cases)))
		fmt.Fprintf(w, "  then %s: each case at %s of what the slower environment can do, %d runs, about %s\n", pass.Name, strings.Join(loads, ", "), runs, took.Round(time.Second))
	}
}
