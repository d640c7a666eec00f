package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/web"
)

// explainWith runs the command.
func explainWith(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out strings.Builder
	c := explainCommand(Env{Stdout: &out})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return out.String(), err
}

// monitorSaying is a monitor with constructed answers: findings in answer, the busiest
// processes in query, the time of any process in explain and, for an earlier window, in
// before. Anything else is not found.
func monitorSaying(t *testing.T, parts map[string]string) string {
	t.Helper()
	const nobody = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	trees := []string{"explain", "before"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/teescope/v1/findings":
			fmt.Fprint(w, parts["answer"])
		case "GET /api/teescope/v1/platform", "GET /api/teescope/v1/overhead":
			fmt.Fprint(w, parts[path.Base(r.URL.Path)])
		case "GET /api/v1/query":
			fmt.Fprint(w, cmp.Or(parts["query"], nobody))
		case "GET /api/teescope/v1/explain":
			part := parts[trees[0]]
			if parts["before"] != "" {
				trees[0], trees[1] = trees[1], trees[0]
			}
			if part == "" {
				w.WriteHeader(http.StatusNotFound)
				part = `{"error":"no process \"` + r.URL.Query().Get("process") + `\" was seen; there were \"redis-server\""}`
			}
			fmt.Fprint(w, part)
		default:
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

// TestExplain compares the output for a monitor's answers. A case is
// testdata/explain/NAME.txtar: the files answer, query, explain and before are the
// monitor's answers, args the flags, want the output.
func TestExplain(t *testing.T) {
	files, err := filepath.Glob("testdata/explain/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range a.Files {
				parts[f.Name] = string(f.Data)
			}
			got, err := explainWith(t, append(strings.Fields(parts["args"]), "--server", monitorSaying(t, parts))...)
			if err != nil {
				t.Fatal(err)
			}
			saysSentences(t, got, parts)
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
			if *update {
				i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
				if i < 0 {
					a.Files = append(a.Files, txtar.File{Name: "want"})
					i = len(a.Files) - 1
				}
				a.Files[i].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != parts["want"] {
				t.Errorf("printed\n%s\nwant\n%s", got, parts["want"])
			}
		})
	}
}

// saysSentences checks that the command line prints the sentences of the API word for word: findings with where they run, and who
// takes the CPU.
func saysSentences(t *testing.T, printed string, parts map[string]string) {
	t.Helper()
	printed = strings.Join(strings.Fields(printed), " ")
	says := func(sentence string) {
		t.Helper()
		if sentence = printable.OneLine(strings.Join(strings.Fields(sentence), " ")); !strings.Contains(printed, sentence) {
			t.Errorf("the command line does not say %q", sentence)
		}
	}
	var answer web.Findings
	if err := json.Unmarshal([]byte(parts["answer"]), &answer); err != nil {
		t.Fatal(err)
	}
	for _, r := range answer.Findings {
		if strings.Contains(printed, "(rule "+r.Rule) { // else the flags leave it out
			says(cmp.Or(r.Sentence, r.Title))
			for _, home := range r.RunsIn {
				says(home)
			}
		}
	}
	if parts["explain"] == "" || !strings.Contains(parts["args"], "--process") {
		return
	}
	var e web.Explanation
	if err := json.Unmarshal([]byte(parts["explain"]), &e); err != nil {
		t.Fatal(err)
	}
	if c := e.Tree.Rivals; c != nil {
		says(c.Text)
	}
}

func TestExplainJSON(t *testing.T) {
	a, err := txtar.ParseFile("testdata/explain/open.txtar")
	if err != nil {
		t.Fatal(err)
	}
	url := monitorSaying(t, map[string]string{"answer": string(a.Files[1].Data), "explain": `{"tree":{"subject":"redis-server"},"causes":[{"rule":"lock_contention"}]}`})
	out, err := explainWith(t, "--json", "--process", "^redis", "--server", url)
	var got explained
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if list := got.Findings.Findings; len(list) != 1 || list[0].Subject != "redis-server" || len(got.Rules) != 2 || got.At.IsZero() {
		t.Errorf("got %s", out)
	}
	if len(got.Explanations) != 1 || got.Explanations[0].Tree.Subject != "redis-server" || got.Explanations[0].Causes[0].Rule != "lock_contention" {
		t.Errorf("got %s", out)
	}
}

func TestExplainFails(t *testing.T) {
	answer := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	secure := httptest.NewTLSServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(secure.Close)
	gone := nobody(t)
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"nobody there":  {[]string{"--server", gone}, []string{gone, "connection refused", "`teescope monitor`"}},
		"an agent":      {[]string{"--server", answer(404, `{"error":"GET /api/teescope/v1/findings: no such call"}`)}, []string{"no monitor", "an agent", "an older monitor"}},
		"something":     {[]string{"--server", answer(404, `<html>`)}, []string{"404 Not Found", "no teescope monitor"}},
		"no password":   {[]string{"--server", answer(401, "Unauthorized\n")}, []string{"://USER:PASSWORD@"}},
		"bad password":  {[]string{"--server", strings.Replace(answer(401, ""), "://", "://me:secret@", 1)}, []string{"USER:PASSWORD"}},
		"certificate":   {[]string{"--server", secure.URL}, []string{secure.URL, "unknown authority", "SSL_CERT_FILE"}},
		"not TLS":       {[]string{"--server", strings.Replace(secure.URL, "https", "http", 1)}, []string{"https://"}},
		"broken answer": {[]string{"--server", answer(200, `{"findings":[{"since":"yesterday"}]}`)}, []string{"yesterday", "teescope monitor"}},
		"bad regex":     {[]string{"--process", "("}, []string{"--process", "missing closing )"}},
		"no URL":        {[]string{"--server", "::"}, []string{"--server", "127.0.0.1:9780"}},
		"bad scheme":    {[]string{"--server", "ftp://localhost:9780"}, []string{"--server", "127.0.0.1:9780"}},
		"secret scheme": {[]string{"--server", "ftp://me:secret@localhost:9780"}, []string{"ftp://me:xxxxx@localhost:9780"}},
		"secret bytes":  {[]string{"--server", "me:secret%@localhost"}, []string{"http://me:xxxxx@localhost"}},
		"no scheme":     {[]string{"--server", strings.TrimPrefix(gone, "http://")}, []string{gone, "connection refused"}},
		"bad window":    {[]string{"--process", "x", "--before", "1h..2h"}, []string{"--before", "2h..1h"}},
		"no process":    {[]string{"--before", "2h..1h"}, []string{"--before", "--process"}},
		"per what":      {[]string{"--per", "hour"}, []string{"--per", "second or request"}},
		"bad duration":  {[]string{"--last", "soon"}, []string{"--last", "36h"}},
		"no result":     {[]string{"RESULT.json"}, []string{"RESULT.json", "no such file"}},
		"two results":   {[]string{"A.json", "B.json"}, []string{"accepts at most 1 arg"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := explainWith(t, tt.args...)
			if err == nil || out != "" {
				t.Fatalf("no error, and printed %q", out)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q shows a password", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

// nobody is the URL of a server that does not run.
func nobody(t *testing.T) string {
	t.Helper()
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0])
}

// TestExplainSaysItsWindow: a window that nobody watched is not replaced in silence.
func TestExplainSaysItsWindow(t *testing.T) {
	base, err := serverURL(nobody(t))
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, lasting := range []bool{true, false} {
		var errs strings.Builder
		x := explainer{last: duration(time.Hour), lasting: lasting}
		if _, _, err := x.watchHere(ended, Env{Stderr: &errs}, base); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if strings.Contains(errs.String(), "not --last 1h") != lasting {
			t.Errorf("--last is given: %v: it says %q", lasting, &errs)
		}
	}
}
