//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/commits"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// commitsFlags say how to build a commit and what to run.
type commitsFlags struct {
	benchFlags
	commits.Repository
	launcher string
	most     int
}

func benchCommitsCommand(env Env) *cobra.Command {
	var f commitsFlags
	c := &cobra.Command{
		Use:   "commits FIRST..LAST [EXPERIMENT]",
		Short: "Build the commits of a range, run them interleaved and add them to the history",
		Long: `Commits checks out the commits from FIRST to LAST, including both, along first parents.
It builds each commit in its own folder, and runs all builds in one interleaved experiment,
so a disturbance of the machine affects all builds alike. It adds each commit to the history
with its counters per operation, and names the commits that changed the cost or the mix of
system calls. A commit that does not build is skipped and listed. If all runs of a commit fail,
or guards refuse all its comparisons, the history keeps the commit with the reason.

EXPERIMENT is a file or name as for ` + "`bench run`" + `, with a workload that takes a binary (default: custom).

Exit status: 0 measured, 3 a guard refused a comparison or a commit gave no value, 4 usage error
or something missing on this machine.`,
		Example: "  teescope bench commits v1.0..HEAD --build 'make' --binary server --param 'command={binary} --requests 10000'",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			name := "custom"
			if len(args) == 2 {
				name = args[1]
			}
			return f.run(c.Context(), env, args[0], name)
		},
	}
	f.add(c)
	fs := c.Flags()
	fs.StringVar(&f.Folder, "repo", ".", "repository of the program under test")
	fs.StringVar(&f.Build, "build", "make", "shell command that builds a commit; it runs in the commit's folder")
	fs.StringVar(&f.Binary, "binary", "", "path of the built program in the commit's folder")
	fs.StringVar(&f.launcher, "launcher", "native", "environment of all commits, as LAUNCHER[,K=V]...")
	fs.IntVar(&f.most, "most", 20, "maximum number of commits; from a longer range, evenly spaced commits are used, always including both ends")
	f.hide(c, "env", "variants", "commit", "resume", "dry-run", "format", "price", "strict")
	_ = c.MarkFlagRequired("binary")
	return c
}

func (f *commitsFlags) run(ctx context.Context, env Env, span, experiment string) error {
	h := host.Local()
	ids, err := f.Range(ctx, h, span, f.most)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "teescope-commits")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var builds []commits.Built
	for i, id := range ids {
		fmt.Fprintf(env.Stderr, "building %s (%d of %d)\n", result.ShortID(id), i+1, len(ids))
		b, err := f.BuildCommit(ctx, h, id, filepath.Join(dir, result.ShortID(id)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(env.Stderr, "teescope: commit %s is left out: %s\n", result.ShortID(id), contain.OneLine(err))
			continue
		}
		if n := len(builds); n > 0 {
			b.Commit.At = commits.Later(b.Commit.At, builds[n-1].Commit.At)
		}
		builds = append(builds, b)
	}
	if len(builds) < 2 {
		return fmt.Errorf("only %d of %d commits could be built, but a comparison needs at least two", len(builds), len(ids))
	}
	f.envs = nil
	for _, b := range builds {
		f.envs = append(f.envs, result.ShortID(b.Commit.ID)+"="+f.launcher+",binary="+b.Binary)
	}
	if f.out == "" || filepath.Ext(f.out) != ".json" {
		f.out = f.path("commits", h.Now(), false)
	}
	err = f.benchFlags.run(ctx, env, []string{experiment}, false)
	var status outcome // of a finished result, which is recorded all the same
	switch {
	case errors.Is(err, bench.ErrKept):
		return fmt.Errorf("%w; the builds are removed, so `bench commits` cannot continue this run; start a new one", err)
	case err != nil && !errors.As(err, &status):
		return err
	}
	e, rerr := result.Read(f.out)
	if rerr != nil {
		return rerr
	}
	return cmp.Or(f.record(env.Stdout, e, builds), err)
}

// record adds the commits of an experiment to the history and prints the history of
// this job.
func (f *commitsFlags) record(w io.Writer, e *result.Experiment, builds []commits.Built) error {
	archive := historyArchive(f.data)
	for _, b := range builds {
		one := commits.Part(e, result.ShortID(b.Commit.ID), &b.Commit, f.launcher)
		points, refused := verdict.Points(one)
		for _, r := range refused {
			if r.Metric == e.Design.Primary {
				fmt.Fprintf(w, "commit %s: added to the history, but not used to find changes: %s\n", result.ShortID(b.Commit.ID), contain.OneLine(errors.New(r.Reason)))
			}
		}
		if len(points)+len(refused) == 0 {
			fmt.Fprintf(w, "commit %s: not added to the history: its environment has no fingerprint\n", result.ShortID(b.Commit.ID))
			continue
		}
		if _, err := archive.Add(one); err != nil {
			return err
		}
	}
	h := historyFlags{data: f.data, workload: e.Workload.Name, metric: f.metric, magnitude: f.margin, counters: 6}
	if h.magnitude == "" {
		h.magnitude = defaultMargin
	}
	ss, err := h.series(w)
	if err != nil {
		return err
	}
	for _, s := range ss {
		if slices.ContainsFunc(e.Cases, func(c result.Case) bool { return c.Identity == s.Key.Identity }) {
			h.show(w, s)
		}
	}
	return nil
}
