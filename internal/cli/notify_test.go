package cli

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/web"
)

const notifyExample = `
notify:
  min_severity: critical
  page: https://monitor.example/
  alertmanager:
  - url: http://127.0.0.1:9093/prefix
    basic_auth: {username: a, password_file: secret}
  - url: https://[::1]:9093
    name: second
  webhooks:
  - url: https://hooks.example/T0/B0/secret-path
    headers_from: {X-Token: secret}
    http_headers: {X-Scope: {values: [a]}}
dashboards:
- name: Ours
  panels:
  - {title: Calls, query: "sum(rate(tee_syscalls_total[1m]))", unit: 1/s, kind: area}
`

func TestNotifyConfig(t *testing.T) {
	c, err := parseConfig([]byte(notifyExample), t.TempDir(), sources.All)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	set := c.Notify.settings("http://127.0.0.1:9780")
	for _, r := range set.Receivers {
		got = append(got, r.Name+" "+r.Format.Name)
	}
	if want := []string{"alertmanager-127-0-0-1-9093 alertmanager", "second alertmanager", "webhook-hooks-example webhook"}; !slices.Equal(got, want) {
		t.Errorf("receivers %q, want %q", got, want)
	}
	if set.Least != findings.Critical || set.Page != "https://monitor.example/" {
		t.Errorf("settings %+v", set)
	}
	if set := (&notifyConfig{}).settings("http://127.0.0.1:9780"); set.Least != findings.Warning || set.Page != "http://127.0.0.1:9780" || len(set.Receivers) != 0 {
		t.Errorf("without a section: %+v", set)
	}
	if len(c.Dashboards) != 1 || c.Dashboards[0].Panels[0].Kind != web.Area {
		t.Errorf("dashboards %+v", c.Dashboards)
	}
}

// TestDocumentedConfig: the guide's examples are accepted unchanged.
func TestDocumentedConfig(t *testing.T) {
	b, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, part := range strings.Split(string(b), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		text.WriteString(example)
	}
	c, err := parseConfig([]byte(text.String()), ".", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Notify.receivers) != 3 || c.Notify.receivers[1].Name != "chat" || len(c.Dashboards) != 1 {
		t.Errorf("receivers %+v, dashboards %+v", c.Notify.receivers, c.Dashboards)
	}
}

// TestNotifyConfigErrors: line and key, but never the URL, which may be a secret.
func TestNotifyConfigErrors(t *testing.T) {
	for in, want := range map[string]string{
		"notify:\n  min_severity: loud\n":                                                                                            `line 2: notify.min_severity: "loud": want info, warning or critical`,
		"notify:\n  page: monitor\n":                                                                                                 "line 2: notify.page: want a URL like http://127.0.0.1:9093",
		"notify:\n  webhooks:\n  - name: a\n":                                                                                        "line 3: notify.webhooks[0].url: want a URL like http://127.0.0.1:9093",
		"notify:\n  webhooks:\n  - url: http://a\n  - url: ftp://b/secret\n":                                                         "line 4: notify.webhooks[1].url: want a URL like http://127.0.0.1:9093",
		"notify:\n  webhooks:\n  - url: \"http://b/%zz-secret\"\n":                                                                   "line 3: notify.webhooks[0].url: want a URL like http://127.0.0.1:9093",
		"notify:\n  alertmanager:\n  - url: http://a\n    name: ../a\n":                                                              `line 4: notify.alertmanager[0].name: "../a": want at most 100 letters, digits, - and _`,
		"notify:\n  webhooks:\n  - url: http://a/1\n  - url: http://a/2\n":                                                           `line 4: notify.webhooks[1].name: two receivers are named "webhook-a"; give each its own name`,
		"notify:\n  webhooks:\n  - url: http://a\n    format: teams\n":                                                               `line 4: notify.webhooks[0].format: "teams": want finding, slack or text`,
		"notify:\n  alertmanager:\n  - url: http://a\n    format: slack\n":                                                           "line 4: notify.alertmanager[0].format: an Alertmanager has one format only; leave it out",
		"notify:\n  subject: '('\n":                                                                                                  "line 2: notify.subject: error parsing regexp: missing closing ): `(`",
		"notify:\n  webhooks:\n  - url: http://a\n    not_subject: '('\n":                                                            "line 4: notify.webhooks[0].not_subject: error parsing regexp: missing closing ): `(`",
		"notify:\n  webhooks:\n  - url: http://a\n    retries: 3\n":                                                                  "line 4: retries is not a known key",
		"notify:\n  webhooks:\n  - url: [a]\n":                                                                                       "line 3: notify.webhooks: want text",
		"notify:\n  webhooks:\n  - url: http://a\n    basic_auth: {username: a, password: b, password_file: c}\n":                    "line 3: notify.webhooks[0]: at most one of basic_auth password, password_file & password_ref must be configured",
		"notify:\n  webhooks:\n  - url: http://a\n    headers_from: {Authorization: f}\n":                                            `line 3: notify.webhooks[0]: setting header "Authorization" is not allowed`,
		"notify:\n  webhooks:\n  - url: http://a\n    http_headers: {A: {values: [b]}}\n    headers_from: {A: f}\n":                  "line 5: notify.webhooks[0].headers_from: A is also in http_headers",
		"dashboards:\n- name: a\n  panels:\n  - {title: t, query: up, kind: graph}\n  - title: t\n    query: up(\n    kind: graph\n": "line 6: dashboards[0].panels[1].query: 1:4: parse error: unclosed left parenthesis",
		"dashboards:\n- name: a\n  panels:\n  - title: t\n    query: up\n    kind: pie\n":                                            `line 6: dashboards[0].panels[0].kind: "pie"; want one of [graph area histogram gauge value table heatmap boxplot]`,
		"dashboards:\n- name: a\n":                                                                                                   "line 2: dashboards[0].panels: 0 panels; want 1 to 50",
	} {
		if _, err := parseConfig([]byte(in), ".", sources.All); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", in, err, want)
		}
	}
}

// TestSecrets: the contents of secret files reach the receiver, over TLS with its own
// authority, but neither log nor metrics.
func TestSecrets(t *testing.T) {
	got := make(chan http.Header, 10)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Header
		w.WriteHeader(http.StatusForbidden) // so that something is sent
	}))
	defer srv.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "s3cret\n", "ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := parseConfig([]byte(fmt.Sprintf("notify:\n  webhooks:\n  - url: %s/s3cret\n    headers_from: {X-Token: token}\n"+
		"    authorization: {credentials_file: token}\n    tls_config: {ca_file: ca.pem}\n", srv.URL)), dir, sources.All)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := notify.DefaultOptions()
	o.Dir, o.Now, o.Log = filepath.Join(dir, "queue"), time.Now, slog.New(slog.NewTextHandler(&log, nil))
	n := notify.New(o)
	if err := n.Use(c.Notify.settings("")); err != nil {
		t.Fatal(err)
	}
	n.Tell(nil, []findings.Record{{ID: "a", State: findings.Open, Finding: findings.Finding{Severity: findings.Warning}}})
	await.Event(t, "a request comes", func() error {
		if len(got) == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	if h := <-got; h.Get("X-Token") != "s3cret" || h.Get("Authorization") != "Bearer s3cret" || !strings.HasPrefix(h.Get("User-Agent"), "teescope/") || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
	if err := n.Close(); err != nil { // waits for the request to end
		t.Error(err)
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("a secret is in the log:\n%s", &log)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "queue", "*")); len(files) != 1 {
		t.Errorf("queues %q", files)
	}
}

// TestSettingsOfThePage: silences and dashboards survive a restart, and a damaged file
// is not overwritten.
func TestSettingsOfThePage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "silences.json")
	s, err := openSilences(path, rules.All, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Add(findings.Silence{Rule: "syscall_storm", Subject: regexp.QuoteMeta("<b>\x1b[31m"), Until: time.Now().Add(time.Hour).UTC(), Comment: "known"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = openSilences(path, rules.All, time.Now); err != nil || len(s.List()) != 1 || s.List()[0].ID != x.ID || s.List()[0].Subject != x.Subject {
		t.Errorf("read again: %+v, %v", s.List(), err)
	}

	boards := filepath.Join(dir, "dashboards.json")
	d, err := openDashboards(boards)
	if err != nil || d.Dashboards().Dashboards == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	d.lock([]web.Dashboard{{Name: "Ours"}})
	mine := []web.Dashboard{{Name: "Mine", Panels: []web.Panel{{Title: "t", Query: "up", Kind: web.Value}}}}
	if err := d.SetDashboards(mine); err != nil {
		t.Fatal(err)
	}
	if err := d.SetDashboards([]web.Dashboard{{Name: "Ours", Panels: mine[0].Panels}}); err == nil || !strings.Contains(err.Error(), "another dashboard is called") {
		t.Errorf("the name of a locked one: %v", err)
	}
	if d, err = openDashboards(boards); err != nil || len(d.Dashboards().Dashboards) != 1 || len(d.Dashboards().Locked) != 0 {
		t.Errorf("read again: %+v, %v", d.Dashboards(), err)
	}
	if err := os.Mkdir(boards+".new", 0o700); err != nil { // no file can be written
		t.Fatal(err)
	}
	if err := d.SetDashboards(nil); err == nil || !strings.Contains(err.Error(), web.ErrNotKept.Error()) || len(d.Dashboards().Dashboards) != 1 {
		t.Errorf("a change that cannot be kept: %v, %+v", err, d.Dashboards())
	}
	if err := os.WriteFile(boards, []byte("{\"dashboards\": ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err = openDashboards(boards); err == nil || d == nil || !strings.Contains(err.Error(), "dashboards.json.damaged") {
		t.Errorf("a damaged file: %+v, %v", d, err)
	}
	if b, err := os.ReadFile(boards + ".damaged"); err != nil || string(b) != "{\"dashboards\": [" {
		t.Errorf("moved aside: %q, %v", b, err)
	}
}

// TestLogIsOneLine: a process name can control neither the log nor its reader's
// terminal.
func TestLogIsOneLine(t *testing.T) {
	var log bytes.Buffer
	m := &monitor{Observer: &observe.Observer{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	r := findings.Record{ID: "a", State: findings.Open, Finding: findings.Finding{Rule: "heat", Subject: "x", Title: "<b>\x1b[2J\nlevel=ERROR\u202e\xff spends 41 %."}}
	m.analysis = findings.New(nil, nil, findings.Options{Now: time.Now, Past: []findings.Record{r}})
	m.logFinding(r)
	if s := log.String(); strings.Count(s, "\n") != 1 || strings.Contains(s, "\x1b") || strings.Contains(s, "\u202e") || !utf8.ValidString(s) || !strings.Contains(s, `<b>\x1b[2J\nlevel=ERROR`) {
		t.Errorf("log %q", s)
	}
	log.Reset()
	r.Silenced = "s"
	if m.logFinding(r); log.Len() != 0 {
		t.Errorf("a silenced finding is logged: %q", &log)
	}
}
