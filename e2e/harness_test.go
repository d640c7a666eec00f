// Package e2e runs the built binary against the real kernel, real servers and
// a real browser, as a user would: arguments in, HTTP and text out.
//
// TEESCOPE_BIN names the binary to test; without it the tests build one. A test is skipped,
// with the reason, if the machine lacks something it needs.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// binary is the teescope under test.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "teescope-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if binary = os.Getenv("TEESCOPE_BIN"); binary == "" {
		binary = filepath.Join(dir, "teescope")
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "./cmd/teescope", "./cmd/teescope-agent", "./cmd/teescope-work", "./cmd/teescope-prove")
		build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build teescope: %v\n%s", err, out)
			os.Exit(1)
		}
	}
	if binary, err = filepath.Abs(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// start runs a program in the background until the test ends.
func start(t *testing.T, name string, args ...string) *await.Program {
	t.Helper()
	return await.Start(t, exec.Command(name, args...))
}

// monitor is a running `teescope monitor` or `agent`.
type monitor struct {
	*await.Program
	url    string
	socket string // the default one
}

// startMonitor runs the command on a free port and waits until it is ready.
func startMonitor(t *testing.T, args ...string) *monitor {
	t.Helper()
	needRoot(t)
	if !strings.Contains(strings.Join(args, " "), "--data") && args[0] == "monitor" {
		data := t.TempDir()
		args = append(args, "--data", data)
		defer unitCosts.give(t, data)()
	}
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	// Tests that compare with known counts need counts, not estimates.
	if !strings.Contains(strings.Join(args, " "), "--budget") {
		args = append(args, "--budget", "100%")
	}
	m := &monitor{Program: start(t, binary, args...)}
	m.opened(t)
	t.Cleanup(func() { _ = os.Remove(m.socket) }) // a kill leaves it
	return m
}

// states is teescope_source_up by source, from the first round with all sources.
func (m *monitor) states(t *testing.T) (up map[string]float64) {
	t.Helper()
	await.Event(t, "a round with all sources is stored", func() error {
		up = m.query(t, "teescope_source_up", "source")
		if _, ok := up["syscalls"]; !ok {
			return fmt.Errorf("it has only %v", up)
		}
		return nil
	})
	return up
}

var atURL = regexp.MustCompile(`https?://[^/\s]+`)

// opened waits until the monitor is ready and all sources are open.
func (m *monitor) opened(t *testing.T) {
	t.Helper()
	await.Event(t, "the monitor prints its URL, is ready and has opened its sources", func() error {
		if m.url = atURL.FindString(m.Out.String()); m.url == "" {
			return fmt.Errorf("no URL in %q", m.Out)
		}
		m.socket = filepath.Join(host.SystemSockets, m.url[strings.LastIndex(m.url, ":")+1:]+".sock")
		if _, err := fetch(m.url + "/-/ready"); err != nil {
			return err
		}
		list, err := fetch(m.url + "/api/teescope/v1/sources")
		if err == nil && strings.Contains(list, `"opening"`) {
			err = errors.New("a source is not open yet")
		}
		return err
	})
}

// unitCosts is what the first monitor with a new data folder measured. The others wait for it
// and reuse it, as they would after a restart.
var unitCosts kept

type kept struct {
	mu   sync.Mutex
	file []byte
}

// give puts the measured costs into a data folder. The caller calls ready once the monitor is
// ready.
func (k *kept) give(t *testing.T, dir string) (ready func()) {
	t.Helper()
	name := filepath.Join(dir, "calibration.json")
	k.mu.Lock()
	if k.file == nil { // the others wait until this one has measured
		return func() {
			k.file, _ = os.ReadFile(name) // without it the next one measures
			k.mu.Unlock()
		}
	}
	defer k.mu.Unlock()
	if err := os.WriteFile(name, k.file, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {}
}

// fetch makes a GET request. A status other than 200 is an error that contains the body.
func fetch(u string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", u, r.Status, b)
	}
	return string(b), err
}

// query evaluates PromQL now and returns values by one label.
func (m *monitor) query(t *testing.T, expr, label string) map[string]float64 {
	t.Helper()
	body, err := fetch(m.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatalf("query %s: %v", expr, err)
	}
	var a struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("query %s: %v in %s", expr, err, body)
	}
	out := map[string]float64{}
	for _, r := range a.Data.Result {
		s, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatalf("query %s: value %v", expr, r.Value)
		}
		out[r.Metric[label]] = v
	}
	return out
}

// seriesOf returns the values of an agent's or a monitor's /metrics, by name and labels.
func seriesOf(t *testing.T, m *monitor) map[string]float64 {
	t.Helper()
	body, err := fetch(m.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, l := range series.FindAllStringSubmatch(body, -1) {
		if v, err := strconv.ParseFloat(l[2], 64); err == nil {
			out[l[1]] = v
		}
	}
	return out
}

var series = regexp.MustCompile(`(?m)^([a-z]\w*(?:\{[^}]*\})?) (\S+)$`)

// finding has the fields that the tests read.
type finding struct {
	ID, Rule, Subject, Title, State, Remedy string
	LastSeen                                time.Time
	Evidence                                []struct {
		Text, Unit, Expr string
		Value            float64
	}
}

func (m *monitor) findings(t *testing.T) []finding {
	t.Helper()
	body, err := fetch(m.url + "/api/teescope/v1/findings")
	if err != nil {
		t.Fatal(err)
	}
	var a struct{ Findings []finding }
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return a.Findings
}

// run runs teescope to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runArgv(t, append([]string{binary}, args...)...)
}

// runArgv runs a command to its end.
func runArgv(t *testing.T, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute) // ends one that hangs, on a busy machine, too
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errb bytes.Buffer
	c.Stdout, c.Stderr = &out, &errb
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatalf("run %v: %v", argv, err)
	}
	return out.String(), errb.String(), c.ProcessState.ExitCode()
}

// tool finds a program, or skips the test and names the package to install.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (package %s)", name, pkg)
	}
	return p
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
}

// freePort returns a port that no other program gets while this one runs, for servers that cannot choose one and tell it.
func freePort(t *testing.T) int {
	t.Helper()
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

// startRedis runs a redis-server without persistence and returns its port.
func startRedis(t *testing.T) (*await.Program, int) {
	t.Helper()
	port := freePort(t)
	p := start(t, tool(t, "redis-server", "redis-server"), "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	waitPort(t, port)
	return p, port
}

func waitPort(t *testing.T, port int) {
	t.Helper()
	await.Event(t, "the port answers", func() error {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// cc builds a C program of the repository.
func cc(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	if b, err := exec.Command(tool(t, "cc", "gcc"), "-static", "-O2", "-pthread", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v\n%s", source, err, b)
	}
	return out
}
