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
	"time"
)

// TestStorm: a program of a random name makes a random system call at a random
// high rate. Within a minute the monitor names both, with the rate; two minutes
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
	// A rate that one core keeps up with, so that every window holds the same.
	rate := 100_000 + rand.IntN(60_000)
	t.Logf("%s makes %s, %d a second", name, call, rate)
	rule := "syscall_storm"
	if slices.Contains([]string{"clock_gettime", "gettimeofday", "time", "getcpu", "clock_getres"}, call) {
		rule = "vdso_bypass" // which names what the vDSO would answer
	}
	const seconds = 75
	began := time.Now()
	c := exec.Command(exe, "--syscall", call, "--name", name, "--seconds", fmt.Sprint(seconds), "--rate", fmt.Sprint(rate))
	// A session of its own has its share of a CPU, whatever runs beside it, and its
	// rate stays the same (sched(7), autogroups).
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	storm := startCmd(t, c)

	var open finding
	eventually(t, time.Minute, "the storm is named", func() error {
		for _, f := range m.findings(t) {
			if f.State == "open" && f.Rule == rule && f.Subject == name {
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

// TestLoadIsNoStorm: servers that are busy but healthy, and the programs that
// load them, raise no storm.
func TestLoadIsNoStorm(t *testing.T) {
	m := startMonitor(t, "monitor")
	_, port := startRedis(t)
	startLoad(t, port)
	startWrk(t, startNginx(t))
	time.Sleep(70 * time.Second)
	for _, p := range []string{"redis-server", "nginx"} {
		if r := m.query(t, `sum by (process) (rate(tee_syscalls_total{process="`+p+`"}[30s]))`, "process")[p]; r < 1000 {
			t.Fatalf("%s makes only %v system calls a second: no load to judge", p, r)
		}
	}
	for _, f := range m.findings(t) {
		if (f.Rule == "syscall_storm" || f.Rule == "vdso_bypass") && slices.Contains([]string{"redis-server", "redis-benchmark", "nginx", "wrk"}, f.Subject) {
			t.Errorf("storm named under plain load: %s", f.Title)
		}
	}
}
