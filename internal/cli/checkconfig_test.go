package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckConfig: the line and the key of a fault, and an exit status for scripts.
func TestCheckConfig(t *testing.T) {
	for text, want := range map[string]struct {
		code  int
		words string
	}{
		"":                            {exitOK, "no errors"},
		"analysis: {every: 30s}\n":    {exitOK, "no errors"},
		"notify:\n  min_severty: a\n": {exitRegression, "line 2: min_severty is not a known key"},
		"analysis:\n  own:\n  - {name: a, title: A, expr: 'up(', above: 1}\n":                      {exitRegression, "line 3: analysis.own[0].expr: rule a is not checked"},
		"analysis:\n  own:\n  - {name: a, title: A, expr: 'ours_total > 1', above: 1, unit: ''}\n": {exitOK, "rule a reads ours_total"},
		"a: [\n": {exitRegression, "line 1"},
	} {
		t.Run(text, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs, code := run(t, "check-config", file, "--probes", t.TempDir())
			if code != want.code || !strings.Contains(out+errs, want.words) {
				t.Errorf("%q: status %d, %q and %q; want %d, %q", text, code, out, errs, want.code, want.words)
			}
		})
	}
	if _, errs, code := run(t, "check-config", filepath.Join(t.TempDir(), "none.yaml")); code != exitUsage || !strings.Contains(errs, "none.yaml") {
		t.Errorf("without a file: status %d, %q", code, errs)
	}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("notify: {min_severity: info}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, "check-config", "--agent", file, "--probes", t.TempDir()); code != exitRegression || !strings.Contains(errs, "line 1: notify") {
		t.Errorf("of an agent: status %d, %q", code, errs)
	}
}

// TestCheckConfigOfAPipe: what can be read once is read once.
func TestCheckConfigOfAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = w.WriteString("notify: {min_severty: a}\n")
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(t, "check-config", fmt.Sprintf("/proc/self/fd/%d", r.Fd()), "--probes", t.TempDir())
	if code != exitRegression || !strings.Contains(errs, "min_severty is not a known key") {
		t.Errorf("status %d, %q and %q", code, out, errs)
	}
}

// TestCheckConfigReadsNoSecrets: the files of tls_config are read, so that a wrong one is a fault; other secrets are not.
func TestCheckConfigReadsNoSecrets(t *testing.T) {
	for settings, want := range map[string]int{
		"basic_auth: {username: u, password_file: /none}": exitOK,
		"authorization: {credentials_file: /none}":        exitOK,
		"headers_from: {X-Token: /none}":                  exitOK,
		"tls_config: {ca_file: /none}":                    exitRegression,
		"tls_config: {cert_file: /none, key_file: /none}": exitRegression,
	} {
		t.Run(settings, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "c.yaml")
			text := "notify: {webhooks: [{url: 'https://127.0.0.1:1/', " + settings + "}]}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, errs, code := run(t, "check-config", file, "--probes", t.TempDir()); code != want {
				t.Errorf("%s: status %d, %q and %q; want %d", settings, code, out, errs, want)
			}
		})
	}
}

// TestAgentRefusesSections: an agent names the sections of a monitor in one line, before it opens a port.
func TestAgentRefusesSections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("notify: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, "agent", "--config", file, "--listen", "127.0.0.1:0"); code != exitUsage || !strings.Contains(errs, "line 1: notify: ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("the agent: exit status %d, %s", code, errs)
	}
}
