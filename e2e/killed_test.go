package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestKilledHarness kills a harness in the middle of a job, whose temporary folder has a path longer than a socket's can be.
// Its processes and folders are gone at the latest when the next environment has been opened.
func TestKilledHarness(t *testing.T) {
	if name := os.Getenv("E2E_HARNESS"); name != "" {
		env := openEnv(t, name, bench.Params{"data": os.Getenv("E2E_DATA")})
		_, _ = env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", ": >{data}/started; exec sleep 1200"}, Env: map[string]string{"MARK": "{data}"}}})
		return
	}
	for _, name := range []string{"native", "container", "runsc"} {
		t.Run(name, func(t *testing.T) {
			l, p := launcher(t, name, nil)
			if err := l.Check(host.Local(), p); err != nil {
				t.Skip(err)
			}
			temp := filepath.Join(t.TempDir(), strings.Repeat("x", host.MostSocketPath)) // of the killed process too
			if err := os.Mkdir(temp, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", temp)
			data := t.TempDir()
			harness := exec.Command(os.Args[0], "-test.run=^TestKilledHarness$")
			harness.Env = append(os.Environ(), "E2E_HARNESS="+name, "E2E_DATA="+data)
			killed := await.Start(t, harness)
			work := ""
			await.Event(t, "the job runs", func() error {
				own, _ := filepath.Glob(data + "/teescope-*")
				if len(own) != 1 {
					return fmt.Errorf("in the data folder are %v", own)
				}
				work = filepath.Base(own[0])
				return jobRuns(name, work, filepath.Join(own[0], "started"))
			})
			killed.Stop(syscall.SIGKILL)
			openEnv(t, name, nil)
			gone(t, name, work)
			for _, folder := range []string{temp, "/tmp", "/run", os.Getenv("XDG_RUNTIME_DIR")} { // those of short paths too
				if left, _ := filepath.Glob(filepath.Join(folder, work)); work == "" || len(left) > 0 {
					t.Errorf("%q: left are %v", work, left)
				}
			}
			if left, _ := os.ReadDir(data); len(left) > 0 {
				t.Errorf("left in the data folder are %v", left)
			}
		})
	}
}
