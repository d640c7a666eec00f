package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/probe/sources"
)

// TestConfigAsJSON: JSON is YAML, on one line or on many, in any order.
func TestConfigAsJSON(t *testing.T) {
	const (
		disk = `"sources": {"disk": {"on": true}}`
		job  = `"scrape_configs": [{"job_name": "my-service", "static_configs": [{"targets": ["127.0.0.1:18080"]}]}]`
	)
	for name, text := range map[string]string{
		"ours first": "{" + disk + ", " + job + "}\n",
		"ours last":  "{" + job + ", " + disk + "}\n",
		"alone":      "{" + job + "}",
		"lines":      "{\n\t" + strings.ReplaceAll(job, "[", "[\n\t\t") + ",\n\t" + disk + "\n}\n",
		"escapes":    `{"dashboards": [], "scrape_configs": [{"job_name": "my\u002dservice", "metrics_path": "\/metrics\"\\\/", "static_configs": [{"targets": ["127.0.0.1:18080"], "labels": {"who": "\ud83d\ude00\u00e9", "bad": "\ud83d"}}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse([]byte(text), ".", sources.All)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if got := c.scrape.Jobs(); !slices.Equal(got, []string{"my-service"}) {
				t.Errorf("%s: the jobs are %q", name, got)
			}
			if s := c.Sources["disk"]; strings.HasPrefix(name, "ours") && (s.On == nil || !*s.On) {
				t.Errorf("%s: the source is %+v", name, s)
			}
		})
	}
	for in, want := range map[string]string{
		`{"analysis": {"every": "soon"}, "sources": {"cpu": {"on": true}}}`:                                   `line 1: analysis.every: "soon": want a time like 15s`,
		`{"analysis": {"every": "x"}, "sources": {"cpu": {"sample": "x"}}}`:                                   "line 1: \"x\": want a time like 15s\nline 1: \"x\": want a number",
		`{"sources": {"cpu": {"on": true}}, "scrape_configs": [{"job_name": "a"}, {"job_name": "a"}]}`:        `line 1: scrape_configs: found multiple scrape configs with job name "a"`,
		"{\"sources\": {\"cpu\": {\"on\": true}},\n\"scrape_configs\": [{\"job_name\": \"a\",\n\"foo\": 1}]}": "line 3: unknown key foo",
		"{}\n---\n{}": "line 2: a second YAML document; want one",
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := Parse([]byte(in), ".", sources.All); err == nil || err.Error() != want {
				t.Errorf("%q: %v, want %s", in, err, want)
			}
		})
	}
}

// checkConfig parses a configuration and checks the promise: what the file has is there, or the file is refused with line
// and reason.
func checkConfig(t *testing.T, text []byte) {
	t.Helper()
	c, err := Parse(text, ".", sources.All)
	if err != nil {
		if !refusedWhere.MatchString(err.Error()) {
			t.Errorf("%.300q is refused with %q, want the line", text, err)
		}
		return
	}
	var file struct {
		Sources map[string]any
		Jobs    []struct {
			Name string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
		Analysis struct {
			Own   []any
			Rules map[string]any
		}
		Notify      struct{ Webhooks, Alertmanager []any }
		RemoteWrite []any `yaml:"remote_write"`
	}
	if err := yaml.Unmarshal(configfile.AsYAML(text), &file); err != nil {
		t.Errorf("%.300q is taken, but %v", text, err)
	}
	var jobs []string
	for _, j := range file.Jobs {
		jobs = append(jobs, j.Name)
	}
	got, want := [6]int{len(c.Sources), len(c.Analysis.Own), len(c.Analysis.Rules), len(c.Notify.receivers), len(c.scrape.Jobs()), c.scrape.Receivers()},
		[6]int{len(file.Sources), len(file.Analysis.Own), len(file.Analysis.Rules), len(file.Notify.Webhooks) + len(file.Notify.Alertmanager), len(jobs), len(file.RemoteWrite)}
	if got != want || !slices.Equal(c.scrape.Jobs(), jobs) {
		t.Errorf("%.300q gives %v sources, own rules, rules, receivers, jobs (%q) and receivers of remote_write, want %v (%q)", text, got, c.scrape.Jobs(), want, jobs)
	}
}

// refusedWhere is a line, or an error of the YAML library about the whole text.
var refusedWhere = regexp.MustCompile(`\bline [1-9]|^(control characters are not allowed|invalid |incomplete |unknown anchor|anchor |document contains excessive)`)

// TestDamagedConfig: whatever is damaged, what the file has is there, or the file is refused.
func TestDamagedConfig(t *testing.T) {
	text, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Parse(text, ".", sources.All); err != nil || len(c.Notify.receivers) != 1 || len(c.Analysis.Own) != 1 {
		t.Fatalf("the sound one: %+v, %v", c, err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	one, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for form, b := range map[string][]byte{"YAML": text, "JSON": one} {
		for m := range mutate.Lines(b, " \n:[]{},\"") {
			t.Run(form+", "+m.Name, func(t *testing.T) { checkConfig(t, m.Data) })
		}
	}
}

// TestAgentConfig: an agent refuses each section that it would ignore, with its line.
func TestAgentConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	for text, want := range map[string]string{
		"sources: {disk: {on: true}}\nrequests: []\n": "",
		"{}": "",
		"sources: {}\nscrape_configs:\n- job_name: a\nanalysis: {every: 15s}\n": "line 4: analysis: an agent evaluates no rules; it belongs in the configuration of a monitor\n" +
			"line 2: scrape_configs: an agent without remote_write scrapes nothing; it belongs in the configuration of a monitor",
		`{"notify": {}, "dashboards": [], "global": {}}`: "line 1: notify: an agent has no findings to send; it belongs in the configuration of a monitor\n" +
			"line 1: dashboards: an agent serves no page; it belongs in the configuration of a monitor\n" +
			"line 1: global: an agent without remote_write scrapes nothing; it belongs in the configuration of a monitor",
	} {
		t.Run(text, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if want != "" {
				want = "configuration " + file + ": " + want
			}
			if _, err := Reader(true)(file, sources.All); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
			if _, err := Reader(false)(file, sources.All); err != nil {
				t.Errorf("%q: a monitor refuses it: %v", text, err)
			}
		})
	}
}

func TestParseConfig(t *testing.T) {
	c, err := Parse([]byte(`
sources:
  syscalls: {on: true, process: redis}
global:
  scrape_interval: 10s
analysis:
  every: 5s
  long: 2m
  rules:
    syscall_storm: {short: 30s}
scrape_configs:
- job_name: app
  static_configs:
  - targets: [127.0.0.1:1]
`), ".", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Analysis.Options()
	if o.Every != 5*time.Second || o.Windows.Long != 2*time.Minute || o.PerRule["syscall_storm"] != (findings.Windows{Long: 2 * time.Minute, Short: 30 * time.Second}) {
		t.Errorf("options %+v", o)
	}
	if *c.Sources["syscalls"].Process != "redis" {
		t.Errorf("sources %+v", c.Sources)
	}
	if jobs := c.scrape.Jobs(); !slices.Equal(jobs, []string{"app"}) {
		t.Errorf("scrape jobs %q", jobs)
	}
	if c, err := Parse(nil, ".", sources.All); err != nil || len(c.scrape.Jobs()) != 0 {
		t.Errorf("an empty file: %+v, %v", c, err)
	}
}

// TestConfigErrors: line, key and the expected value, in the file's own terms.
func TestConfigErrors(t *testing.T) {
	for in, want := range map[string]string{
		"foo: 1\n":                               "line 1: foo is not a known key",
		"two words: 1\n":                         "line 1: two words is not a known key",
		"foo: 1\nbar: 2\n":                       "line 1: foo is not a known key\nline 2: bar is not a known key",
		"analysis:\n  long: 5m\n  every: soon\n": `line 3: analysis.every: "soon": want a time like 15s`,
		"analysis:\n  every: 15\n":               `line 2: analysis.every: "15": want a time like 15s`,
		"analysis: {every: 15}\n":                `line 1: analysis.every: "15": want a time like 15s`,
		"analysis:\n  rules:\n    syscall_storm: {long: x}\n": `line 3: analysis.rules.syscall_storm.long: "x": want a time like 15s`,
		"analysis: {}\nsources:\n  cpu:\n    on: maybe\n":     `line 4: sources.cpu.on: "maybe": want true or false`,
		"sources:\n  cpu:\n    process: [a]\n":                "line 3: sources.cpu.process: want text",
		"sources:\n  cpu:\n    auto: true\n":                  "line 3: sources.cpu.auto: this source does not wait for a process; set on instead",
		"sources:\n  gramine: {auto: true, on: true}\n":       "line 2: sources.gramine.auto: contradicts on; set one of them",
		"sources:\n  syscalls:\n    sample: lots\n":           `line 3: sources.syscalls.sample: "lots": want a number`,
		"sources:\n  syscalls:\n    pids: [a]\n":              `line 3: sources.syscalls.pids: "a": want a whole number`,
		"sources:\n  syscalls:\n    pids: 4\n":                `line 3: sources.syscalls.pids: "4": want a list like [1, 2]`,
		"sources:\n- cpu\n":                                   "line 2: sources: want keys with values",
		"[1, 2]\n":                                            "line 1: want keys with values",
		"hello\n":                                             `line 1: "hello": want keys with values`,
		"analysis:\n  every: 5s\nanalysis:\n  long: 5m\n":     `line 3: mapping key "analysis" already defined at line 1`,
		"analysis:\n\tevery: 5s\n":                            "line 2: found character that cannot start any token",
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := Parse([]byte(in), ".", sources.All); err == nil || err.Error() != want {
				t.Errorf("%q: %v, want %s", in, err, want)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("sources:\n  syscalls: {on: true}\n"))
	f.Add([]byte("scrape_configs:\n- job_name: a\n"))
	f.Add([]byte("analysis: {every: 5s, rules: {x: {long: 1s}}}\n"))
	f.Add([]byte("analysis: {rules: {cpu_steal: {off: true, thresholds: {share: 5 %}, subjects: [{match: a.*, thresholds: {share: 1}}]}}}\n"))
	f.Add([]byte("analysis:\n  own:\n  - {name: a, expr: up, below: 1, for: 5m, subject: \"{job}\"}\n"))
	f.Add([]byte("a: &a [*a]\n---\n"))
	f.Add([]byte(`{"sources": {"disk": {"on": true}}, "scrape_configs": [{"job_name": "\ud83d\ude00\/"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) { checkConfig(t, b) })
}

// TestOperatorNames: the configuration of a monitor and of an agent names operators, each once.
func TestOperatorNames(t *testing.T) {
	for text, want := range map[string]string{
		"operators: [alice, ops.example.org]": "",
		"operators: []":                       "",
		"operators: [a, '']":                  `line 1: operators[1]: "": want a name of`,
		"operators: [a, a]":                   `line 1: operators[1]: "a" is there twice`,
		"operators: alice":                    "want a list of texts",
	} {
		t.Run(text, func(t *testing.T) {
			c, err := Parse([]byte(text), ".", sources.All)
			if want == "" && (err != nil || c.unused != nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v %v, want %q", text, err, c.unused, want)
			}
		})
	}
}
