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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// commitsFlags say how to build a commit and what to run.
type commitsFlags struct {
	benchFlags
	repo, build, binary, launcher string
	most                          int
}

func benchCommitsCommand(env Env) *cobra.Command {
	var f commitsFlags
	c := &cobra.Command{
		Use:   "commits FIRST..LAST [EXPERIMENT]",
		Short: "Build the commits of a range, run them interleaved and add them to the history",
		Long: `Commits checks out the commits from FIRST to LAST, both included and along first parents,
each in its own folder, builds them, and runs all builds in one interleaved experiment, so
a disturbance of the machine affects all of them alike. It adds each commit to the history
with its counters per operation, and names the commits that changed the cost or the mix of
system calls. Commits that do not build are left out and named; those whose runs all fail,
or whose comparisons are all refused, go into the history with the reason.

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
	fs.StringVar(&f.repo, "repo", ".", "repository of the program under test")
	fs.StringVar(&f.build, "build", "make", "shell command that builds a commit, run in its folder")
	fs.StringVar(&f.binary, "binary", "", "the built program, relative to that folder")
	fs.StringVar(&f.launcher, "launcher", "native", "environment of all commits, as LAUNCHER[,K=V]...")
	fs.IntVar(&f.most, "most", 20, "maximum number of commits; a longer range is thinned out evenly, keeping both ends")
	f.hide(c, "env", "variants", "commit", "resume", "dry-run", "format", "price", "strict")
	_ = c.MarkFlagRequired("binary")
	return c
}

// built is a commit and its program.
type built struct {
	commit result.Commit
	binary string
}

func (f *commitsFlags) run(ctx context.Context, env Env, span, experiment string) error {
	h := host.Local()
	ids, err := f.revisions(ctx, h, span)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "teescope-commits")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var builds []built
	for i, id := range ids {
		fmt.Fprintf(env.Stderr, "building %s (%d of %d)\n", short(id), i+1, len(ids))
		b, err := f.make(ctx, h, id, filepath.Join(dir, short(id)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(env.Stderr, "teescope: commit %s is left out: %s\n", short(id), contain.OneLine(err))
			continue
		}
		if n := len(builds); n > 0 {
			b.commit.At = later(b.commit.At, builds[n-1].commit.At)
		}
		builds = append(builds, b)
	}
	if len(builds) < 2 {
		return fmt.Errorf("%d of %d commits were built; a comparison needs at least two", len(builds), len(ids))
	}
	f.envs = nil
	for _, b := range builds {
		f.envs = append(f.envs, short(b.commit.ID)+"="+f.launcher+",binary="+b.binary)
	}
	if f.out == "" || filepath.Ext(f.out) != ".json" {
		f.out = f.path("commits", h.Now(), false)
	}
	err = f.benchFlags.run(ctx, env, []string{experiment}, false)
	var status outcome // of a finished result, which is recorded all the same
	switch {
	case errors.Is(err, bench.ErrKept):
		return fmt.Errorf("%w; the builds are removed, so `bench commits` cannot continue: start it again", err)
	case err != nil && !errors.As(err, &status):
		return err
	}
	e, rerr := result.Read(f.out)
	if rerr != nil {
		return rerr
	}
	return cmp.Or(f.record(env.Stdout, e, builds), err)
}

// later is git's corrected commit date (gitformat-commit-graph(5)): at least a second
// after the previous commit, because clocks differ and a rebase makes many commits in
// one second.
func later(at, before time.Time) time.Time {
	if first := before.Add(time.Second); at.Before(first) {
		return first
	}
	return at
}

// record adds the commits of an experiment to the history and prints the history of
// this job.
func (f *commitsFlags) record(w io.Writer, e *result.Experiment, builds []built) error {
	archive := historyArchive(f.data)
	for _, b := range builds {
		one := ofCommit(e, short(b.commit.ID), &b.commit, f.launcher)
		points, refused := verdict.Points(one)
		for _, r := range refused {
			if r.Metric == e.Design.Primary {
				fmt.Fprintf(w, "commit %s: added to the history, but not used to find changes: %s\n", short(b.commit.ID), contain.OneLine(errors.New(r.Reason)))
			}
		}
		if len(points)+len(refused) == 0 {
			fmt.Fprintf(w, "commit %s: not added to the history: its environment has no fingerprint\n", short(b.commit.ID))
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
	ss, err := h.series()
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

// ofCommit is the part of an experiment that belongs to one commit, as if it had run
// alone in an environment called name.
func ofCommit(e *result.Experiment, arm string, c *result.Commit, name string) *result.Experiment {
	one := *e
	one.ID = e.ID + "-" + short(c.ID)
	one.Commit = c
	one.Environments, one.Runs = nil, nil
	one.Comparisons, one.Attribution, one.Guards = []result.Comparison{}, []result.Attribution{}, append([]result.Guard{}, verdict.Refusals(e, arm)...)
	one.Design.Order, one.Design.Then = nil, nil
	for _, s := range e.Design.Order {
		if s.Env == arm {
			s.Env = name
			one.Design.Order = append(one.Design.Order, s)
		}
	}
	for _, x := range e.Environments {
		if x.ID == arm {
			x.ID = name
			one.Environments = append(one.Environments, x)
		}
	}
	for _, r := range e.Runs {
		if r.Env == arm {
			r.Env = name
			one.Runs = append(one.Runs, r)
		}
	}
	return &one
}

// revisions are the commits of a range, oldest first.
func (f *commitsFlags) revisions(ctx context.Context, h *host.Host, span string) ([]string, error) {
	first, last, ok := strings.Cut(span, "..")
	if !ok || first == "" || last == "" || strings.HasPrefix(last, ".") {
		return nil, fmt.Errorf("range %q: want FIRST..LAST, as in v1.0..HEAD", span)
	}
	if f.most < 2 {
		return nil, fmt.Errorf("--most %d: want at least 2", f.most)
	}
	base, err := f.git(ctx, h, "rev-parse", "--verify", "--end-of-options", first+"^{commit}")
	if err != nil {
		return nil, err
	}
	list, err := f.git(ctx, h, "rev-list", "--reverse", "--first-parent", "--end-of-options", first+".."+last)
	if err != nil {
		return nil, err
	}
	ids := append(strings.Fields(base), strings.Fields(list)...)
	if len(ids) < 2 {
		return nil, fmt.Errorf("range %q: no commit after %s", span, first)
	}
	return thinned(ids, f.most), nil
}

// thinned keeps n entries of a list: both ends and others evenly between.
func thinned(ids []string, n int) []string {
	if len(ids) <= n {
		return ids
	}
	out := make([]string, n)
	for i := range out {
		out[i] = ids[i*(len(ids)-1)/(n-1)]
	}
	return out
}

// make builds a commit in dir and returns its program, moved out of the worktree.
func (f *commitsFlags) make(ctx context.Context, h *host.Host, id, dir string) (b built, err error) {
	shown, err := f.git(ctx, h, "show", "-s", "--format=%H %cI", id)
	if err != nil {
		return b, err
	}
	full, at, _ := strings.Cut(strings.TrimSpace(shown), " ")
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return b, fmt.Errorf("commit %s: git's date %q: %w", short(id), at, err)
	}
	b.commit = result.Commit{ID: full, At: when.UTC()}
	tree := filepath.Join(dir, "tree")
	if _, err := f.git(ctx, h, "worktree", "add", "--detach", "--force", tree, id); err != nil {
		return b, err
	}
	defer func() {
		// Not ctx: after Ctrl-C too, the repository must not keep a worktree without a folder.
		_, rerr := f.git(context.WithoutCancel(ctx), h, "worktree", "remove", "--force", tree)
		err = errors.Join(err, rerr)
	}()
	out, err := h.Exec(ctx, host.Cmd{Argv: []string{"sh", "-c", f.build}, Dir: tree})
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("status %d", out.Code)
	}
	if err != nil {
		return b, host.Because(fmt.Errorf("build by %q: %w", f.build, err), out)
	}
	b.binary = filepath.Join(dir, filepath.Base(f.binary))
	if err := os.Rename(filepath.Join(tree, f.binary), b.binary); err != nil {
		return b, fmt.Errorf("the build made no --binary %s: %w", f.binary, err)
	}
	return b, nil
}

func (f *commitsFlags) git(ctx context.Context, h *host.Host, args ...string) (string, error) {
	out, err := h.Exec(ctx, host.Cmd{Argv: append([]string{"git", "-C", f.repo}, args...)})
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("status %d", out.Code)
	}
	if err != nil {
		return "", host.Because(fmt.Errorf("git %s in %s: %w", args[0], f.repo, err), out)
	}
	return string(out.Stdout), nil
}
