package launchers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// TestList holds every launcher of the list to the same promises. A launcher's
// fixtures are testdata/NAME.txtar and testdata/NAME.VARIANT.txtar, each a
// machine on which everything is missing (see hosttest), with
//
//	params    lines "name=value" of the launcher; the rest has its default
//	commands  golden: what Commands says for the job of this test, as shown by render
//	missing   golden: the error of Check, one missing thing a line
func TestList(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range All {
		if seen[l.Name] {
			t.Errorf("two launchers are called %s", l.Name)
		}
		seen[l.Name] = true
		t.Run(l.Name, func(t *testing.T) {
			documented(t, l)
			found := false
			for _, path := range fixtures {
				name, _, _ := strings.Cut(filepath.Base(path), ".")
				if name != l.Name {
					continue
				}
				found = true
				t.Run(filepath.Base(path), func(t *testing.T) { promises(t, l, path) })
			}
			if !found {
				t.Errorf("no fixture testdata/%s.txtar", l.Name)
			}
		})
	}
	for _, path := range fixtures {
		if name, _, _ := strings.Cut(filepath.Base(path), "."); !seen[name] {
			t.Errorf("%s belongs to no launcher", path)
		}
	}
}

// job returns the fixed job of the goldens: files, folders, environment and words that a shell
// would split.
func job() bench.Job {
	return bench.Job{
		Inside: host.Cmd{
			Argv: []string{"{work}/micro", "null", "--file", "{data}/a file", `"$HOME"`},
			Env:  map[string]string{"WHERE": "{work}", "WORDS": "two words"},
			Dir:  "{work}",
		},
		Files: []bench.File{
			{Name: "micro", Data: []byte("program"), Exec: true},
			{Name: "conf/settings", Data: []byte("a=1\n")},
		},
	}
}

func documented(t *testing.T, l *bench.Launcher) {
	t.Helper()
	if l.Name == "" || strings.ContainsAny(l.Name, " =,./:") {
		t.Errorf("name %q cannot stand in --env", l.Name)
	}
	if !strings.HasSuffix(l.Doc, ".") {
		t.Errorf("doc %q is not a sentence", l.Doc)
	}
	if l.Check == nil || l.Commands == nil || l.Open == nil {
		t.Fatal("Check, Commands and Open are all wanted")
	}
	if l.Short != "" && !slices.ContainsFunc(l.Params, func(p bench.Param) bool { return p.Name == l.Short }) {
		t.Errorf("%s:VALUE sets the parameter %s, which it does not have", l.Name, l.Short)
	}
	names := map[string]bool{}
	for _, p := range l.Params {
		switch {
		case p.Name == "" || strings.ContainsAny(p.Name, " =,."):
			t.Errorf("parameter %q cannot stand in --env", p.Name)
		case names[p.Name]:
			t.Errorf("two parameters are called %s", p.Name)
		case !strings.HasSuffix(p.Doc, "."):
			t.Errorf("parameter %s: doc %q is not a sentence", p.Name, p.Doc)
		case p.Values != nil && !slices.Contains(p.Values, p.Default):
			t.Errorf("parameter %s: the default %q is not one of its values", p.Name, p.Default)
		}
		names[p.Name] = true
	}
}

func promises(t *testing.T, l *bench.Launcher, path string) {
	f := hosttest.Open(t, path)
	given := bench.Params{}
	for line := range strings.Lines(f.Meta["params"]) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			t.Fatalf("params: %q: want name=value", line)
		}
		given[k] = v
	}
	params, err := bench.Complete("launcher "+l.Name, l.Params, given)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(f.Host.Path(os.TempDir()), 0o755); err != nil {
		t.Fatal(err)
	}
	before := tree(t, f.Host)

	commands, err := l.Commands(maps.Clone(params), job())
	if err != nil {
		t.Fatalf("commands: %v", err)
	}
	checkGolden(t, f, path, "commands", render(commands))

	missing := ""
	if err := l.Check(f.Host, maps.Clone(params)); err != nil {
		missing = strings.ReplaceAll(err.Error(), "; ", ";\n") + "\n"
	}
	checkGolden(t, f, path, "missing", missing)
	same(t, "after Commands and Check", before, tree(t, f.Host))

	failingOpen(t, l, f.Host, params, before)
}

// failingOpen makes the first command of Open and Prepare fail, then their second, and so on until they succeed,
// with background programs that end at once and with some that never print anything.
func failingOpen(t *testing.T, l *bench.Launcher, fixture *host.Host, params bench.Params, before string) {
	local := host.Local()
	for _, program := range [][]string{{"true"}, {"sleep", "6000"}} {
		for succeed := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			left := succeed
			var started []*host.Process
			h := *fixture
			h.Exec = func(ctx context.Context, c host.Cmd) (host.Output, error) {
				if left--; left < 0 {
					return host.Output{Code: 1}, fmt.Errorf("run %s: exit status 1", c.Argv[0])
				}
				return host.Output{}, ctx.Err()
			}
			h.Start = func(ctx context.Context, c host.Cmd) (*host.Process, error) {
				if left--; left < 0 {
					return nil, fmt.Errorf("run %s: %w", c.Argv[0], fs.ErrNotExist)
				}
				p, err := local.Start(ctx, host.Cmd{Argv: program})
				if err == nil {
					started = append(started, p)
					go cancel() // the user loses patience
				}
				return p, err
			}
			env, err := l.Open(ctx, &h, maps.Clone(params))
			if err == nil {
				if p, ok := env.(bench.Prepared); ok {
					err = p.Prepare(ctx, bench.Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "null"}}})
				}
				if err := env.Close(); err != nil {
					t.Errorf("%s, %d commands succeed: close: %v", program[0], succeed, err)
				}
			} else if env != nil {
				t.Errorf("%s, %d commands succeed: an environment beside the error %v", program[0], succeed, err)
			}
			cancel()
			same(t, fmt.Sprintf("%s, %d commands succeed (%v)", program[0], succeed, err), before, tree(t, fixture))
			for _, p := range started {
				await.Event(t, fmt.Sprintf("%s, %d commands succeed: the program that Open started ends", program[0], succeed), func() error {
					select {
					case <-p.Done():
						return nil
					default:
						return errors.New("it runs")
					}
				})
			}
			if err == nil || errors.Is(err, context.Canceled) && left > 0 {
				break
			}
		}
	}
}

// render shows commands as text that is the same byte for byte each time.
func render(commands []host.Cmd) string {
	var b strings.Builder
	for _, c := range commands {
		for _, k := range slices.Sorted(maps.Keys(c.Env)) {
			fmt.Fprintf(&b, "env %s=%s\n", k, c.Env[k])
		}
		if c.Dir != "" {
			fmt.Fprintf(&b, "cd %s\n", c.Dir)
		}
		if c.Ready != "" {
			fmt.Fprintf(&b, "ready %q ask %q\n", c.Ready, c.Ask)
		}
		for i, a := range c.Argv {
			if i > 0 {
				b.WriteByte(' ')
			}
			if strings.ContainsAny(a, " \t\n\"'\\$") || a == "" {
				fmt.Fprintf(&b, "%q", a)
				continue
			}
			b.WriteString(a)
		}
		b.WriteByte('\n')
		for line := range strings.Lines(string(c.Stdin)) {
			fmt.Fprintf(&b, "< %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return b.String()
}

func checkGolden(t *testing.T, f *hosttest.Fixture, path, name, got string) {
	t.Helper()
	if got == f.Meta[name] {
		return
	}
	if !*update {
		t.Errorf("%s: %s:\n%swant:\n%s", path, name, got, f.Meta[name])
		return
	}
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got)})
	golden.Write(t, path, txtar.Format(a))
}

// tree lists a machine's files.
func tree(t *testing.T, h *host.Host) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(h.Root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			fmt.Fprintln(&b, strings.TrimPrefix(path, h.Root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func same(t *testing.T, when, before, after string) {
	t.Helper()
	if before != after {
		t.Errorf("%s the machine has\n%sbefore:\n%s", when, after, before)
	}
}

// TestFileNames: launcher NAME is in the file NAME.go, or a command template in
// templates/NAME.yaml.
func TestFileNames(t *testing.T) {
	for _, l := range All {
		_, err := os.Stat(l.Name + ".go")
		_, err2 := os.Stat("templates/" + l.Name + ".yaml")
		if err != nil && err2 != nil {
			t.Errorf("%s: want its file to be called %s.go", l.Name, l.Name)
		}
	}
}
