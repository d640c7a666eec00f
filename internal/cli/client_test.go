package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// runClient runs the commands that the program has on other systems. What they import compiles there; the stage client of tools/stages
// tests that.
func runClient(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	code = printably(env, func(env Env) int { return execute(t.Context(), env, rootOf(env, clientCommands(env))) })
	return out.String(), errs.String(), code
}

// namesOf are the names of commands that help lists.
func namesOf(list []*cobra.Command) (names []string) {
	for _, c := range list {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	return names
}

// TestClientCommands: a client has each command of the full program, or says in one line that it needs Linux.
func TestClientCommands(t *testing.T) {
	full, client := rootCommand(Env{}), rootOf(Env{}, clientCommands(Env{}))
	if a, b := namesOf(full.Commands()), namesOf(client.Commands()); !slices.Equal(a, b) {
		t.Errorf("the full program has %v, the client %v", a, b)
	}
	bench := func(root *cobra.Command) []string {
		c, _, err := root.Find([]string{"bench"})
		if err != nil {
			t.Fatal(err)
		}
		return namesOf(c.Commands())
	}
	if a, b := bench(full), bench(client); !slices.Equal(a, b) {
		t.Errorf("bench has %v, that of the client %v", a, b)
	}
	var works []string
	for _, list := range regexp.MustCompile(`\(.*?\)`).FindAllString(needsLinux("x").Error(), -1) {
		works = append(works, strings.FieldsFunc(list, func(r rune) bool { return !unicode.IsLower(r) })...)
	}
	for _, c := range client.Commands() {
		if name := c.Name(); name != "version" && name != "licenses" && name != "help" && !c.Hidden && slices.Contains(works, name) == slices.Contains(onlyOnLinux, name) {
			t.Errorf("of %s, what the client says it can do is not true: %q", name, works)
		}
	}
	for _, name := range onlyOnLinux {
		refusesHere(t, name)
		refusesHere(t, name, "--listen", "127.0.0.1:0", "x")
	}
	for _, name := range benchOnlyOnLinux {
		refusesHere(t, "bench", name, "redis", "--quick")
	}
}

func refusesHere(t *testing.T, args ...string) {
	t.Helper()
	name := args[0]
	if name == "bench" {
		name += " " + args[1]
	}
	out, errs, code := runClient(t, args...)
	if want := "teescope: " + name + " needs Linux: this is the client, "; code != exitUsage || out != "" || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
		t.Errorf("%v: exit status %d, %q, %q", args, code, out, errs)
	}
}

// TestClientWorks: the client's commands answer as those of the full program do.
func TestClientWorks(t *testing.T) {
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = map[string]any{"data": map[string]any{"result": []any{}}}
		if strings.HasSuffix(r.URL.Path, "/findings") {
			answer = web.Findings{Findings: []findings.Record{}, Rules: []findings.RuleStat{}, At: time.Unix(1_800_000_000, 0)}.WithSummary(time.Time{})
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer monitor.Close()
	const result = "../proof/testdata/result.json"
	for _, args := range [][]string{
		{"compare", result}, {"compare", result, "--format", "json"}, {"gate", result}, {"report", result, "--out", filepath.Join(t.TempDir(), "report.html")}, {"verify", result}, {"verify", result, "--json"}, {"explain", result},
		{"claims", "../../experiments/claims/phala-gateway.csv"}, {"explain", "--server", monitor.URL}, {"explain", "--server", monitor.URL, "--json"}, {"bench", "list", "redis"}, {"bench", "list", "--json"}, {"schema", "result"},
	} {
		full, fullErr, fullCode := run(t, args...)
		out, errs, code := runClient(t, args...)
		if code != fullCode || out != full || errs != fullErr || out+errs == "" {
			t.Errorf("%v: exit status %d, %.300q, %.300q; that of the full program %d, %.300q, %.300q", args, code, out, errs, fullCode, full, fullErr)
		}
	}
	if _, errs, code := runClient(t, "bench"); code != exitOK || errs != "" {
		t.Errorf("bench: exit status %d, %q", code, errs)
	}
}

// TestVersion: both programs say what they are.
func TestVersion(t *testing.T) {
	for kind, run := range map[build.Kind]func(*testing.T, ...string) (string, string, int){build.Full: run, build.Client: runClient} {
		out, errs, code := run(t, "version", "--json")
		var got build.Info
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || errs != "" || got.Kind != kind || got.Version != build.Version() {
			t.Errorf("%s: exit status %d, %q, %q, %v", kind, code, out, errs, err)
		}
		if has := got.Prometheus != nil && *got.Prometheus == store.PrometheusVersion; has != (kind == build.Full) {
			t.Errorf("%s: its Prometheus is %v", kind, got.Prometheus)
		}
	}
}
