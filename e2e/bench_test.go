package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
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

func valueOf(m *result.Metric) any {
	switch {
	case m == nil:
		return "not declared"
	case m.Value == nil:
		return "missing: " + m.Reason
	}
	return *m.Value
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
				return fmt.Errorf("%d runs on disk: %s", have, p.Err)
			}
			return nil
		}
	}
	await.Event(t, "some runs are on disk", after(3))
	if code := p.Stop(syscall.SIGINT); code != 4 || !strings.Contains(p.Err.String(), "--resume") {
		t.Errorf("after Ctrl-C: exit status %d: %s", code, p.Err)
	}
	kept := records(path)
	if _, errs, code := run(t, "compare", path); code != 4 || !strings.Contains(errs, "not finished") {
		t.Errorf("compare of an unfinished one: exit status %d: %s", code, errs)
	}
	allow(t, pipe, 2+3)
	p = start(t, binary, "bench", "run", "--resume", "--no-counters", "--out", path, "--data", dir)
	await.Event(t, "it goes on", after(kept+3))
	p.Stop(syscall.SIGKILL)
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
	await.Event(t, "some runs are on disk", func() error {
		if n := records(path); n < 2 {
			return fmt.Errorf("%d: %s", n, p.Err)
		}
		return nil
	})
	fill(t, filler)
	allow(t, pipe, 6)
	p.ExitStatus(t)
	if said := p.Err.String(); p.ProcessState.ExitCode() != 4 || !strings.Contains(said, "no space left") || !strings.Contains(said, "--resume") {
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
