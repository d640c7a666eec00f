package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/reproduce"
)

// reproduceRun is what `reproduce run` was asked for.
type reproduceRun struct {
	folder, only string
	within       time.Duration
	envs         []string
	dryRun       bool
}

func reproduceRunCommand(env Env) *cobra.Command {
	var f reproduceRun
	c := &cobra.Command{
		Use:   "run SOURCE",
		Short: "Make the runs of a document's tables, one experiment after the other",
		Long: `Run makes the runs of each table of a document, in its order, and keeps the result of each experiment when it ends.
It can be stopped and started again, on this machine or with its folder on another: what has a result is not run again, what was
interrupted is continued. With --within it begins no experiment that would not end in time.`,
		Example: "  teescope reproduce run channel --within 1h   # native alone where the machine has no TEE\n  teescope reproduce run channel --env native --env runsc --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := findSource(args[0])
			if err != nil {
				return err
			}
			if f.folder == "" {
				f.folder = resultsFolder(s)
			}
			return f.run(c.Context(), env, s)
		},
	}
	c.Flags().StringVar(&f.folder, "results", "", "folder for the results (default reproduce-SOURCE)")
	c.Flags().StringVar(&f.only, "only", "", "only this table or figure (see `teescope reproduce list`)")
	c.Flags().DurationVar(&f.within, "within", 0, "begin no experiment that would end later than this from now, such as 2h")
	c.Flags().StringArrayVar(&f.envs, "env", nil, "environments in place of the experiments' own, as of `teescope bench run`")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would run and how long it takes, and start nothing")
	return c
}

// run makes the runs that have no result yet.
func (f *reproduceRun) run(ctx context.Context, env Env, s *reproduce.Source) error {
	names, err := f.experiments(s)
	if err != nil {
		return err
	}
	if !f.dryRun {
		if err := os.MkdirAll(f.folder, 0o755); err != nil {
			return fmt.Errorf("make the folder of the results: %w", err)
		}
	}
	begun, failed := time.Now(), 0
	for _, name := range names {
		out := filepath.Join(f.folder, name+".json")
		finished, begunBefore := resultState(out)
		took, err := f.estimate(name)
		switch {
		case err != nil:
			fmt.Fprintf(env.Stdout, "%s: cannot run here: %v\n", name, err)
			failed++
			continue
		case finished:
			fmt.Fprintf(env.Stdout, "%s: has a result\n", name)
			continue
		case f.within > 0 && time.Since(begun)+took > f.within:
			fmt.Fprintf(env.Stdout, "%s: left for later: it takes about %s\n", name, round(took))
			continue
		}
		fmt.Fprintf(env.Stdout, "%s: about %s\n", name, round(took))
		if f.dryRun {
			continue
		}
		if status := f.runOne(ctx, env, name, out, begunBefore); status == exitUsage {
			failed++
		}
		if ctx.Err() != nil {
			return fmt.Errorf("stopped; the same command continues: %w", bench.ErrStopped)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of %d gave no result", metric.Plural(failed, "experiment"), len(names))
	}
	return nil
}

// experiments are those of the tables, each once, in the document's order.
func (f *reproduceRun) experiments(s *reproduce.Source) (out []string, err error) {
	found := false
	all := experimentNames()
	for i := range s.Tables {
		t := &s.Tables[i]
		if f.only != "" && t.ID != f.only {
			continue
		}
		found = true
		for _, name := range t.Experiments() {
			if name = reproduce.ExperimentOf(name, all); name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("--only %q: %s has no table of this id; see `teescope reproduce list`", f.only, s.ID)
	}
	return out, nil
}

// estimate says how long an experiment takes here, and fails where it cannot run.
func (f *reproduceRun) estimate(name string) (took time.Duration, err error) {
	e, err := experiment(name)
	if err != nil {
		return 0, err
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e, Envs: f.envs}, lists())
	if err != nil {
		return 0, err
	}
	for _, p := range plans {
		d, _ := p.Estimate()
		took += d
		if _, lacks := p.Here(host.Local()); lacks != nil {
			err = errors.Join(err, lacks)
		}
	}
	return took, err
}

// resultState reports whether a result is finished, and whether one was begun that is not.
func resultState(out string) (finished, begun bool) {
	if _, err := os.Stat(out); err == nil {
		return true, false
	}
	base := strings.TrimSuffix(filepath.Base(out), ".json")
	parts, err := fs.Glob(os.DirFS(filepath.Dir(out)), base+"*")
	if err != nil || len(parts) == 0 {
		return false, false
	}
	return false, true
}

// runOne is `teescope bench run` of one experiment.
func (f *reproduceRun) runOne(ctx context.Context, env Env, name, out string, resume bool) int {
	args := []string{"bench", "run", name, "--out", out}
	if resume {
		args = append(args, "--resume")
	} else {
		for _, e := range f.envs {
			args = append(args, "--env", e)
		}
	}
	one := Env{Args: args, Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr}
	return execute(ctx, one, rootCommand(one))
}
