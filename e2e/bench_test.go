package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/result"
)

// records counts the runs that an unfinished experiment has on disk.
func records(path string) int {
	b, err := os.ReadFile(path + ".partial")
	if err != nil {
		return -1
	}
	return strings.Count(string(b), `{"run":`)
}

// whole checks that a document has every planned run once, in the planned order.
func whole(t *testing.T, path string) *result.Experiment {
	t.Helper()
	e, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []result.Slot
	for i := range e.Runs {
		r := &e.Runs[i]
		got = append(got, result.Slot{Pair: r.Pair, Case: r.Case, Env: r.Env})
		if r.Status != result.OK {
			t.Errorf("run %s: %s, %s", r.ID, r.Status, r.Reason)
		}
		for _, raw := range r.Raw {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), raw.Path)); err != nil {
				t.Errorf("run %s: raw output: %v", r.ID, err)
			}
		}
	}
	if !slices.Equal(got, e.Design.Order) {
		t.Errorf("runs %v, planned %v", got, e.Design.Order)
	}
	return e
}

// turns is a pipe. Each byte allows the experiment of command one run, including the first
// of each arm, which does not count. Without a byte the experiment waits, so it cannot end
// before the test acts.
func turns(t *testing.T) (command string, pipe *os.File) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "turns")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(name, os.O_RDWR, 0) // both ends, so neither blocks
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	return "dd bs=1 count=1 status=none if=" + name, pipe
}

// allow lets an experiment make n more runs.
func allow(t *testing.T, pipe *os.File, runs int) {
	t.Helper()
	if _, err := pipe.WriteString(strings.Repeat(".", runs)); err != nil {
		t.Fatal(err)
	}
}

// TestBenchIsResumed interrupts an experiment with Ctrl-C, resumes it, kills it, and resumes
// it again.
func TestBenchIsResumed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	command, pipe := turns(t)
	allow(t, pipe, 2+3)
	p := start(t, binary, "bench", "run", "custom", "--param", "command="+command, "--env", "native", "--env", "again=native", "--pairs", "8",
		"--no-counters", "--out", path, "--data", dir)
	after := func(n int) func() error {
		return func() error {
			if have := records(path); have < n {
				return fmt.Errorf("%d runs on disk: %s", have, p.stderr)
			}
			return nil
		}
	}
	eventually(t, time.Minute, "some runs are on disk", after(3))
	if code := p.stop(os.Interrupt); code != 4 || !strings.Contains(p.stderr.String(), "--resume") {
		t.Errorf("after Ctrl-C: exit status %d: %s", code, p.stderr)
	}
	kept := records(path)
	if _, errs, code := run(t, "compare", path); code != 4 || !strings.Contains(errs, "not finished") {
		t.Errorf("compare of an unfinished one: exit status %d: %s", code, errs)
	}
	allow(t, pipe, 2+3)
	p = start(t, binary, "bench", "run", "--resume", "--no-counters", "--out", path, "--data", dir)
	eventually(t, time.Minute, "it goes on", after(kept+3))
	p.stop(syscall.SIGKILL)
	if now := records(path); now < kept+3 {
		t.Errorf("%d runs after the kill, %d before", now, kept+3)
	}
	allow(t, pipe, 16)
	if _, errs, code := run(t, "bench", "run", "--resume", "--no-counters", "--out", path, "--data", dir); code != 0 && code != 3 {
		t.Fatalf("resume: exit status %d: %s", code, errs)
	}
	if e := whole(t, path); len(e.Runs) != 16 {
		t.Errorf("%d runs", len(e.Runs))
	}
}

// TestBenchOnAFullDisk: the experiment stops with advice, and continues once there is space.
func TestBenchOnAFullDisk(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path, filler := filepath.Join(dir, "r.json"), filepath.Join(dir, "filler")
	command, pipe := turns(t)
	allow(t, pipe, 1+2)
	p := start(t, binary, "bench", "run", "custom", "--param", "command="+command, "--pairs", "8", "--no-counters", "--out", path, "--data", t.TempDir())
	eventually(t, time.Minute, "some runs are on disk", func() error {
		if n := records(path); n < 2 {
			return fmt.Errorf("%d: %s", n, p.stderr)
		}
		return nil
	})
	fill(t, filler)
	allow(t, pipe, 6)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatalf("it goes on without space: %s", p.stderr)
	}
	if said := p.stderr.String(); p.ProcessState.ExitCode() != 4 || !strings.Contains(said, "no space left") || !strings.Contains(said, "--resume") {
		t.Errorf("exit status %d: %s", p.ProcessState.ExitCode(), said)
	}
	kept := records(path)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	allow(t, pipe, 8)
	if _, errs, code := run(t, "bench", "run", "--resume", "--no-counters", "--out", path, "--data", t.TempDir()); code != 0 {
		t.Fatalf("resume: exit status %d: %s", code, errs)
	}
	if e := whole(t, path); len(e.Runs) != 8 || kept < 2 {
		t.Errorf("%d runs, %d were kept", len(e.Runs), kept)
	}
}

// TestBenchRealTools goes from a run to a report with the tools that users have. It does not
// judge the measured values: the machine is shared.
func TestBenchRealTools(t *testing.T) {
	for _, c := range []struct {
		needs [][2]string // commands and their packages
		args  string
	}{
		{[][2]string{{"fio", "fio"}}, "fio --param rw=randread --param size=16MiB --param runtime=1s --param ramp=0s --param steady=off --env native --env cached=native,direct=0 --quick"},
		{[][2]string{{"7zz", "7zip"}}, "cpu-7zip --param threads=1 --param dictionary=18 --pairs 1"},
		{[][2]string{{"runsc", "gVisor"}}, "startup --param touch=1MiB --env native --env runsc --quick"},
	} {
		name, _, _ := strings.Cut(c.args, " ")
		t.Run(name, func(t *testing.T) {
			for _, n := range c.needs {
				if _, err := exec.LookPath(n[0]); err != nil {
					t.Skipf("%s is not here (%s)", n[0], n[1])
				}
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "r.json")
			args := append([]string{"bench", "run"}, strings.Fields(c.args)...)
			out, errs, code := run(t, append(args, "--out", path, "--data", dir)...)
			if code != 0 && code != 3 {
				t.Fatalf("exit status %d: %s%s", code, out, errs)
			}
			e := whole(t, path)
			for i := range e.Runs {
				r := &e.Runs[i]
				if m := r.Metric(e.Design.Primary); m == nil || m.Value == nil || *m.Value <= 0 {
					t.Errorf("run %s: %s is %+v", r.ID, e.Design.Primary, m)
				}
				if os.Geteuid() == 0 && len(r.Counters) == 0 {
					t.Errorf("run %s: no counters: %v", r.ID, r.Missing)
				}
			}
			html := filepath.Join(dir, "report.html")
			if _, errs, code := run(t, "report", path, "--out", html); code != 0 {
				t.Fatalf("report: exit status %d: %s", code, errs)
			}
			b, err := os.ReadFile(html)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range e.Comparisons {
				if c.Primary && !strings.Contains(string(b), c.Treatment) {
					t.Errorf("the report does not speak of %s", c.Treatment)
				}
			}
			if strings.Contains(string(b), "http://") && strings.Contains(string(b), "src=\"http") {
				t.Error("the report asks another machine for something")
			}
		})
	}
}
