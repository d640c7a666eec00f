//go:build linux

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

// task is an experiment, what the user named it by ("" for a pass, which follows from another), and where its result goes.
type task struct {
	plan  *bench.Plan
	asked string
	path  string
}

// finished is the result of a resumed task that is already complete, nil for all
// others.
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
		return nil, fmt.Errorf("%s has the runs of %s, but the experiment to continue is %s; give the --out of that experiment", t.path, begun.Name, t.plan.Name)
	case !done:
		return nil, nil
	}
	return begun, nil
}

// run runs a task, or the rest of one that stopped.
func (t task) run(ctx context.Context, o bench.Options, resume bool) (*result.Experiment, error) {
	if resume {
		e, err := bench.Resume(ctx, lists(), o, t.path)
		if !errors.Is(err, result.ErrNotBegun) {
			return e, err
		}
	}
	return bench.Run(ctx, t.plan, o, t.path)
}

// following are the passes after a task; its result determines their load.
func (t task) following(e *result.Experiment) ([]task, error) {
	var out []task
	for i := range t.plan.Then {
		pass := &t.plan.Then[i]
		next, err := pass.Next(t.plan, e)
		if err != nil {
			return nil, err
		}
		ext := filepath.Ext(t.path)
		out = append(out, task{next, "", strings.TrimSuffix(t.path, ext) + "-" + pass.Name + ext})
	}
	return out, nil
}

// printThen prints the passes that follow, for a dry run.
func printThen(w io.Writer, p *bench.Plan) {
	for i := range p.Then {
		pass := &p.Then[i]
		var loads []string
		for _, l := range pass.Loads {
			loads = append(loads, l.String())
		}
		runs := pass.Runs(p)
		fmt.Fprintf(w, "  then %s: each case at %s of the slower environment's capacity, %d runs, about %s\n", pass.Name, strings.Join(loads, ", "), runs, p.Runs(runs).Round(time.Second))
	}
}
