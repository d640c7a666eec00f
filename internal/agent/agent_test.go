package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefused: what teescope-agent cannot do is one line, before a port is opened.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		args   []string
		want   string
	}{
		"a queue":              {"remote_write:\n- url: http://127.0.0.1:1\n", nil, "line 1: remote_write: this program serves /metrics and sends nothing; `teescope agent` of the full program sends"},
		"sections of monitors": {"sources: {}\nanalysis: {}\nscrape_configs: []\n", nil, "line 2: analysis: an agent evaluates no rules; it belongs in the configuration of a monitor; line 3: scrape_configs: "},
		"a source's setting":   {"sources: {syscalls: {on: perhaps}}\n", nil, `line 1: sources.syscalls.on: "perhaps": want true or false`},
		"no such source":       {"sources: {syscals: {on: true}}\n", nil, "line 1: sources.syscals: no such source"},
		"a server":             {"requests:\n- {process: a, app: mysql}\n", nil, `line 2: requests: app: "mysql": want one of redis`},
		"an operator":          {"operators: ['']\n", nil, `line 1: operators[0]: "": want a name`},
		"an unknown section":   {"surces: {}\n", nil, "line 1: surces is not a known key"},
		"a flag":               {"", []string{"--lisen=127.0.0.1:0"}, "unknown flag: --lisen; see `teescope-agent --help`"},
		"a command":            {"", []string{"monitor"}, `unknown command "monitor" for "teescope-agent"`},
		"everybody":            {"", []string{"--listen", "0.0.0.0:0"}, "other machines reach this address"},
	} {
		t.Run(name, func(t *testing.T) {
			args := c.args
			if c.config != "" {
				file := filepath.Join(t.TempDir(), "agent.yaml")
				if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--config", file)
			}
			var out, errs bytes.Buffer
			if code := Main(t.Context(), args, &out, &errs); code != exitError || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), c.want) {
				t.Errorf("exit status %d, %q, %q, want %q", code, &out, &errs, c.want)
			}
		})
	}
}

// TestSharedSections: a configuration of shared sections is read as a monitor reads it.
func TestSharedSections(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.yaml")
	text := "sources: {syscalls: {on: false}}\noperators: [ann]\nrequests:\n- {process: redis-server, app: redis, address: 127.0.0.1:6379, password_file: redis.password}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(file, nil); err == nil || !strings.Contains(err.Error(), "no such source") {
		t.Errorf("without sources: %v", err)
	}
	if err := os.WriteFile(file, []byte(text[strings.Index(text, "\n")+1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readConfig(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Shared()
	if len(s.Targets()) != 1 || s.Targets()[0].PasswordFile != filepath.Join(dir, "redis.password") || strings.Join(s.Operators, " ") != "ann" {
		t.Errorf("got %+v", s)
	}
	if c, err = readConfig("", nil); err != nil || len(c.Shared().Targets()) != 0 {
		t.Errorf("without a file: %+v, %v", c, err)
	}
}
