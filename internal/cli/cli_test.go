package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/report/formats"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

var _ findings.Querier = (*store.Store)(nil)

// run is the command line without a process.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errb bytes.Buffer
	code = Main(t.Context(), Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errb})
	return out.String(), errb.String(), code
}

// TestHelp: every command has a summary, an example and help on stdout.
func TestHelp(t *testing.T) {
	for _, c := range []string{"", "doctor", "monitor", "agent", "explain", "bench", "bench list", "bench run", "bench calibrate", "bench plan", "bench commits", "compare", "gate",
		"report", "history", "history add", "history show", "history detect", "claims", "attest", "verify", "open", "schema", "version"} {
		out, errs, code := run(t, strings.Fields(c+" --help")...)
		if code != 0 || errs != "" {
			t.Errorf("%s --help: exit status %d, %s", c, code, errs)
		}
		if !strings.Contains(out, "Examples:\n  teescope "+c) {
			t.Errorf("%s --help has no example:\n%s", c, out)
		}
	}
}

// broken is a writer that panics.
type broken struct{}

func (broken) Write([]byte) (int, error) { panic("planted in a writer") }

// TestPanicInCommand: a command that panics ends with one error, which names its files and, where a format did, the format.
func TestPanicInCommand(t *testing.T) {
	file := someResult(t, "result.json")
	old := formats.All
	t.Cleanup(func() { formats.All = old })
	formats.All = append(slices.Clone(old), &report.Format{Name: "planted", Print: func(io.Writer, report.Document) error { panic("planted in a format") }})
	out := filepath.Join(t.TempDir(), "out")
	for line, want := range map[string]string{
		"compare --format planted " + file:                  "teescope: " + file + ": writing the format planted crashed: planted in a format (",
		"report --format planted --out - " + file:           "teescope: " + file + ": writing the format planted crashed: planted in a format (",
		"report --format planted --out " + out + " " + file: "teescope: write " + out + ": " + file + ": writing the format planted crashed: planted in a format (",
	} {
		said, errs, code := run(t, strings.Fields(line)...)
		if code != exitUsage || said != "" || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit status %d, %q, %q", line, code, said, errs)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the file of a format that panicked: %v", err)
	}
	var errs bytes.Buffer
	code := Main(t.Context(), Env{Args: []string{"schema", "result"}, Stdin: strings.NewReader(""), Stdout: broken{}, Stderr: &errs})
	if want := "teescope: teescope schema result crashed: planted in a writer ("; code != exitUsage || !strings.HasPrefix(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("exit status %d, %q", code, errs.String())
	}
}

func TestFlags(t *testing.T) {
	for in, want := range map[string]float64{"1%": 0.01, "0.5%": 0.005, "0.02": 0.02, "100%": 1} {
		var s observe.Share
		if err := s.Set(in); err != nil || float64(s) != want {
			t.Errorf("share %q: %v, %v; want %v", in, float64(s), err, want)
		}
	}
	for _, in := range []string{"", "%", "0", "0%", "-1%", "NaN", "101%", "lots"} {
		var s observe.Share
		if err := s.Set(in); err == nil {
			t.Errorf("share %q is accepted as %v", in, float64(s))
		}
	}
	for in, want := range map[string]time.Duration{"15d": 360 * time.Hour, "1.5d": 36 * time.Hour, "36h": 36 * time.Hour} {
		var d duration
		if err := d.Set(in); err != nil || time.Duration(d) != want {
			t.Errorf("duration %q: %v, %v; want %v", in, time.Duration(d), err, want)
		}
	}
	for _, in := range []string{"", "d", "-1d", "0s", "soon", "1e99d", "NaNd"} {
		var d duration
		if err := d.Set(in); err == nil {
			t.Errorf("duration %q is accepted as %v", in, time.Duration(d))
		}
	}
}

func TestParseConfig(t *testing.T) {
	c, err := parseConfig([]byte(`
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
	o := c.Analysis.options()
	if o.Every != 5*time.Second || o.Windows.Long != 2*time.Minute || o.PerRule["syscall_storm"] != (findings.Windows{Long: 2 * time.Minute, Short: 30 * time.Second}) {
		t.Errorf("options %+v", o)
	}
	if *c.Sources["syscalls"].Process != "redis" {
		t.Errorf("sources %+v", c.Sources)
	}
	if jobs := c.scrape.Jobs(); !slices.Equal(jobs, []string{"app"}) {
		t.Errorf("scrape jobs %q", jobs)
	}
	if c, err := parseConfig(nil, ".", sources.All); err != nil || len(c.scrape.Jobs()) != 0 {
		t.Errorf("an empty file: %+v, %v", c, err)
	}
}

// TestConfigErrors: line, key and the expected value, in the file's own terms.
func TestConfigErrors(t *testing.T) {
	for in, want := range map[string]string{
		"foo: 1\n":                                            "line 1: foo is not a known key",
		"foo: 1\nbar: 2\n":                                    "line 1: foo is not a known key\nline 2: bar is not a known key",
		"analysis:\n  long: 5m\n  every: soon\n":              `line 3: analysis.every: "soon": want a time like 15s`,
		"analysis:\n  every: 15\n":                            `line 2: analysis.every: "15": want a time like 15s`,
		"analysis: {every: 15}\n":                             `line 1: analysis.every: "15": want a time like 15s`,
		"analysis:\n  rules:\n    syscall_storm: {long: x}\n": `line 3: analysis.rules.syscall_storm.long: "x": want a time like 15s`,
		"analysis: {}\nsources:\n  cpu:\n    on: maybe\n":     `line 4: sources.cpu.on: "maybe": want true or false`,
		"sources:\n  cpu:\n    process: [a]\n":                "line 3: sources.cpu.process: want text",
		"sources:\n  cpu:\n    auto: true\n":                  "line 3: sources.cpu.auto: the source waits for nothing; set on",
		"sources:\n  gramine: {auto: true, on: true}\n":       "line 2: sources.gramine.auto: on says the opposite; set one of them",
		"sources:\n  syscalls:\n    sample: lots\n":           `line 3: sources.syscalls.sample: "lots": want a number`,
		"sources:\n  syscalls:\n    pids: [a]\n":              `line 3: sources.syscalls.pids: "a": want a whole number`,
		"sources:\n  syscalls:\n    pids: 4\n":                `line 3: sources.syscalls.pids: "4": want a list like [1, 2]`,
		"sources:\n- cpu\n":                                   "line 2: sources: want keys with values",
		"[1, 2]\n":                                            "line 1: want keys with values",
		"hello\n":                                             `line 1: "hello": want keys with values`,
		"analysis:\n  every: 5s\nanalysis:\n  long: 5m\n":     `line 3: mapping key "analysis" already defined at line 1`,
		"analysis:\n\tevery: 5s\n":                            "line 2: found character that cannot start any token",
	} {
		if _, err := parseConfig([]byte(in), ".", sources.All); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
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

// allMetrics is every declared metric of the program, with its list.
func allMetrics() map[string]*metric.Desc {
	out := map[string]*metric.Desc{observe.BudgetDesc.Name: observe.BudgetDesc, observe.UnitCostDesc.Name: observe.UnitCostDesc, memoryCostDesc.Name: memoryCostDesc}
	for _, s := range sources.All {
		for _, d := range s.Metrics {
			out[d.Name] = d
		}
	}
	for _, list := range [][]*metric.Desc{probe.Metrics, store.Metrics, findingMetrics, notify.Metrics, quota.Metrics} {
		for _, d := range list {
			out[d.Name] = d
		}
	}
	return out
}

// TestRulesNameMetrics: rules name metrics as text, so a renamed metric would silence
// its rule; here the lists meet.
func TestRulesNameMetrics(t *testing.T) {
	known := allMetrics()
	for _, r := range rules.All {
		for _, n := range r.Needs {
			if known[n] == nil {
				t.Errorf("rule %s needs %s, which nothing emits", r.Name, n)
			}
		}
	}
}

func TestNaming(t *testing.T) {
	for _, d := range allMetrics() {
		if err := d.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestLookNamesWhatBlocks: if a file blocks before any source is open, the program ends
// and names it instead of hanging.
func TestLookNamesWhatBlocks(t *testing.T) {
	t.Parallel() // it takes as long as look's patience
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(root, "proc", "meminfo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := observe.Look(host.At(root))
	if err == nil || !strings.Contains(err.Error(), "/proc/meminfo") {
		t.Errorf("look: %v; want the file that blocks", err)
	}
	if w, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil { // whoever waits goes on
		_ = w.Close()
	}
}

// TestDoctorTable: one line and the same columns for every source, whatever its state.
func TestDoctorTable(t *testing.T) {
	d := diagnosis{Sources: []web.Source{
		{Name: "a", State: "available"},
		{Name: "long_name", State: "degraded", Reason: "one\nand another", Remedy: "do this"},
		{Name: "b", State: "available"},
	}}
	var out strings.Builder
	if err := d.print(&out); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.String(), "\n\n")
	want := "SOURCE     STATE      WHY, AND WHAT WOULD HELP\n" +
		"a          available\n" +
		"long_name  degraded   one; and another; do this\n" +
		"b          available\n"
	if table, _, _ = strings.Cut(table, "\n\n"); strings.TrimSuffix(table, "\n") != strings.TrimSuffix(want, "\n") {
		t.Errorf("table:\n%s\nwant:\n%s", table, want)
	}
}
