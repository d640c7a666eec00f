package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestCPUTime: for any budget, the CPU time of programs that compute, and of programs that end between two readings, is
// what the kernel accounts to them (getrusage(2)). They, and the shell that starts them, are files of their name: what a
// reading sees of a program before it has its name counts for the earlier one. Of the shell, which has another name until it
// runs, that much may be missing.
func TestCPUTime(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := cc(t, "../workloads/events/events.c")
	m := startMonitor(t, "agent", "--budget", "0.1%")
	suffix := fmt.Sprintf("%06x", rand.Uint32N(1<<24))
	for _, c := range []struct {
		name string
		runs int
		args []string
	}{
		{"long" + suffix, 1, []string{"getppid", "2000000"}},
		{"short" + suffix, 200, []string{"cpu", "2"}},
	} {
		program, shell := copied(t, path, c.name), copied(t, "/bin/sh", c.name)
		script := fmt.Sprintf(`echo ready; read go; i=0; while [ $i -lt %d ]; do "$@" || exit 1; i=$((i+1)); done`, c.runs)
		p := exec.Command(shell, append([]string{"-c", script, "sh", program, "--comm", c.name}, c.args...)...)
		first := waiting(t, p)
		if err := p.Wait(); err != nil {
			t.Fatalf("%v: %s", err, p.Stdout)
		}
		u := p.ProcessState.SysUsage().(*syscall.Rusage) // and that of the programs
		own := float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		metric := fmt.Sprintf("tee_process_cpu_seconds_total{process=%q", c.name)
		await.Event(t, "its time is counted", func() error {
			got := 0.0
			for name, v := range seriesOf(t, m) {
				if strings.HasPrefix(name, metric) {
					got += v
				}
			}
			if got < own-first {
				return fmt.Errorf("%.6f s of %s are counted, it used %.6f s, %.6f s of them before it waited", got, c.name, own, first)
			}
			// The kernel's account ends a few microseconds before a program leaves its CPU for good.
			if got > 1.1*own {
				t.Errorf("%.6f s of %s are counted, it used %.6f s", got, c.name, own)
			}
			return nil
		})
	}
}

// waiting starts a program that says that it is ready and waits for a line, tells it to go on, and returns the CPU time in
// seconds until it waited (Documentation/scheduler/sched-stats.rst).
func waiting(t *testing.T, p *exec.Cmd) (used float64) {
	t.Helper()
	said := &output{}
	p.Stdout, p.Stderr = said, said
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	proc := func(file string) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Process.Pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	await.Event(t, p.Path+" waits", func() error {
		// The scheduler has brought the time of a thread up to now once this file says where it waits.
		if !strings.Contains(said.String(), "ready") || strings.HasPrefix(proc("syscall"), "running") {
			return fmt.Errorf("it goes on; it printed %s", said)
		}
		return nil
	})
	ns, err := strconv.ParseFloat(strings.Fields(proc("schedstat"))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	return ns / 1e9
}

// copied is a copy of a program in a file of that name.
func copied(t *testing.T, program, name string) string {
	t.Helper()
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}
