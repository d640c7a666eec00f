// Package commits builds the commits of a range of a program's history, and divides the result of an experiment with all of them.
package commits

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// Repository is a git repository and how its commits are built.
type Repository struct {
	Folder string
	Build  string // a shell command, run in a commit's folder
	Binary string // the built program, relative to that folder
}

// Built is a commit and its program.
type Built struct {
	Commit result.Commit
	Binary string
}

// Later is git's corrected commit date (gitformat-commit-graph(5)): at least a second
// after the previous commit, because clocks differ and a rebase makes many commits in
// one second.
func Later(at, before time.Time) time.Time {
	if first := before.Add(time.Second); at.Before(first) {
		return first
	}
	return at
}

// Range returns the ids of the commits of a range FIRST..LAST, both included and along first parents, oldest first. A range of
// more than most is thinned out evenly.
func (r Repository) Range(ctx context.Context, h *host.Host, span string, most int) ([]string, error) {
	first, last, ok := strings.Cut(span, "..")
	if !ok || first == "" || last == "" || strings.HasPrefix(last, ".") {
		return nil, fmt.Errorf("range %q: want FIRST..LAST, as in v1.0..HEAD", span)
	}
	if most < 2 {
		return nil, fmt.Errorf("--most %d: want at least 2", most)
	}
	base, err := r.git(ctx, h, "rev-parse", "--verify", "--end-of-options", first+"^{commit}")
	if err != nil {
		return nil, err
	}
	list, err := r.git(ctx, h, "rev-list", "--reverse", "--first-parent", "--end-of-options", first+".."+last)
	if err != nil {
		return nil, err
	}
	ids := append(strings.Fields(base), strings.Fields(list)...)
	if len(ids) < 2 {
		return nil, fmt.Errorf("range %q: no commit after %s", span, first)
	}
	return thinned(ids, most), nil
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

// BuildCommit builds a commit in dir and returns its program, moved out of the worktree.
func (r Repository) BuildCommit(ctx context.Context, h *host.Host, id, dir string) (b Built, err error) {
	shown, err := r.git(ctx, h, "show", "-s", "--format=%H %cI", id)
	if err != nil {
		return b, err
	}
	full, at, _ := strings.Cut(strings.TrimSpace(shown), " ")
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return b, fmt.Errorf("commit %s: git's date %q: %w", result.ShortID(id), at, err)
	}
	b.Commit = result.Commit{ID: full, At: when.UTC()}
	tree := filepath.Join(dir, "tree")
	if _, err := r.git(ctx, h, "worktree", "add", "--detach", "--force", tree, id); err != nil {
		return b, err
	}
	defer func() {
		// Not ctx: after Ctrl-C too, the repository must not keep a worktree without a folder.
		_, rerr := r.git(context.WithoutCancel(ctx), h, "worktree", "remove", "--force", tree)
		err = errors.Join(err, rerr)
	}()
	out, err := h.Exec(ctx, host.Cmd{Argv: []string{"sh", "-c", r.Build}, Dir: tree})
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("status %d", out.Code)
	}
	if err != nil {
		return b, host.WithReason(fmt.Errorf("build by %q: %w", r.Build, err), out)
	}
	b.Binary = filepath.Join(dir, filepath.Base(r.Binary))
	if err := h.Rename(filepath.Join(tree, r.Binary), b.Binary); err != nil {
		return b, fmt.Errorf("the build did not create --binary %s: %w", r.Binary, err)
	}
	return b, nil
}

func (r Repository) git(ctx context.Context, h *host.Host, args ...string) (string, error) {
	out, err := h.Exec(ctx, host.Cmd{Argv: append([]string{"git", "-C", r.Folder}, args...)})
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("status %d", out.Code)
	}
	if err != nil {
		return "", host.WithReason(fmt.Errorf("git %s in %s: %w", args[0], r.Folder, err), out)
	}
	return string(out.Stdout), nil
}

// Part is the part of an experiment that belongs to one commit, as if it had run
// alone in an environment called name.
func Part(e *result.Experiment, arm string, c *result.Commit, name string) *result.Experiment {
	one := *e
	one.ID = e.ID + "-" + result.ShortID(c.ID)
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

// Resolve returns the commit of a revision in the repository of the current folder.
func Resolve(ctx context.Context, h *host.Host, rev string) (*result.Commit, error) {
	out, err := h.Exec(ctx, host.Cmd{Argv: []string{"git", "show", "-s", "--format=%H %cI", rev}})
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w; run this in the repository of the program under test", rev, host.WithReason(err, out))
	}
	id, at, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), " ")
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, fmt.Errorf("commit %s: git's date %q: %w", rev, at, err)
	}
	return &result.Commit{ID: id, At: t.UTC()}, nil
}
