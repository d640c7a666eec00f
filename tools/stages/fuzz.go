package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// fuzzed is a package with fuzz targets.
type fuzzed struct {
	testPackage
	targets []string
}

// fuzz runs every fuzz target for FUZZTIME, one on each CPU. Each package is
// linked once. The gate runs only the inputs that are kept, as part of the unit tests.
func fuzz(ctx context.Context, t *tally) error {
	each, err := time.ParseDuration(cmp.Or(os.Getenv("FUZZTIME"), "20s"))
	if err != nil {
		return fmt.Errorf("read FUZZTIME: %w; want a time such as 4s", err)
	}
	packages, err := fuzzedPackages(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all errgroup.Group
	all.SetLimit(runtime.NumCPU())
	var mu sync.Mutex // of t and inputs
	inputs := 0
	for _, p := range packages {
		all.Go(func() error {
			once := new(tally)
			n, err := p.fuzz(ctx, once, each, dir)
			mu.Lock()
			defer mu.Unlock()
			t.add(once)
			inputs += n
			return err
		})
	}
	err = all.Wait()
	fmt.Printf("fuzz: tried %d inputs\n", inputs)
	return err
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzedPackages reads the targets from the sources: listing them with the tests would link each.
func fuzzedPackages(ctx context.Context) (all []fuzzed, err error) {
	packages, err := testPackages(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(short(p.path)), "*_test.go"))
		if err != nil {
			return nil, err
		}
		f := fuzzed{testPackage: p}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
				f.targets = append(f.targets, string(m[1]))
			}
		}
		if len(f.targets) > 0 {
			all = append(all, f)
		}
	}
	return all, nil
}

// fuzz links the tests of the package in dir, runs its targets one after the other, each on one
// CPU, and returns how many inputs they tried. Coverage guides the inputs where that is cheap.
// Interesting inputs are kept where `go test` keeps them.
func (f fuzzed) fuzz(ctx context.Context, t *tally, each time.Duration, dir string) (inputs int, err error) {
	binary := filepath.Join(dir, strings.ReplaceAll(short(f.path), "/", "_")+".test")
	args, found := []string{"go", "test", "-c", "-vet=off", "-o", binary}, filepath.Join(dir, "found")
	if !f.linksPrometheus {
		cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
		if err != nil {
			return 0, fmt.Errorf("ask go for its cache: %w", err)
		}
		args, found = append(args, "-fuzz=."), filepath.Join(strings.TrimSpace(string(cache)), "fuzz", f.path)
	}
	args = append(args, f.path)
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		t.fail("package "+f.path, string(out))
		return 0, nil
	}
	for _, target := range f.targets {
		args := []string{"go", "tool", "test2json", "-p", f.path, "-t", binary, "-test.v=test2json", "-test.paniconexit0", "-test.run=^$",
			"-test.fuzz=^" + target + "$", "-test.fuzztime=" + each.String(), "-test.parallel=1", "-test.fuzzcachedir=" + found}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = filepath.FromSlash(short(f.path))
		once := new(tally)
		if err := stream(cmd, once); err != nil {
			return inputs, err
		}
		if deadlineOnly(once) {
			once.failed = nil
			once.pass()
		}
		inputs += once.inputs
		if len(once.failed) == 0 && once.inputs == 0 {
			once.skip(short(f.path)+" "+target, "tried no input: other programs kept every CPU busy")
		}
		t.add(once)
		for _, o := range once.failed {
			report(t.stage, o)
		}
	}
	return inputs, nil
}

// execs matches the engine's line of progress.
var execs = regexp.MustCompile(`^fuzz: elapsed: \S+, execs: (\d+)`)

// inputsIn returns the number of tried inputs in a line of output, or 0.
func inputsIn(line string) int {
	m := execs.FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits only
	return n
}

// deadlineOnly reports a race in Go's fuzzing engine, which at the end of -fuzztime may report
// its own deadline as a failure (go.dev/issue/75804, fixed in Go 1.27). A real failure comes with
// its input.
func deadlineOnly(t *tally) bool {
	return len(t.failed) == 1 && strings.Contains(t.failed[0].text, "\n    context deadline exceeded") &&
		!strings.Contains(t.failed[0].text, "Failing input") && !strings.Contains(t.failed[0].text, "panic")
}
