package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// fires is a page of metrics by which a test opens and closes findings.
type fires struct {
	addr string
	mu   sync.Mutex
	on   map[string]int // by subject: 1, or 0 when it is over
}

func startFires(t *testing.T) *fires {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fires{addr: at.Addr().String(), on: map[string]int{}}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, on := range f.on {
			fmt.Fprintf(w, "fire{process=%q} %d\n", name, on)
		}
	})}
	go func() { _ = srv.Serve(at) }()
	t.Cleanup(func() { _ = srv.Close() })
	return f
}

func (f *fires) set(name string, on int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on[name] = on
}

// config makes findings open and close soon. The expression bridges scrapes that are late on a busy machine.
func (f *fires) config() string {
	return fmt.Sprintf(`
scrape_configs:
- job_name: fires
  scrape_interval: 1s
  static_configs: [{targets: [%q]}]
analysis:
  every: 1s
  long: 10s
  short: 10s
  close_after: 2s
  own:
  - name: fire
    title: Fire
    expr: max by (process) (last_over_time(fire[10m]))
    above: 0.5
    subject: process
`, f.addr)
}

// listener receives a webhook's messages while it listens.
type listener struct {
	addr string
	mu   sync.Mutex
	got  []finding
}

// listen answers requests until stop is called.
func (l *listener) listen(t *testing.T) (stop func()) {
	t.Helper()
	at, err := net.Listen("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var f finding
		if err = errors.Join(err, json.Unmarshal(b, &f)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, f)
	})}
	go func() { _ = srv.Serve(at) }()
	t.Cleanup(func() { _ = srv.Close() })
	return func() { _ = srv.Close() }
}

// of lists the states of a finding in the order received.
func (l *listener) of(id string) (states []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.got {
		if f.ID == id {
			states = append(states, f.State)
		}
	}
	return states
}

// open lights a fire and waits for its finding.
func (f *fires) open(t *testing.T, m *monitor, name string) (open finding) {
	t.Helper()
	f.set(name, 1)
	await.Event(t, "a finding of "+name, func() error {
		all := m.findings(t)
		i := slices.IndexFunc(all, func(f finding) bool { return f.Rule == "fire" && f.Subject == name && f.State == "open" })
		if i < 0 {
			return errors.New("there is none")
		}
		open = all[i]
		return nil
	})
	return open
}

// call makes a request with a body, a change through the Unix socket as root, and returns the answer. A status other than 200 is an error.
func (m *monitor) call(method, path, body string) (string, error) {
	code, b, err := m.status(method, path, body)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s %s: %d: %s", method, path, code, b)
	}
	return b, err
}

// status is call with the status.
func (m *monitor) status(method, path, body string) (int, string, error) {
	at, client := m.url, http.DefaultClient
	if method != http.MethodGet {
		at, client = "http://localhost", &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return host.Local().Dial(ctx, m.socket)
		}}}
	}
	req, err := http.NewRequest(method, at+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// history reads the findings that a query string selects.
func (m *monitor) history(t *testing.T, query string) []finding {
	t.Helper()
	body, err := m.call("GET", "/api/teescope/v1/findings?"+query, "")
	if err != nil {
		t.Fatal(err)
	}
	var a struct{ Findings []finding }
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	return a.Findings
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "teescope.yml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestFindingOutlivesMonitor: a finding opens while its receiver is down, and the monitor is
// killed. After the restart the finding keeps its id, is sent once, and closes. A silence made
// before the kill still applies.
func TestFindingOutlivesMonitor(t *testing.T) {
	t.Parallel()
	hook := &listener{addr: freeAddr(t)}
	data, fires := t.TempDir(), startFires(t)
	args := []string{"monitor", "--interval", "1s", "--data", data,
		"--config", configFile(t, fires.config()+"notify: {min_severity: info, webhooks: [{name: hook, url: 'http://"+hook.addr+"/'}]}\n")}
	m := startMonitor(t, args...)
	silenced := fires.open(t, m, "quiet")
	until, _ := json.Marshal(time.Now().Add(time.Hour))
	if _, err := m.call("POST", "/api/teescope/v1/silences", fmt.Sprintf(`{"rule":%q,"subject":%q,"until":%s,"comment":"known"}`, silenced.Rule, silenced.Subject, until)); err != nil {
		t.Fatal(err)
	}
	open := fires.open(t, m, "loud")
	await.Event(t, "it waits for the receiver, and is a metric", func() error {
		length, is := m.query(t, `teescope_notification_queue_length`, "receiver")["hook"], m.query(t, `teescope_finding_open`, "subject")[open.Subject]
		if length < 1 || is != 1 {
			return fmt.Errorf("queue length %v, teescope_finding_open %v", length, is)
		}
		return nil
	})
	m.Stop(syscall.SIGKILL)

	m = startMonitor(t, args...)
	hook.listen(t)
	await.Event(t, "the finding goes on and reaches the receiver", func() error {
		if told := hook.of(open.ID); !slices.Equal(told, []string{"open"}) {
			return fmt.Errorf("told %q", told)
		}
		return nil
	})
	now := m.history(t, "state=open&rule=fire")
	for _, want := range []finding{open, silenced} {
		if !slices.ContainsFunc(now, func(f finding) bool { return f.ID == want.ID }) {
			t.Errorf("%s (%s) is not open any more: %+v", want.ID, want.Subject, now)
		}
	}
	fires.set("loud", 0)
	fires.set("quiet", 0)
	await.Event(t, "its end reaches the receiver", func() error {
		if told := hook.of(open.ID); !slices.Equal(told, []string{"open", "closed"}) {
			return fmt.Errorf("told %q", told)
		}
		return nil
	})
	await.Event(t, "the silenced one closes", func() error {
		if f := m.history(t, "state=closed&rule=fire&subject="+silenced.Subject); len(f) != 1 || f[0].ID != silenced.ID {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	// It may have been sent before it was silenced; then its end was sent too.
	if told := hook.of(silenced.ID); len(told) != 0 && !slices.Equal(told, []string{"open", "closed"}) {
		t.Errorf("of the silenced one was told %q", told)
	}
	for line := range strings.Lines(m.Err.String()) { // findings of other rules are not silenced
		if strings.Contains(line, silenced.Subject) && strings.Contains(line, "rule="+silenced.Rule) {
			t.Errorf("the log speaks of the silenced one: %s", line)
		}
	}
	if code := m.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit status %d", code)
	}
	m = startMonitor(t, args...)
	if f := m.history(t, "rule=fire&subject="+open.Subject); len(f) != 1 || f[0].ID != open.ID || f[0].State != "closed" {
		t.Errorf("history after another start: %+v", f)
	}
	if b, err := m.call("GET", "/api/teescope/v1/silences", ""); err != nil || !strings.Contains(b, silenced.Subject) {
		t.Errorf("silences after another start: %s, %v", b, err)
	}
	if b, err := m.call("GET", fmt.Sprintf("/api/teescope/v1/annotations?from=%d", time.Now().Add(-time.Hour).Unix()), ""); err != nil || !strings.Contains(b, open.ID) {
		t.Errorf("annotations: %s, %v", b, err)
	}
}

// TestAlertmanager: a real one shows the alert while the finding is open, and resolves it
// afterwards.
func TestAlertmanager(t *testing.T) {
	t.Parallel()
	program := ""
	for _, name := range []string{"prometheus-alertmanager", "alertmanager"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
		}
	}
	if program == "" {
		t.Skip("no alertmanager is installed (Debian: prometheus-alertmanager)")
	}
	addr := freeAddr(t)
	start(t, program, "--config.file", configFile(t, "route: {receiver: none}\nreceivers: [{name: none}]\n"), "--storage.path", t.TempDir(),
		"--web.listen-address", addr, "--cluster.listen-address", "")
	await.Event(t, "the Alertmanager is ready", func() error {
		_, err := fetch("http://" + addr + "/-/ready")
		return err
	})
	type alert struct {
		Labels, Annotations map[string]string
		UpdatedAt, EndsAt   time.Time
		GeneratorURL        string
	}
	alerts := func(subject string) (of []alert) {
		body, err := fetch("http://" + addr + "/api/v2/alerts")
		var all []alert
		if err = errors.Join(err, json.Unmarshal([]byte(body), &all)); err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			if a.Labels["subject"] == subject {
				of = append(of, a)
			}
		}
		return of
	}

	fires := startFires(t)
	m := startMonitor(t, "monitor", "--interval", "1s", "--config", configFile(t, fires.config()+"notify: {min_severity: info, alertmanager: [{url: 'http://"+addr+"'}]}\n"))
	open := fires.open(t, m, "kitchen")
	await.Event(t, "the alert is there", func() error {
		got := alerts(open.Subject)
		if len(got) != 1 || got[0].Labels["alertname"] != open.Rule || !strings.Contains(got[0].Annotations["summary"], open.Subject) || !strings.HasPrefix(got[0].GeneratorURL, m.url) {
			return fmt.Errorf("%+v", got)
		}
		if left := got[0].EndsAt.Sub(got[0].UpdatedAt); left < time.Minute {
			t.Errorf("it would end by itself %v after it was sent", left)
		}
		return nil
	})
	fires.set("kitchen", 0)
	await.Event(t, "the alert is resolved", func() error {
		if got := alerts(open.Subject); len(got) != 0 { // resolved ones are not listed
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	for receiver, n := range m.query(t, `teescope_notifications_total{outcome="refused"} > 0`, "receiver") {
		t.Errorf("%v requests to %s were refused", n, receiver)
	}
}
