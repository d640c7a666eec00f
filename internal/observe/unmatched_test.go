package observe

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// TestUnmatched: a name that the kernel cuts, and one that no process has, are said at the start, with the nearest name.
func TestUnmatched(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"20/comm": "victoria-metric\n", "20/cmdline": "/opt/victoria-metrics-prod\x00-retention=1y\x00",
		"21/comm": "victoria-metric\n", "21/cmdline": "victoria-metrics-dev\x00",
		"30/comm": "redis-server\n", "30/cmdline": "redis-server *:6379\x00",
		"31/comm": "worker\n", "31/cmdline": "app: password=secret-of-the-app\x00",
		"40/comm": "kworker/0:1\n", "40/cmdline": "",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(root, "proc", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
	h := &host.Host{Root: root}
	const cut = `--process: the kernel keeps 15 bytes of a process's name, so "victoria-metrics-prod" is matched as "victoria-metric", with all others of that name`
	for expr, want := range map[string]string{
		"^victoria-metrics-prod$": cut,
		"victoria-metrics-prod":   cut,
		"^redis":                  "",
		"":                        "",
		"^victoria-metric$":       "",
		"^rdis-server$":           `--process: no process that runs now matches "^rdis-server$"; the nearest name is "redis-server"`,
		"metrics-prod$":           `--process: no process that runs now matches "metrics-prod$"; "victoria-metrics-prod" runs under the name "victoria-metric"`,
		"secret":                  `--process: no process that runs now matches "secret"; the nearest name is "worker"`,
		"^victoria-logs-server$": `--process: the kernel keeps 15 bytes of a process's name, so "victoria-logs-server" is matched as "victoria-logs-s", with all others of that name` + "\n" +
			`--process: no process that runs now matches "^victoria-logs-server$"; the nearest name is "victoria-metric"`,
	} {
		t.Run(expr, func(t *testing.T) {
			wanted, err := metric.CompileNames(expr)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(unmatched(h, "--process", wanted), "\n"); got != want {
				t.Errorf("%s:\n%s\nwant\n%s", expr, got, want)
			}
		})
	}
	// The same names in the configuration.
	filter := func(s string) *string { return &s }
	o := &Observer{Host: h}
	got := strings.Join(o.unmatchedNames(&Sections{
		Sources:  map[string]probe.Setting{"syscalls": {Process: filter("^ngnix$")}, "faults": {Process: filter("")}, "llc": {Process: filter("redis")}},
		Requests: []Requests{{Process: "redis-server"}, {Process: "redis"}, {Process: "w[o]rker"}},
	}), "\n")
	want := `sources.syscalls.process: no process that runs now matches "^ngnix$"; the nearest name is "worker"
requests[1].process: no process that runs now matches "^redis$"; the nearest name is "redis-server"
requests[2].process: no process that runs now matches "^w\\[o\\]rker$"; the nearest name is "worker"`
	if got != want {
		t.Errorf("the configuration:\n%s\nwant\n%s", got, want)
	}
	if got := unmatched(&host.Host{Root: t.TempDir()}, "--process", &metric.NamePattern{}); got != nil {
		t.Errorf("without /proc: %q", got)
	}
	c := Sections{Requests: []Requests{{Process: "victoria-metrics-prod", App: "redis", Address: "/run/r"}}}
	if err := c.Check(new(yaml.Node), nil, ""); err != nil || len(c.Targets()) != 1 || c.Targets()[0].Process != "victoria-metric" {
		t.Errorf("requests of a long name: %+v, %v", c.Targets(), err)
	}
}

// TestLongNameOfARealProcess: the kernel cuts the name of a program as CutName does.
func TestLongNameOfARealProcess(t *testing.T) {
	const name = "teescope-test-with-a-long-name"
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep: ", err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := host.Local().Install(file, program, 0o755); err != nil {
		t.Fatal(err)
	}
	await.Start(t, exec.Command(file, "600"))
	await.Event(t, "the process to run under its name", func() error {
		names, err := runningNames(host.Local())
		if err == nil && len(names[metric.CutName(name)]) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	wanted, err := metric.CompileNames("^" + name + "$")
	if err != nil {
		t.Fatal(err)
	}
	if got := unmatched(host.Local(), "--process", wanted); len(got) != 1 || !strings.Contains(got[0], "is matched as \"teescope-test-w\"") {
		t.Errorf("%q", got)
	}
}
