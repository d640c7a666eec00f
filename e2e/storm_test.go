package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// answered are the calls that the vDSO may answer (vdso(7)).
var answered = []string{"clock_gettime", "gettimeofday", "time", "getcpu", "clock_getres"}

// TestStorm: a program with a random name makes a random system call as fast as it can. The monitor names both, counts
// every call, and closes the finding after the end.
func TestStorm(t *testing.T) {
	t.Parallel()
	m := startMonitor(t, "monitor", "--interval", "1s", "--config", configFile(t, "analysis: {every: 1s, long: 20s, short: 10s, close_after: 5s}\n"))
	exe := cc(t, "../workloads/storm/storm.c")
	list, err := exec.Command(exe, "--list").Output()
	calls := strings.Fields(string(list))
	if err != nil || len(calls) < 12 {
		t.Fatalf("storm --list: %q, %v", list, err)
	}
	call := calls[rand.IntN(len(calls))]
	name := fmt.Sprintf("storm-%08x", rand.Uint32())
	rule := "syscall_storm"
	if slices.Contains(answered, call) {
		rule = "vdso_bypass"
	}
	c := exec.Command(exe, "--syscall", call, "--name", name)
	// A separate session keeps its share of a CPU whatever else runs (sched(7), autogroups).
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	storm := await.Start(t, c)

	var open finding
	await.Event(t, "the storm is named", func() error {
		for _, f := range m.findings(t) {
			if f.State == "open" && f.Rule == rule && f.Subject == name {
				open = f
				return nil
			}
		}
		return fmt.Errorf("no open finding of %s", name)
	})
	if !strings.Contains(open.Title, call) || !strings.Contains(open.Title, name) || open.Remedy == "" || len(open.Evidence) < 2 {
		t.Errorf("finding names neither or has no evidence: %+v", open)
	}
	out, stderr, code := run(t, "explain", "--server", m.url)
	if code != 0 || !strings.Contains(out, call) || !strings.Contains(out, name) {
		t.Errorf("explain: exit status %d\n%s%s", code, out, stderr)
	}
	var own struct{ Count float64 }
	if code := storm.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the storm ended with status %d", code)
	}
	if err := json.Unmarshal([]byte(storm.Out.String()), &own); err != nil || own.Count == 0 {
		t.Fatalf("the storm printed %q: %v", storm.Out, err)
	}
	// The program reads its clock too, and where the vDSO does not answer that, it enters the kernel.
	await.Event(t, "all its calls are counted", func() error {
		got := m.query(t, fmt.Sprintf("tee_syscalls_total{process=%q,syscall=%q}", name, call), "process")[name]
		missed := m.query(t, `teescope_source_missed_events_total{source="syscalls"}`, "source")["syscalls"]
		if got > own.Count && !slices.Contains(answered, call) {
			t.Fatalf("counted are %.0f calls of %s, it made %.0f", got, call, own.Count)
		}
		if got < own.Count-missed {
			return fmt.Errorf("counted are %.0f calls of %s, it made %.0f, and %.0f of all were missed", got, call, own.Count, missed)
		}
		return nil
	})
	await.Event(t, "the finding closes", func() error {
		for _, f := range m.findings(t) {
			if f.ID == open.ID && f.State == "closed" {
				return nil
			}
		}
		return fmt.Errorf("%s is still open", open.ID)
	})
}
