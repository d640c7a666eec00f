package cli

import (
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
