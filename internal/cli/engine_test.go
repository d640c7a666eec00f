package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/store"
)

// desc is the declaration of a metric of the sources.
func desc(t *testing.T, name string) *metric.Desc {
	t.Helper()
	for _, s := range sources.All {
		if i := slices.IndexFunc(s.Metrics, func(d *metric.Desc) bool { return d.Name == name }); i >= 0 {
			return s.Metrics[i]
		}
	}
	t.Fatalf("no source has %s", name)
	return nil
}

// TestExplainFromEngine: an explanation from the series of an engine is the one that a monitor with that store makes.
func TestExplainFromEngine(t *testing.T) {
	o := store.DefaultOptions()
	o.Dir, o.Instance, o.Reserve = t.TempDir(), "vm1", 1<<20
	st, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	cpu, calls := desc(t, "tee_process_cpu_seconds_total"), desc(t, "tee_syscalls_total")
	labels := func(d *metric.Desc, of map[string]string) (out []string) {
		for _, l := range d.Labels {
			out = append(out, of[l])
		}
		return out
	}
	to := time.Now().Truncate(time.Second)
	for i := range 61 {
		redis := map[string]string{"process": "redis-server", "syscall": "read"}
		if err := st.Append(to.Add(time.Duration(5*(i-60))*time.Second), []metric.Sample{
			{Desc: cpu, Labels: labels(cpu, redis), Value: float64(i) * 2.5},
			{Desc: calls, Labels: labels(calls, redis), Value: float64(i) * 5000},
		}); err != nil {
			t.Fatal(err)
		}
	}
	var asked []string
	answers := st.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked = append(asked, user+":"+password)
		answers.ServeHTTP(w, r)
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "http.yaml")
	if err := os.WriteFile(file, []byte("basic_auth: {username: me, password: secret}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := client.Engine{URL: srv.URL, HTTP: file}
	r, err := engine.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := engineAt(r).Tree(t.Context(), client.Subject{Process: "redis-server"}, "second", to.Add(-4*time.Minute), to)
	if err != nil {
		t.Fatal(err)
	}
	want, err := known.Window(t.Context(), st, explain.Question{Process: "redis-server", From: to.Add(-4 * time.Minute), To: to})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := asJSON(t, got.Tree), asJSON(t, want); a != b {
		t.Errorf("from the engine:\n%s\nfrom its store:\n%s", a, b)
	}
	for _, args := range [][]string{{}, {"--process", "redis-server"}, {"--process", "nobody"}, {"--json"}} {
		out, err := explainWith(t, append(args, "--query-url", srv.URL, "--query-config", file)...)
		switch {
		case err != nil:
			t.Errorf("explain %v: %v", args, err)
		case slices.Contains(args, "nobody") && !strings.Contains(out, "No explanation: no process"):
			t.Errorf("explain %v does not say that there is none:\n%s", args, out)
		case !slices.Contains(args, "nobody") && !strings.Contains(out, "redis-server"):
			t.Errorf("explain %v:\n%s", args, out)
		case !slices.Contains(args, "--json") && !strings.Contains(out, "A query engine stores no findings"):
			t.Errorf("explain %v does not say where findings are:\n%s", args, out)
		}
	}
	if slices.ContainsFunc(asked, func(a string) bool { return a != "me:secret" }) {
		t.Errorf("the engine was asked as %q", asked)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestElsewhereRefused: what cannot work is refused before anything starts.
func TestElsewhereRefused(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty, scrapes, sends := file("empty.yaml", ""), file("scrapes.yaml", "scrape_configs: [{job_name: a}]\n"), file("sends.yaml", "remote_write: [{url: 'http://127.0.0.1:1/'}]\n")
	dead := "http://127.0.0.1:1"
	for i, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--agent-mode"}, "no remote_write in the configuration"},
		{[]string{"--agent-mode", "--config", empty}, "no remote_write in the configuration"},
		{[]string{"--agent-mode", "--config", scrapes, "--query-url", dead}, "no remote_write in the configuration"},
		{[]string{"--query-url", dead, "--config", scrapes}, "scrape_configs: nothing is stored here"},
		{[]string{"--query-url", dead, "--config", sends}, "remote_write: nothing is stored here"},
		{[]string{"--query-url", other.URL}, "no Prometheus-compatible engine answers there"},
		{[]string{"--query-url", "localhost:9090"}, "--query-url: want the URL"},
		{[]string{"--query-config", empty}, "give --query-url too"},
		{[]string{"--query-url", dead, "--query-config", file("http.yaml", "basic_autt: {}\n")}, "http.yaml: line 1: basic_autt is not a known key"},
		{[]string{"--query-url", dead, "--query-config", filepath.Join(dir, "none")}, "no such file"},
	} {
		t.Run(c.want, func(t *testing.T) {
			out, errs, code := run(t, append([]string{"monitor", "--listen", "127.0.0.1:0", "--sources", "^self$", "--data", filepath.Join(dir, fmt.Sprint(i))}, c.args...)...)
			if code != 4 || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("monitor %v: exit status %d, %s%s; want %q", c.args, code, out, errs, c.want)
			}
		})
	}
	for _, c := range [][]string{{"--query-url", other.URL}, {"--query-url", dead}, {"--query-config", empty}} {
		if out, err := explainWith(t, c...); err == nil || out != "" {
			t.Errorf("explain %v: %v, %s", c, err, out)
		}
	}
}
