package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Search bounds what finding the files of patterns costs: the entries of folders that are looked at, and the time (0: any).
type Search struct {
	Entries int
	Time    time.Duration
}

// Chosen is the Search for patterns that a user or another process chose.
var Chosen = Search{Entries: 20_000, Time: 2 * time.Second}

// own is the Search for our own patterns, such as /proc/[0-9]*/stat: PID_MAX_LIMIT processes (proc_sys_kernel(5)).
var own = Search{Entries: 4 << 20}

// ErrStopped is wrapped by the error of a search that has used up its budget.
var ErrStopped = errors.New("a narrower pattern is needed")

// Find returns for each pattern, those of path.Match, the machine's paths that match it, in order; a path that there is
// matches itself only, since it may have brackets. All patterns share the budget. Folders that cannot be read are left out.
// After an error, which wraps ErrStopped or the context's, what was found until then is returned.
func (s Search) Find(ctx context.Context, h *Host, patterns ...string) ([][]string, error) {
	if s.Time > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, Patience(s.Time), fmt.Errorf("stopped after %v: %w", s.Time, ErrStopped))
		defer cancel()
		ctx = limited
	}
	found := make([][]string, len(patterns))
	g := globber{Context: ctx, host: h, budget: s.Entries, left: s.Entries}
	for i, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return found, fmt.Errorf("%w: %s", err, p)
		}
		if _, err := h.Stat(p); err == nil {
			found[i] = []string{p}
			continue
		}
		g.found = nil
		err := g.walk("/", split(p))
		if found[i] = g.found; err != nil {
			return found, fmt.Errorf("look for files that match %s: %w", p, err)
		}
	}
	return found, nil
}

// Glob returns the machine's paths that match a pattern of ours, in order.
func (h *Host) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	g := globber{Context: context.Background(), host: h, budget: own.Entries, left: own.Entries}
	err := g.walk("/", split(pattern))
	return g.found, err
}

func split(pattern string) []string {
	return strings.FieldsFunc(pattern, func(r rune) bool { return r == '/' })
}

// globber walks through folders.
type globber struct {
	context.Context
	host         *Host
	budget, left int
	found        []string
}

// walk finds what matches below a folder of the machine.
func (g *globber) walk(dir string, parts []string) error {
	if len(parts) == 0 {
		return nil
	}
	names, err := g.names(dir, parts[0])
	if err != nil {
		return err
	}
	for _, name := range names {
		if len(parts) == 1 {
			g.found = append(g.found, name)
		} else if err := g.walk(name, parts[1:]); err != nil {
			return err
		}
	}
	return nil
}

// names are the paths in a folder that match one part of a pattern, in order.
func (g *globber) names(dir, part string) (names []string, err error) {
	if err := g.spend(1); err != nil {
		return nil, err
	}
	if name, ok := unescape(part); ok {
		name = path.Join(dir, name)
		if _, err := os.Lstat(g.host.Path(name)); err != nil {
			return nil, nil //nolint:nilerr // it is not there
		}
		return []string{name}, nil
	}
	f, err := os.OpenFile(g.host.Path(dir), os.O_RDONLY|folderOnly, 0)
	if err != nil {
		return nil, nil //nolint:nilerr // it may have gone since, be a file, or not be ours to read
	}
	defer f.Close()
	for {
		entries, err := f.Readdirnames(256)
		for _, name := range entries {
			if ok, _ := path.Match(part, name); ok {
				names = append(names, path.Join(dir, name))
			}
		}
		if over := g.spend(len(entries)); over != nil {
			return nil, over
		}
		if err != nil || len(entries) == 0 {
			slices.Sort(names)
			return names, nil
		}
	}
}

// spend counts entries that were looked at.
func (g *globber) spend(n int) error {
	if g.Err() != nil {
		return context.Cause(g)
	}
	if g.left -= n; g.left < 0 {
		return fmt.Errorf("stopped after %d entries of folders: %w", g.budget, ErrStopped)
	}
	return nil
}

// unescape returns the name that a part of a pattern stands for, if it is only one.
func unescape(part string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '*', '?', '[':
			return "", false
		case '\\':
			i++ // path.Match has accepted the pattern, so a character follows
		}
		b.WriteByte(part[i])
	}
	return b.String(), true
}
