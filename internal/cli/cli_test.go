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

	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/report/formats"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

var _ query.Querier = (*store.Store)(nil)

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
		t.Run(c, func(t *testing.T) {
			out, errs, code := run(t, strings.Fields(c+" --help")...)
			if code != 0 || errs != "" {
				t.Errorf("%s --help: exit status %d, %s", c, code, errs)
			}
			if !strings.Contains(out, "Examples:\n  teescope "+c) {
				t.Errorf("%s --help has no example:\n%s", c, out)
			}
		})
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
		t.Run(line, func(t *testing.T) {
			said, errs, code := run(t, strings.Fields(line)...)
			if code != exitUsage || said != "" || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s: exit status %d, %q, %q", line, code, said, errs)
			}
		})
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
		t.Run(in, func(t *testing.T) {
			var s observe.Share
			if err := s.Set(in); err != nil || float64(s) != want {
				t.Errorf("share %q: %v, %v; want %v", in, float64(s), err, want)
			}
		})
	}
	for _, in := range []string{"", "%", "0", "0%", "-1%", "NaN", "101%", "lots"} {
		t.Run(in, func(t *testing.T) {
			var s observe.Share
			if err := s.Set(in); err == nil {
				t.Errorf("share %q is accepted as %v", in, float64(s))
			}
		})
	}
	for in, want := range map[string]time.Duration{"15d": 360 * time.Hour, "1.5d": 36 * time.Hour, "36h": 36 * time.Hour} {
		t.Run(in, func(t *testing.T) {
			var d duration
			if err := d.Set(in); err != nil || time.Duration(d) != want {
				t.Errorf("duration %q: %v, %v; want %v", in, time.Duration(d), err, want)
			}
		})
	}
	for _, in := range []string{"", "d", "-1d", "0s", "soon", "1e99d", "NaNd"} {
		t.Run(in, func(t *testing.T) {
			var d duration
			if err := d.Set(in); err == nil {
				t.Errorf("duration %q is accepted as %v", in, time.Duration(d))
			}
		})
	}
}

// allMetrics is every declared metric of the program, with its list.
func allMetrics() map[string]*metric.Desc {
	out := map[string]*metric.Desc{observe.BudgetDesc.Name: observe.BudgetDesc, observe.UnitCostDesc.Name: observe.UnitCostDesc, monitor.MemoryCostDesc.Name: monitor.MemoryCostDesc}
	for _, s := range sources.All {
		for _, d := range s.Metrics {
			out[d.Name] = d
		}
	}
	for _, list := range [][]*metric.Desc{probe.Metrics, store.Metrics, monitor.FindingMetrics, notify.Metrics, quota.Metrics} {
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
	_, _, err := observe.InspectMachine(host.At(root))
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
