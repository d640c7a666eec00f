package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestKilledHarness kills a harness in the middle of a job. Its processes and folders are gone at the latest when the
// next environment has been opened.
func TestKilledHarness(t *testing.T) {
	if name := os.Getenv("E2E_HARNESS"); name != "" {
		env := openEnv(t, name, bench.Params{"data": os.Getenv("E2E_DATA")})
		_, _ = env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"sleep", "60"}}})
		return
	}
	for _, name := range []string{"native", "container", "runsc"} {
		t.Run(name, func(t *testing.T) {
			l, p := launcher(t, name, nil)
			if err := l.Check(host.Local(), p); err != nil {
				t.Skip(err)
			}
			temp, err := os.MkdirTemp("", "e2e") // of the killed process too; podman wants short paths
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(temp) })
			t.Setenv("TMPDIR", temp)
			data := t.TempDir()
			harness := exec.Command(os.Args[0], "-test.run=^TestKilledHarness$")
			harness.Env = append(os.Environ(), "E2E_HARNESS="+name, "E2E_DATA="+data)
			if err := harness.Start(); err != nil {
				t.Fatal(err)
			}
			work := ""
			for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
				if own, _ := filepath.Glob(data + "/teescope-*"); len(own) == 1 {
					work = filepath.Base(own[0])
				}
				if work != "" && (name == "runsc" && starts(work, "sleep", "60") || running("sleep", "60")) {
					break
				}
			}
			time.Sleep(time.Second) // gVisor does not show its job to the host
			if err := harness.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = harness.Wait()
			openEnv(t, name, nil)
			for began := time.Now(); len(marked(work)) > 0 && time.Since(began) < 20*time.Second; {
				time.Sleep(20 * time.Millisecond)
			}
			for _, pid := range marked(work) {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d still runs: %q", pid, line)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), work)); work == "" || len(left) > 0 {
				t.Errorf("%q: left are %v", work, left)
			}
			if left, _ := os.ReadDir(data); len(left) > 0 {
				t.Errorf("left in the data folder are %v", left)
			}
		})
	}
}

// starts reports whether a program that names the folder has this command as its last arguments.
func starts(work string, argv ...string) bool {
	for _, pid := range marked(work) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasSuffix(string(line), "\x00"+strings.Join(argv, "\x00")+"\x00") {
			return true
		}
	}
	return false
}

// running reports whether a process has exactly this command line.
func running(argv ...string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if b, _ := os.ReadFile(name); string(b) == strings.Join(argv, "\x00")+"\x00" {
			return true
		}
	}
	return false
}
