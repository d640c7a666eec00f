package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// TestBadInput: each mistake gives one clear line on stderr and exit status 4.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	blocked := file("a-file", "")
	monitor := func(args ...string) []string {
		return append([]string{"monitor", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")}, args...)
	}
	for name, c := range map[string]struct {
		args []string
		want []string // parts of the line
	}{
		"unknown command":         {[]string{"moniter"}, []string{`unknown command "moniter"`, "--help"}},
		"unknown flag":            {[]string{"monitor", "--lisen", "x"}, []string{"unknown flag: --lisen", "teescope monitor --help"}},
		"bad process filter":      {monitor("--process", "redis("), []string{"--process", "missing closing )"}},
		"bad budget":              {monitor("--budget", "lots"), []string{"--budget", `"lots"`, "1%"}},
		"bad retention":           {monitor("--retention", "-3d"), []string{"--retention", "15d"}},
		"bad interval":            {monitor("--interval", "1ms"), []string{"--interval", "100ms"}},
		"bad listen address":      {[]string{"monitor", "--listen", "nonsense"}, []string{"listen on nonsense", "HOST:PORT"}},
		"exposed":                 {[]string{"monitor", "--listen", "0.0.0.0:0", "--data", filepath.Join(dir, "d3")}, []string{"--listen 0.0.0.0:0: other machines reach this address", "--web-config=FILE", "--insecure"}},
		"agent exposed":           {[]string{"agent", "--listen", ":0"}, []string{"other machines reach this address", "basic_auth_users", "--insecure"}},
		"port taken":              {[]string{"monitor", "--listen", busy.Addr().String(), "--data", filepath.Join(dir, "d2")}, []string{"port is in use", "--listen"}},
		"agent port taken":        {[]string{"agent", "--listen", busy.Addr().String()}, []string{"port is in use", "--listen"}},
		"config missing":          {monitor("--config", filepath.Join(dir, "none.yaml")), []string{"none.yaml", "no such file"}},
		"config not YAML":         {monitor("--config", file("a.yaml", "analysis:\n  every: [1\n")), []string{"a.yaml", "line"}},
		"config unknown key":      {monitor("--config", file("b.yaml", "analysis:\n  evry: 15s\n")), []string{"b.yaml", "line 2", "evry"}},
		"config bad duration":     {monitor("--config", file("c.yaml", "analysis:\n  every: soon\n")), []string{"c.yaml", "line 2", "soon"}},
		"config unknown source":   {monitor("--config", file("d.yaml", "sources:\n  sycalls: {on: false}\n")), []string{"d.yaml", "line 2", "sycalls"}},
		"config bad source regex": {monitor("--config", file("e.yaml", "sources:\n  syscalls:\n    process: 'a['\n")), []string{"e.yaml", "line 3", "process"}},
		"config unknown rule":     {monitor("--config", file("f.yaml", "analysis:\n  rules:\n    strom: {long: 10m}\n")), []string{"f.yaml", "line 3", "strom"}},
		"config wrong unit":       {monitor("--config", file("h.yaml", "analysis:\n  rules:\n    syscall_storm:\n      thresholds: {rate: 20 %}\n")), []string{"h.yaml", "line 4", "thresholds.rate", "20k/s"}},
		"scrape unknown key":      {monitor("--config", file("g.yaml", "sources: {}\nscrape_configs:\n  - job_name: a\n    statik_configs: []\n")), []string{"g.yaml", "line 4", "statik_configs"}},
		"web config missing":      {monitor("--web-config", filepath.Join(dir, "web.yaml")), []string{"web.yaml", "no such file"}},
		"host root is no host":    {monitor("--host-root", dir), []string{"/proc/stat", dir}},
		"data is a file":          {[]string{"monitor", "--listen", "127.0.0.1:0", "--data", blocked}, []string{blocked}},
		"explain without monitor": {[]string{"explain", "--server", "http://" + freeAddr(t)}, []string{"connection refused", "teescope monitor"}},
		"explain bad URL":         {[]string{"explain", "--server", "::"}, []string{"--server"}},
		"explain bad regex":       {[]string{"explain", "--process", "("}, []string{"--process"}},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := run(t, c.args...)
			if code != 4 {
				t.Errorf("exit status %d, want 4", code)
			}
			if stdout != "" {
				t.Errorf("stdout is not empty: %q", stdout)
			}
			if n := strings.Count(stderr, "\n"); n != 1 {
				t.Errorf("stderr has %d lines, want 1:\n%s", n, stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("stderr %q lacks %q", stderr, w)
				}
			}
		})
	}
}

func freeAddr(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }

// TestDataLocked: two monitors on one folder would ruin it; the second refuses.
func TestDataLocked(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	startMonitor(t, "monitor", "--data", data)
	_, stderr, code := run(t, "monitor", "--data", data, "--listen", "127.0.0.1:0")
	if code != 4 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, data) || !strings.Contains(stderr, "in use by another process") {
		t.Errorf("exit status %d, stderr:\n%s", code, stderr)
	}
}

// TestDataNotWritable runs as nobody on a folder that belongs to root.
func TestDataNotWritable(t *testing.T) {
	t.Parallel()
	needRoot(t)
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(asNobody(t), "monitor", "--listen", "127.0.0.1:0", "--data", filepath.Join(data, "store"))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := await.Start(t, c)
	p.ExitStatus(t)
	if code := p.ProcessState.ExitCode(); code != 4 || !strings.Contains(p.Err.String(), "permission denied") {
		t.Errorf("exit status %d, stderr:\n%s", code, p.Err)
	}
}

// asNobody copies the binary to a place where every user can run it.
func asNobody(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "teescope-nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "teescope")
	if err := host.Local().Install(p, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNoRoot: without root the monitor reads what it may, and says what is missing and what
// would help.
func TestNoRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	exe := asNobody(t)
	as := func(args ...string) *await.Program {
		c := exec.Command(exe, args...)
		c.Env = []string{"HOME=/nonexistent"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return await.Start(t, c)
	}
	d := as("doctor")
	d.ExitStatus(t)
	if d.ProcessState.ExitCode() != 0 {
		t.Errorf("doctor: exit status %d: %s", d.ProcessState.ExitCode(), d.Err)
	}
	for _, w := range []string{"syscalls", "unavailable", "CAP_BPF", "not root"} {
		if !strings.Contains(d.Out.String(), w) {
			t.Errorf("doctor without root lacks %q:\n%s", w, d.Out)
		}
	}
	m := &monitor{Program: as("monitor", "--listen", "127.0.0.1:0", "--data", filepath.Join(filepath.Dir(exe), "data"))}
	m.opened(t)
	up := m.states(t)
	if v, ok := up["syscalls"]; !ok || v != 0 {
		t.Errorf("teescope_source_up of syscalls is %v, want 0", up)
	}
	if up["cpu"] != 1 {
		t.Errorf("teescope_source_up of cpu is %v, want 1", up)
	}
	if n := m.query(t, "count(tee_syscalls_total) or vector(0)", ""); n[""] != 0 {
		t.Errorf("tee_syscalls_total has %v series without its source", n)
	}
}

// TestStops: SIGTERM ends the monitor cleanly, and kill -9 loses at most one interval.
func TestStops(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	stored := func(m *monitor, want float64) {
		t.Helper()
		await.Event(t, "samples are stored", func() error {
			if n := m.query(t, "count_over_time(node_load1[10m])", "job")["teescope"]; n < want {
				return fmt.Errorf("%v, want %v", n, want)
			}
			return nil
		})
	}
	m := startMonitor(t, "monitor", "--data", data, "--interval", "1s")
	stored(m, 4)
	if code := m.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit status %d: %s", code, m.Err)
	}
	m = startMonitor(t, "monitor", "--data", data, "--interval", "1s")
	stored(m, 8)
	// The last sample before the kill. On a busy machine a reading may be late.
	had := m.query(t, "timestamp(node_load1)", "job")["teescope"]
	at := float64(time.Now().UnixMilli()) / 1000
	m.Stop(syscall.SIGKILL)
	m = startMonitor(t, "monitor", "--data", data, "--interval", "1s")
	last := m.query(t, fmt.Sprintf("timestamp(node_load1 @ %.3f)", at), "job")["teescope"]
	if lost := had - last; lost > 0 {
		t.Errorf("kill -9 lost %.1f s of what could be read before", lost)
	}
	// The samples of both earlier runs are there.
	if n := m.query(t, fmt.Sprintf("count_over_time(node_load1[10m] @ %.3f)", at), "job")["teescope"]; n < 8 {
		t.Errorf("%v samples of the earlier runs, want 8 or more", n)
	}
}

// TestNoBTF hides the kernel's type information. Sources that count in the kernel say so and
// what would help; the others work.
func TestNoBTF(t *testing.T) {
	t.Parallel()
	needRoot(t)
	unshare := tool(t, "unshare", "util-linux")
	empty := t.TempDir()
	script := func(command string) *exec.Cmd {
		return exec.Command(unshare, "-m", "sh", "-c", "mount --bind "+empty+" /sys/kernel/btf && exec "+command)
	}
	out, err := script(binary + " doctor").CombinedOutput()
	if err != nil {
		t.Fatalf("doctor: %v\n%s", err, out)
	}
	for _, w := range []string{"BTF", "CONFIG_DEBUG_INFO_BTF"} {
		if !strings.Contains(string(out), w) {
			t.Errorf("doctor lacks %q:\n%s", w, out)
		}
	}
	m := &monitor{Program: await.Start(t, script(binary+" monitor --listen 127.0.0.1:0 --data "+t.TempDir()))}
	m.opened(t)
	up := m.states(t)
	for source, want := range map[string]float64{"syscalls": 0, "switches": 0, "faults": 0, "pagecache": 0, "cpu": 1, "memory": 1} {
		t.Run(source, func(t *testing.T) {
			if got, ok := up[source]; !ok || got != want {
				t.Errorf("teescope_source_up of %s is %v (%v), want %v", source, got, ok, want)
			}
		})
	}
}
