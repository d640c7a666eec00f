package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// command returns a check without separate tests: it passes when the command succeeds.
func command(argv ...string) func(context.Context, *tally) error { return commandIn("", argv...) }

func commandIn(dir string, argv ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, said.Bytes())
		}
		t.pass()
		return nil
	}
}

// inModules runs the command in the folder of each module.
func inModules(argv ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		dirs, err := modules(ctx)
		if err != nil {
			return err
		}
		if strings.Contains(argv[0], "/") { // else it would be looked for in the module's folder
			if argv[0], err = filepath.Abs(argv[0]); err != nil {
				return err
			}
		}
		var errs []error
		for _, dir := range dirs {
			errs = append(errs, commandIn(dir, argv...)(ctx, t))
		}
		return errors.Join(errs...)
	}
}

// modules lists the folders of the Go modules, "." first, but for Kubernetes, which takes ten minutes to compile
// (`make e2e-kubernetes` does that), and FerretDB, a module without code of ours (`make ferretdb`).
func modules(ctx context.Context) ([]string, error) {
	files, err := tracked(ctx, "go.mod", "*/go.mod", ":!e2e/kubernetes", ":!tools/ferretdb")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, filepath.Dir(f))
	}
	slices.Sort(dirs)
	return dirs, nil
}

func gofmt(ctx context.Context, t *tally) error {
	files, err := tracked(ctx, "*.go")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "gofmt", append([]string{"-l"}, files...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("gofmt -l: %w\n%s", err, out)
	}
	if len(out) > 0 {
		return fmt.Errorf("gofmt -w would change:\n%s", out)
	}
	t.pass()
	return nil
}

// generated regenerates the generated files, one source file on each CPU and then those that load Go packages, and compares the tree
// before and after, which also works with uncommitted changes. Files that a test generates are
// left out: without -update the same test fails if they differ.
func generated(ctx context.Context, t *tally) error {
	before, err := hashes(ctx)
	if err != nil {
		return err
	}
	sources, err := generating(ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(runtime.NumCPU())
	for _, file := range sources.compiled {
		all.Go(func() error { return generate(ctx, file) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, file := range sources.run {
		if err := generate(ctx, file); err != nil {
			return err
		}
	}
	t.pass()
	after, err := hashes(ctx)
	if err != nil {
		return err
	}
	var changed []string
	for name, sum := range after {
		if before[name] != sum {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		clang, _ := exec.CommandContext(ctx, "clang", "--version").Output()
		first, _, _ := bytes.Cut(clang, []byte("\n"))
		return fmt.Errorf("generate again: these files changed; commit them, or use the compiler that made them (Debian 12's clang; here: %s):\n%s", first, strings.Join(changed, "\n"))
	}
	return nil
}

func generate(ctx context.Context, file string) error {
	return command("go", "generate", "-skip", "go test", file)(ctx, new(tally))
}

// generators are the source files with a directive for go generate. Those of run start Go programs, which may load packages of the
// repository: while compiled ones replace a file that such a package embeds, it cannot be loaded.
type generators struct{ compiled, run []string }

// generating lists the source files with a directive for go generate.
func generating(ctx context.Context) (g generators, err error) {
	sources, err := tracked(ctx, "*.go")
	if err != nil {
		return g, err
	}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		switch {
		case err != nil:
			return g, err
		case bytes.Contains(text, []byte("\n//go:generate go ")):
			g.run = append(g.run, file)
		case bytes.Contains(text, []byte("\n//go:generate ")):
			g.compiled = append(g.compiled, file)
		}
	}
	if len(g.run)+len(g.compiled) == 0 {
		return g, errors.New("no source file has a directive for go generate; run in the repository")
	}
	return g, nil
}

func hashes(ctx context.Context) (map[string][sha256.Size]byte, error) {
	files, err := tracked(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][sha256.Size]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		out[f] = sha256.Sum256(b)
	}
	return out, nil
}

// tracked lists the existing files that git knows or would add.
func tracked(ctx context.Context, patterns ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"ls-files", "-z", "-co", "--exclude-standard"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("git ls-files: lists nothing; run in the repository")
	}
	return files, nil
}
