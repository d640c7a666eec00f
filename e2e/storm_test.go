package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestStorm: a program of a random name makes a random system call as fast as
// it can. Within a minute the monitor names both, with the rate; two minutes
// after the end the finding is closed.
func TestStorm(t *testing.T) {
	t.Parallel()
	m := startMonitor(t, "monitor")
	exe := cc(t, "../workloads/storm/storm.c")
	list, err := exec.Command(exe, "--list").Output()
	calls := strings.Fields(string(list))
	if err != nil || len(calls) < 12 {
		t.Fatalf("storm --list: %q, %v", list, err)
	}
	call := calls[rand.IntN(len(calls))]
	name := fmt.Sprintf("storm-%08x", rand.Uint32())
	t.Logf("%s makes %s", name, call)
	const seconds = 75
	began := time.Now()
	storm := start(t, exe, "--syscall", call, "--name", name, "--seconds", fmt.Sprint(seconds))

	var open finding
	eventually(t, time.Minute, "the storm is named", func() error {
		for _, f := range m.findings(t) {
			if f.State == "open" && f.Rule == "syscall_storm" && f.Subject == name {
				open = f
				return nil
			}
		}
		return fmt.Errorf("no open finding of %s", name)
	})
	t.Logf("named after %v: %s", time.Since(began).Round(time.Second), open.Title)
	if !strings.Contains(open.Title, call) || !strings.Contains(open.Title, name) || open.Remedy == "" || len(open.Evidence) < 2 {
		t.Errorf("finding names neither or has no evidence: %+v", open)
	}
	out, stderr, code := run(t, "explain", "--server", m.url)
	if code != 0 || !strings.Contains(out, call) || !strings.Contains(out, name) {
		t.Errorf("explain: exit status %d\n%s%s", code, out, stderr)
	}
	// The last finding text before the end holds the rate of a full window.
	<-storm.done
	for _, f := range m.findings(t) {
		if f.ID == open.ID {
			open = f
		}
	}
	ended := time.Now()
	var own struct {
		Count   float64
		Seconds float64
	}
	if err := json.Unmarshal([]byte(storm.stdout.String()), &own); err != nil || own.Seconds < seconds/2 {
		t.Fatalf("storm printed %q: %v", storm.stdout, err)
	}
	want := own.Count / own.Seconds
	if got := rateOf(open); got < 0.95*want || got > 1.05*want {
		t.Errorf("finding says %.0f/s, the program counted %.0f/s", got, want)
	}
	eventually(t, 2*time.Minute, "the finding closes", func() error {
		for _, f := range m.findings(t) {
			if f.ID == open.ID && f.State == "closed" {
				return nil
			}
		}
		return fmt.Errorf("%s is still open %v after the end", open.ID, time.Since(ended).Round(time.Second))
	})
	t.Logf("closed %v after the end", time.Since(ended).Round(time.Second))
}

// rateOf is the first evidence in calls per second.
func rateOf(f finding) float64 {
	for _, e := range f.Evidence {
		if e.Unit == "1/s" {
			return e.Value
		}
	}
	return 0
}

// TestLoadIsNoStorm: a busy but healthy redis-server raises no storm.
func TestLoadIsNoStorm(t *testing.T) {
	t.Parallel()
	m := startMonitor(t, "monitor")
	_, port := startRedis(t)
	startLoad(t, port)
	time.Sleep(70 * time.Second)
	if r := m.query(t, `sum by (process) (rate(tee_syscalls_total{process="redis-server"}[30s]))`, "process")["redis-server"]; r < 1000 {
		t.Fatalf("redis-server makes only %v system calls a second: no load to judge", r)
	}
	for _, f := range m.findings(t) {
		if f.Rule == "syscall_storm" {
			t.Errorf("storm named under plain load: %s", f.Title)
		}
	}
}
