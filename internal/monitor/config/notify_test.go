package config

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
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
	c, err := Parse([]byte(notifyExample), t.TempDir(), sources.All)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	set := c.Notify.Settings("http://127.0.0.1:9780")
	for _, r := range set.Receivers {
		got = append(got, r.Name+" "+r.Format.Name)
	}
	if want := []string{"alertmanager-127-0-0-1-9093 alertmanager", "second alertmanager", "webhook-hooks-example webhook"}; !slices.Equal(got, want) {
		t.Errorf("receivers %q, want %q", got, want)
	}
	if set.Least != findings.Critical || set.Page != "https://monitor.example/" {
		t.Errorf("settings %+v", set)
	}
	if set := (&notifyConfig{}).Settings("http://127.0.0.1:9780"); set.Least != findings.Warning || set.Page != "http://127.0.0.1:9780" || len(set.Receivers) != 0 {
		t.Errorf("without a section: %+v", set)
	}
	if len(c.Dashboards) != 1 || c.Dashboards[0].Panels[0].Kind != web.Area {
		t.Errorf("dashboards %+v", c.Dashboards)
	}
}

// TestDocumentedConfig: the guide's examples are accepted unchanged.
func TestDocumentedConfig(t *testing.T) {
	b, err := os.ReadFile("../../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, part := range strings.Split(string(b), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		text.WriteString(example)
	}
	c, err := Parse([]byte(text.String()), ".", sources.All)
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
		"notify:\n  webhooks:\n  - url: http://a/1\n  - url: http://a/2\n":                                                           `line 4: notify.webhooks[1].name: two receivers are named "webhook-a"; give each receiver a different name`,
		"notify:\n  webhooks:\n  - url: http://a\n    format: teams\n":                                                               `line 4: notify.webhooks[0].format: "teams": want finding, slack or text`,
		"notify:\n  alertmanager:\n  - url: http://a\n    format: slack\n":                                                           "line 4: notify.alertmanager[0].format: an Alertmanager has one format only; remove the key format",
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
		t.Run(in, func(t *testing.T) {
			if _, err := Parse([]byte(in), ".", sources.All); err == nil || err.Error() != want {
				t.Errorf("%q:\n got %v\nwant %s", in, err, want)
			}
		})
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
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	c, err := Parse([]byte(fmt.Sprintf("notify:\n  webhooks:\n  - url: %s/s3cret\n    headers_from: {X-Token: token}\n"+
		"    authorization: {credentials_file: token}\n    tls_config: {ca_file: ca.pem}\n", srv.URL)), dir, sources.All)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := notify.DefaultOptions()
	o.Dir, o.Now, o.Log = filepath.Join(dir, "queue"), time.Now, slog.New(slog.NewTextHandler(&log, nil))
	n := notify.New(o)
	if err := n.ApplySettings(c.Notify.Settings("")); err != nil {
		t.Fatal(err)
	}
	n.QueueChanges(nil, []findings.Record{{ID: "a", State: findings.Open, Finding: findings.Finding{Severity: findings.Warning}}})
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
