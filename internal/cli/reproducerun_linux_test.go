//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
)

// TestReproduceJobs: each experiment of each source runs as jobs with one result each.
func TestReproduceJobs(t *testing.T) {
	all, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	f := reproduceRun{folder: "folder"}
	outs := map[string]bool{}
	for _, s := range all {
		names, err := f.experiments(Env{}, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			jobs, err := f.jobs(name)
			if err != nil || len(jobs) == 0 {
				t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
			}
			for _, j := range jobs {
				p, _, err := f.plan(j)
				if err != nil {
					t.Errorf("%s: %v", j.out, err)
					continue
				}
				outs[j.out] = true
				if least, _ := p.Estimate(); longest(p) < least {
					t.Errorf("%s takes at most %s, and at least %s", j.out, longest(p), least)
				}
			}
		}
	}
	if !outs["folder/e3-direct.json"] {
		t.Errorf("the results are %v", outs)
	}
}

// TestResultState: an experiment with passes is finished with the last of them, and the name of another is not a part of it.
func TestResultState(t *testing.T) {
	e, err := experiment("e7-latency")
	if err != nil {
		t.Fatal(err)
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e}, lists())
	if err != nil {
		t.Fatal(err)
	}
	p, folder := plans[0], t.TempDir()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files           []string
		finished, begun bool
	}{
		{nil, false, false},
		{[]string{"e7-latency-more.json", "e7-latency-more.json.partial"}, false, false},
		{[]string{"e7-latency.json"}, false, true},
		{[]string{"e7-latency-equal-load.json", "e7-latency-saturation.json.partial"}, false, true},
		{[]string{"e7-latency-saturation.json"}, false, true},
	} {
		for _, name := range c.files {
			write(name)
		}
		if finished, begun := resultState(filepath.Join(folder, "e7-latency.json"), p); finished != c.finished || begun != c.begun {
			t.Errorf("with %v: finished %v, begun %v", c.files, finished, begun)
		}
	}
	if err := os.Remove(filepath.Join(folder, "e7-latency-saturation.json.partial")); err != nil {
		t.Fatal(err)
	}
	if finished, _ := resultState(filepath.Join(folder, "e7-latency.json"), p); !finished {
		t.Error("with all results it is not finished")
	}
}

// TestReproduceRun: what is refused, and what a dry run says of a result and of a table without experiments.
func TestReproduceRun(t *testing.T) {
	folder := t.TempDir()
	b, err := os.ReadFile("../../experiments/results/e5-original-echo.json.gz")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "e5-original-echo.json"), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"channel", "--within", "0s"}, "want a time above 0"},
		{[]string{"channel", "--within", "-1h"}, "want a time above 0"},
		{[]string{"channel", "--only", "platforms", "--dry-run"}, "platforms: nothing to run: no experiment asks it"},
		{[]string{"channel", "--only", "nothing", "--dry-run"}, "has no table of this id"},
		{[]string{"channel", "--only", "echo-4k", "--dry-run"}, "e5-original-echo: has a result\n"},
		{[]string{"channel", "--only", "echo-4k", "--dry-run", "--env", "native", "--env", "other=native"}, "e5-original-echo: has a result without other: name another folder"},
	} {
		t.Run(c.want, func(t *testing.T) {
			out, errs, _ := run(t, append([]string{"reproduce", "run", "--results", folder}, c.args...)...)
			if !strings.Contains(out+errs, c.want) {
				t.Errorf("%v: no %q in\n%s%s", c.args, c.want, out, errs)
			}
		})
	}
}
