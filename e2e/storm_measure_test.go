//go:build measure

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
)

// TestStormRate: if a program with a random name makes a random system call at a random high rate, the monitor names both, with the
// rate, within a minute, and closes the finding at most two minutes after the end.
func TestStormRate(t *testing.T) {
	m := startMonitor(t, "monitor")
	exe := cc(t, "../workloads/storm/storm.c")
	list, err := exec.Command(exe, "--list").Output()
	calls := strings.Fields(string(list))
	if err != nil || len(calls) < 12 {
		t.Fatalf("storm --list: %q, %v", list, err)
	}
	call := calls[rand.IntN(len(calls))]
	name := fmt.Sprintf("storm-%08x", rand.Uint32())
	// One core can sustain this rate, so every window has the same.
	rate := 100_000 + rand.IntN(60_000)
	t.Logf("%s makes %s, %d a second", name, call, rate)
	rule := "syscall_storm"
	if slices.Contains([]string{"clock_gettime", "gettimeofday", "time", "getcpu", "clock_getres"}, call) {
		rule = "vdso_bypass" // the vDSO would answer this call
	}
	const seconds = 75
	began := time.Now()
	c := exec.Command(exe, "--syscall", call, "--name", name, "--seconds", fmt.Sprint(seconds), "--rate", fmt.Sprint(rate), "--every", "0.1")
	// A separate session keeps its share of a CPU whatever else runs, so the rate is constant
	// (sched(7), autogroups).
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	storm := await.Start(t, c).MayEnd()

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
	t.Logf("named after %v: %s", time.Since(began).Round(time.Second), open.Title)
	if !strings.Contains(open.Title, call) || !strings.Contains(open.Title, name) || open.Remedy == "" || len(open.Evidence) < 2 {
		t.Errorf("finding names neither or has no evidence: %+v", open)
	}
	out, stderr, code := run(t, "explain", "--server", m.url)
	if code != 0 || !strings.Contains(out, call) || !strings.Contains(out, name) {
		t.Errorf("explain: exit status %d\n%s%s", code, out, stderr)
	}
	// The finding's last text before the end has the rate of a full window.
	storm.ExitStatus(t)
	for _, f := range m.findings(t) {
		if f.ID == open.ID {
			open = f
		}
	}
	ended := time.Now()
	text := strings.TrimSpace(storm.Out.String())
	var own struct {
		Seconds float64
	}
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &own); err != nil || own.Seconds < seconds/2 {
		t.Fatalf("storm ended with %.200q: %v", text[max(0, len(text)-200):], err)
	}
	// The program's rate varies when others take its CPU.
	got, _ := rateOf(open)
	want := m.rateOfOwn(t, open, text)
	t.Logf("finding says %.0f/s, the program counted %.0f/s", got, want)
	if !(got >= 0.95*want && got <= 1.05*want) {
		t.Errorf("finding says %.0f/s, the program counted %.0f/s", got, want)
	}
	await.Event(t, "the finding closes", func() error {
		for _, f := range m.findings(t) {
			if f.ID == open.ID && f.State == "closed" {
				return nil
			}
		}
		return fmt.Errorf("%s is still open %v after the end", open.ID, time.Since(ended).Round(time.Second))
	})
	t.Logf("closed %v after the end", time.Since(ended).Round(time.Second))
}

// rateOf returns the first evidence in calls per second, with its query.
func rateOf(f finding) (rate float64, expr string) {
	for _, e := range f.Evidence {
		if e.Unit == "1/s" {
			return e.Value, e.Expr
		}
	}
	return 0, ""
}

var stormRate = regexp.MustCompile(`^sum\(rate\((.*)\[(\w+)\] offset (\w+)\)\)$`)

// rateOfOwn evaluates the query of a finding's rate on the program's own counts, at the moments
// at which the monitor read its counts in that window.
func (m *monitor) rateOfOwn(t *testing.T, f finding, told string) float64 {
	t.Helper()
	_, expr := rateOf(f)
	e := stormRate.FindStringSubmatch(expr)
	if e == nil {
		t.Fatalf("the rate is from %q", expr)
	}
	window, err := time.ParseDuration(e[2])
	offset, err2 := time.ParseDuration(e[3])
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	now := float64(f.LastSeen.UnixMilli()) / 1000
	to := now - offset.Seconds()
	from := to - window.Seconds()
	at := m.readings(t, fmt.Sprintf("%s[%s] offset %s", e[1], e[2], e[3]), now)
	if len(at) < 2 {
		t.Fatalf("%d readings for %s", len(at), expr)
	}
	var times, counts []float64
	for line := range strings.Lines(told) {
		var at, count float64
		if n, _ := fmt.Sscan(line, &at, &count); n == 2 {
			times, counts = append(times, at), append(counts, count)
		}
	}
	first, last := at[0], at[len(at)-1]
	if first < times[0] || last > times[len(times)-1] {
		t.Fatalf("readings from %f to %f, the program made calls from %f to %f", first, last, times[0], times[len(times)-1])
	}
	own := func(at float64) float64 { // interpolated between two of its lines
		i := max(1, sort.SearchFloat64s(times, at))
		return counts[i-1] + (counts[i]-counts[i-1])*(at-times[i-1])/(times[i]-times[i-1])
	}
	grown, sampled := own(last)-own(first), last-first
	// PromQL extrapolates to the ends of the window, or half way to a missing reading.
	between := sampled / float64(len(at)-1)
	whole := sampled
	for _, gap := range []float64{first - from, to - last} {
		if gap >= 1.1*between {
			gap = between / 2
		}
		whole += gap
	}
	return grown / sampled * whole / window.Seconds()
}

// readings returns the times of the samples that a range selector returns for one series.
func (m *monitor) readings(t *testing.T, selector string, now float64) (at []float64) {
	t.Helper()
	body, err := fetch(m.url + "/api/v1/query?" + url.Values{"query": {selector}, "time": {fmt.Sprintf("%.3f", now)}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Data struct {
			Result []struct{ Values [][2]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Data.Result) != 1 {
		t.Fatalf("%v, want one series in %s", err, body)
	}
	for _, v := range a.Data.Result[0].Values {
		at = append(at, v[0].(float64))
	}
	return at
}

// startLoad runs redis-benchmark against port until the test ends.
func startLoad(t *testing.T, port int) *await.Program {
	t.Helper()
	return start(t, tool(t, "redis-benchmark", "redis-tools"), "-p", strconv.Itoa(port), "-t", "set,get", "-c", "16", "-n", "100000000", "-q")
}

// startNginx runs nginx with one worker that serves one small page, and returns
// its port.
func startNginx(t *testing.T) int {
	t.Helper()
	exe := tool(t, "nginx", "nginx-light")
	dir, port := t.TempDir(), freePort(t)
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen 127.0.0.1:%[2]d; location / { return 200 "ok"; } }
}`, dir, port)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, exe, "-c", file, "-p", dir, "-e", "stderr")
	waitPort(t, port)
	return port
}

// startWrk loads an HTTP server for at most ten minutes.
func startWrk(t *testing.T, port int) *await.Program {
	t.Helper()
	return start(t, tool(t, "wrk", "wrk"), "-t1", "-c8", "-d600s", fmt.Sprintf("http://127.0.0.1:%d/", port)).MayEnd()
}

// TestLoadIsNoStorm: busy but healthy servers and the programs that load them raise no storm.
func TestLoadIsNoStorm(t *testing.T) {
	m := startMonitor(t, "monitor", "--interval", "1s", "--config", configFile(t, "analysis: {every: 1s, long: 20s, short: 10s}\n"))
	_, port := startRedis(t)
	startLoad(t, port)
	startWrk(t, startNginx(t))
	time.Sleep(35 * time.Second) // more than the long window
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
