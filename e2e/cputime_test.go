package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// TestCPUTime: for any budget, the CPU time of programs that compute, and of programs that end between two readings, is
// what the kernel accounts to them (getrusage(2)). They, the shell that starts them and the thread that starts that have one
// name: what a reading sees of a program before it has its own counts for its parent's. What a sandbox's kernel shows to no
// program of the monitor, its own tracer says.
func TestCPUTime(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := cc(t, "../workloads/events/events.c")
	suffix := fmt.Sprintf("%06x", rand.Uint32N(1<<24))
	unseen := probetest.EndsOnInit(t, "*"+suffix+"*")
	m := startMonitor(t, "agent", "--budget", "0.1%")
	for _, c := range []struct {
		name string
		runs int
		args []string
	}{
		{"long" + suffix, 1, []string{"getppid", "2000000"}},
		{"short" + suffix, 200, []string{"getppid", "20000"}},
	} {
		program, shell := copied(t, path, c.name), copied(t, "/bin/sh", c.name)
		script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do "$@" || exit 1; i=$((i+1)); done`, c.runs)
		p := exec.Command(shell, append([]string{"-c", script, "sh", program, "--comm", c.name}, c.args...)...)
		runAs(t, c.name, p)
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
			if lost := unseen(c.name).Seconds(); got < own-lost {
				return fmt.Errorf("%.6f s of %s are counted, it used %.6f s, and this kernel shows no program %.6f s of that", got, c.name, own, lost)
			}
			// The kernel's account ends a few microseconds before a program leaves its CPU for good.
			if got > 1.1*own {
				t.Errorf("%.6f s of %s are counted, it used %.6f s", got, c.name, own)
			}
			return nil
		})
	}
}

// runAs runs a program from a thread of that name.
func runAs(t *testing.T, name string, p *exec.Cmd) {
	t.Helper()
	done := make(chan error)
	var out []byte
	var run func()
	run = func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		if unix.Gettid() == os.Getpid() {
			go run() // the name of this one is the process's
			return
		}
		err := os.WriteFile("/proc/thread-self/comm", []byte(name), 0)
		if err == nil {
			out, err = p.CombinedOutput()
		}
		done <- err
	}
	go run()
	if err := <-done; err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
