package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/teescope/teescope/internal/result"
)

// secretMarker is in each place of a text where a secret is.
const secretMarker = "s3cretMarker"

// hostileText controls a terminal, and has secrets as command lines and URLs have them.
const hostileText = "=x \x1b]0;pwned\a\x1b[31m \u0085\u009b31m \u202e \u2066 \u2028 https://user:" + secretMarker + "@host.example/?key=" + secretMarker + "&a=b&key=" + secretMarker + " prog --password " + secretMarker +
	" API_TOKEN=" + secretMarker + " 'Authorization: Bearer " + secretMarker + "'"

// hostileResult is a result in which each text that the schema leaves free is hostile, too. It returns the names of these texts.
func hostileResult(t *testing.T, path string) (names []string) {
	t.Helper()
	b, err := os.ReadFile("../proof/testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "digest")
	all := map[string]bool{}
	var spoil func(v any, name, only string) any
	spoil = func(v any, name, only string) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k := range v {
				out[k] = spoil(v[k], k, only)
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = spoil(v[i], name, only)
			}
			return out
		case string:
			all[name] = true
			if name == only {
				return v + hostileText
			}
		}
		return v
	}
	spoil(doc, "", "")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spoiled, _ := spoil(doc, "", name).(map[string]any)
		text, err := json.Marshal(spoiled)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := result.Parse(text); err == nil { // else it is a name or number in the form of a text
			doc, names = spoiled, append(names, name)
		}
	}
	command, _ := doc["tool"].(map[string]any)
	command["command"] = []any{"teescope", "bench", "run", "--param", "command=redis-cli -a " + secretMarker, "--token", secretMarker, hostileText}
	if b, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestOutputIsPrintable: whatever documents, servers, configurations and arguments contain, no command writes a control character but line
// feed and tab, and no secret, to its outputs or into a file. The commands are those of the program, so a new one is tried too.
func TestOutputIsPrintable(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.Mkdir(in, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", in)
	document := filepath.Join(in, "result.json")
	if names := hostileResult(t, document); len(names) < 30 {
		t.Fatalf("only %q are hostile", names)
	}
	t.Chdir(dir)
	files := []string{document, filepath.Join(in, "none \x1b]0;x\a\u202e --password "+secretMarker)}
	quoted, err := json.Marshal(hostileText)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config.yaml":   "remote_write:\n- {url: " + string(quoted) + "}\n",
		"unknown.yaml":  string(quoted) + ": 1\n",
		"notify.yaml":   "notify: {webhooks: [{url: 'https://user:" + secretMarker + "@host/?key=" + secretMarker + "', format: " + string(quoted) + "}]}\n",
		"workload.yaml": "name: x\nworkload: custom\nenvs: [{label: a, launcher: native}]\nparams: {command: " + string(quoted) + "}\n",
		"broken.json":   hostileText,
	} {
		path := filepath.Join(in, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "explain") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprintf(w, `{"error": %s, "text": %[1]s, "headline": %[1]s, "status": "success", "reasons": [%[1]s]}`, quoted)
	}))
	defer server.Close()
	asked := strings.Replace(server.URL, "http://", "http://user:"+secretMarker+"@", 1)

	tried, printed := 0, 0
	try := func(args ...string) {
		tried++
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a command that would go on ends
		var out, errs strings.Builder
		Main(ctx, Env{Args: args, Stdin: strings.NewReader(hostileText), Stdout: &out, Stderr: &errs})
		for name, text := range map[string]string{"standard output": out.String(), "standard error": errs.String()} {
			printed += len(text)
			if bad := unprintable(text); bad != "" {
				t.Errorf("%q: %s has %s", args, name, bad)
			}
		}
	}
	for _, c := range commandsBelow(rootCommand(Env{})) {
		words := strings.Fields(c.CommandPath())[1:]
		with := func(more ...string) []string { return append(slices.Clone(words), more...) }
		try(with("--help")...)
		try(with("--" + hostileText)...)
		try(with(hostileText)...)
		if c.Name() == "list" { // bench list looks for all programs, which takes seconds, before it reads its arguments
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { // the argument ends commands that take none before they start
			try(with("--"+f.Name+"="+hostileText, hostileText)...)
		})
		if c.Args != nil && c.Args(c, []string{document}) != nil && c.Args(c, []string{document, document}) != nil {
			if c.Flags().Lookup("config") != nil {
				for _, f := range files[1:] {
					try(with("--config", f)...)
				}
			}
			if c.Flags().Lookup("server") != nil && c.Name() != "doctor" {
				try(with("--server", asked)...)
			}
			continue
		}
		for _, f := range files {
			try(with(f)...)
			try(with(f, f)...)
		}
		if c.Flags().Lookup("json") != nil {
			try(with("--json", document)...)
		}
		if c.Flags().Lookup("server") != nil {
			try(with("--server", asked, "x")...)
		}
		if f := c.Flags().Lookup("format"); f != nil {
			for _, name := range strings.FieldsFunc(formatNames(), func(r rune) bool { return r == ' ' || r == ',' }) {
				try(with("--format", name, document)...)
				if c.Flags().Lookup("out") != nil {
					try(with("--format", name, "--out", "out-"+name, document)...)
				}
			}
		}
	}
	written := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == in {
			return err
		}
		b, err := os.ReadFile(path)
		written++
		if bad := unprintable(string(b)); bad != "" {
			t.Errorf("the file %s has %s", path, bad)
		}
		return err
	})
	if err != nil || tried < 200 || printed < 100_000 || written < 8 {
		t.Errorf("%d commands, %d bytes printed, %d files written, %v", tried, printed, written, err)
	}
}

// commandsBelow returns a command's commands that do something.
func commandsBelow(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Runnable() {
			all = append(all, sub)
		}
		all = append(all, commandsBelow(sub)...)
	}
	return all
}

// unprintable says what a text has that no output may have.
func unprintable(text string) string {
	if i := strings.Index(text, secretMarker); i >= 0 {
		return fmt.Sprintf("a secret: %q", text[max(0, i-80):min(len(text), i+20)])
	}
	for i, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) || strings.HasPrefix(text[i:], "\xff") {
			return fmt.Sprintf("the character %U: %q", r, text[max(0, i-80):min(len(text), i+20)])
		}
	}
	return ""
}
