package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// cheapSources read files of /proc and /sys. They go on with the fewest descriptors.
var cheapSources = []string{"cpu", "memory", "disk", "network", "filesystem", "system"}

// misread are reasons that a shortage of descriptors is easily taken for.
var misread = regexp.MustCompile(`requires >=|not supported|verifier|kernel's version|CAP_BPF|type information`)

// TestFewDescriptors: with too few file descriptors the cheap sources are read, /metrics answers, and the others say what
// they lack.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	needRoot(t)
	limited := func(n int, args string) *await.Program {
		return await.Start(t, exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d && exec %s %s", n, binary, args)))
	}
	diagnosed := func(n int) []source {
		t.Helper()
		d := limited(n, "doctor --json")
		d.ExitStatus(t)
		var found struct{ Sources []source }
		if err := json.Unmarshal([]byte(d.Out.String()), &found); err != nil || d.ProcessState.ExitCode() != 0 {
			t.Fatalf("%d descriptors: doctor: exit status %d, %v: %s", n, d.ProcessState.ExitCode(), err, d.Err)
		}
		return found.Sources
	}
	cheap := slices.Clone(cheapSources)
	for _, s := range diagnosed(1024) { // a mount of the machine that this root does not see is a lack of another kind
		if i := slices.Index(cheap, s.Name); i >= 0 && s.State != "available" {
			t.Logf("%s is %s without a shortage: %s", s.Name, s.State, s.Reason)
			cheap = slices.Delete(cheap, i, i+1)
		}
	}
	check := func(t *testing.T, n int, list []source) {
		t.Helper()
		short := 0
		for _, s := range list {
			if s.State != "unavailable" && s.State != "degraded" || !strings.Contains(s.Reason, "too many open files") {
				continue
			}
			short++
			if misread.MatchString(s.Reason) || !strings.Contains(s.Remedy, "ulimit -n") {
				t.Errorf("%d descriptors: %s is %s: %s; %s", n, s.Name, s.State, s.Reason, s.Remedy)
			}
		}
		if short == 0 && n < 100 {
			t.Errorf("%d descriptors are enough for all sources", n)
		}
		for _, name := range cheap {
			for _, s := range list {
				if s.Name == name && s.State != "available" {
					t.Errorf("%d descriptors: %s is %s: %s", n, s.Name, s.State, s.Reason)
				}
			}
		}
	}
	for _, n := range []int{20, 40, 80, 200} {
		check(t, n, diagnosed(n))

		m := &monitor{Program: limited(n, "agent --listen 127.0.0.1:0")}
		m.opened(t)
		await.Event(t, fmt.Sprintf("/metrics with %d descriptors", n), func() error {
			text, err := fetch(m.url + "/metrics")
			if err != nil {
				return err
			}
			for _, name := range cheap {
				if !strings.Contains(text, fmt.Sprintf("teescope_source_up{source=%q} 1", name)) {
					return fmt.Errorf("%s is not up", name)
				}
			}
			return nil
		})
		var list []source
		text, err := fetch(m.url + "/api/teescope/v1/sources")
		if err == nil {
			err = json.Unmarshal([]byte(text), &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		check(t, n, list)
		if code := m.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("%d descriptors: the agent ends with %d", n, code)
		}
	}
}
