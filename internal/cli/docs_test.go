package cli

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/store"
)

//go:generate go test -count=1 -run ^TestDocs$ . -update

var update = flag.Bool("update", false, "write the generated documents")

// TestDocs compares the generated documents with the code that they are generated from.
func TestDocs(t *testing.T) {
	for name, want := range map[string]string{
		"../../docs/metrics.md": metricsDoc(t),
		"../../docs/rules.md":   rulesDoc(),
	} {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the code says; run `make generate`", name)
		}
	}
}

func metricsDoc(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the code by `make generate`. A metric that is unavailable on a machine is absent, never 0; " +
		"`teescope doctor` says why.\nValues are in base units; the help text names their origin.\n" +
		"\nSources that use eBPF see only events for which the kernel runs eBPF programs. The kernels of some sandboxes run none while a\n" +
		"CPU runs the sandbox's own agent (init of a Firecracker guest, Linux 6.18): neither for the agent, nor for interrupts of others\n" +
		"in that time, such as the end of a disk request. No counter says how many events are missed.\n")
	seen := map[string]*metric.Desc{} // two sources may share a declaration, but not a name
	section := func(name, doc string, ms []*metric.Desc) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | type | labels | what, and from where |\n|---|---|---|---|\n", name, sentence(doc))
		for _, m := range ms {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
			if other := seen[m.Name]; other != nil && other != m {
				t.Errorf("metric %s is declared twice", m.Name)
			}
			seen[m.Name] = m
			labels := ""
			if len(m.Labels) > 0 {
				labels = "`" + strings.Join(m.Labels, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, cell(m.Help))
		}
	}
	for _, s := range sources.All {
		section(s.Name, s.Doc+notes(s), s.Metrics)
	}
	section("The engine", "About every source.", probe.Metrics)
	section("The store", "About the embedded database.", store.Metrics)
	section("Findings", "About findings and their receivers.", slices.Concat(findingMetrics, notify.Metrics))
	section("The monitor", "The monitor's budget, and what events cost on its host.", []*metric.Desc{budgetDesc, unitCostDesc, memoryCostDesc})
	b.WriteString("\n## Recorded series\n\nComputed by the monitor for long time ranges.\n\n| series | expression | what |\n|---|---|---|\n")
	for _, r := range store.Rules {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", r.Record, cell(r.Expr), cell(r.Doc))
	}
	return b.String()
}

// notes are the parts of a source's section other than metrics.
func notes(s *probe.Source) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n- %s: %s", name, text)
		}
	}
	if s.OptIn {
		line("Off", "by default; switch it on with `sources."+s.Name+".on: true` in the configuration, or on the page.")
	}
	if s.Waits != nil {
		line("On", "while "+s.Waits.For+", and a minute longer; `sources."+s.Name+".on: true` or `false` in the configuration, or the switch on the page, decides instead.")
	}
	for _, l := range s.Levels {
		line("Level `"+l.Name+"`", sentence(l.Doc))
	}
	line("Kernels", s.Kernels)
	for _, n := range s.Needs {
		what := n.For
		if n.Optional {
			what += "; optional: without it this part is missing"
		}
		if n.Open {
			what += "; only when it is opened"
		}
		line("Needs `"+n.Capability+"`", sentence(what))
	}
	line("Cost", s.Cost)
	line("Cannot see", s.Blind)
	if b.Len() == 0 {
		return ""
	}
	return ".\n" + b.String()
}

// rulesExample is the part of a configuration that concerns rules.
const rulesExample = `analysis:
  every: 15s
  long: 5m
  short: 1m
  rules:
    pressure: {off: true}
    syscall_storm:
      short: 30s
      thresholds: {rate: 20k/s, factor: 6}
      subjects:          # match is for the whole subject; the last match counts
      - match: redis.*
        thresholds: {rate: 50k/s}
  own:
  - name: slow_disk
    title: Slow disk
    expr: rate(node_disk_read_time_seconds_total[1m]) / rate(node_disk_reads_completed_total[1m])
    above: 20ms          # or below
    for: 5m
    severity: warning    # or info, or critical
    subject: "{device} on {instance}"
    remedy: Move the data to the faster disk.
    reference: https://wiki.example/disks
`

// TestRulesExample: the document's example is accepted and takes effect.
func TestRulesExample(t *testing.T) {
	c, err := parseConfig([]byte(rulesExample), ".", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Analysis.rules()); n != len(rules.All) || len(c.Analysis.limits) != 3 || c.Analysis.Own[0].rule.Broken != nil {
		t.Errorf("%d rules, limits %v, own rule %+v", n, c.Analysis.limits, c.Analysis.Own[0].rule)
	}
}

func rulesDoc() string {
	var b strings.Builder
	b.WriteString("# Rules\n\nGenerated from the code by `make generate`. A rule opens a finding when it holds on a long and on a short window, and closes\n" +
		"one minute after it last held. A rule whose metrics are missing is not checked, and its answer names what it needs; it never says \"fine\".\n" +
		"Windows that would hold fewer than four readings (`--interval`, `scrape_interval`) are lengthened until they do: read every 15 s or\n" +
		"more often to get the times stated here. Scrape an agent of teescope every 5 s.\n\n" +
		"Set windows, thresholds and your own rules in the file of `--config`, each value with its unit (20k/s, 20 %, 5ms, 64MiB, 10MB/s,\n" +
		"3 cores, or a plain number). SIGHUP reloads the file. `teescope schema config` prints its JSON Schema, for editors that complete and\ncheck YAML:\n\n```yaml\n" + rulesExample + "```\n\n" +
		"The log names each of your expressions that PromQL refuses or whose metrics do not exist, with its line; that rule is not checked, and the\n" +
		"others continue. `above` and `below` compare each element of the result; `for` is how long it must have held.\n")
	for _, r := range rules.All {
		fmt.Fprintf(&b, "\n## %s\n\n`%s`. %s\n\n", r.Title, r.Name, r.Doc)
		if len(r.Needs) > 0 {
			fmt.Fprintf(&b, "Needs `%s`.\n\n", strings.Join(r.Needs, "`, `"))
		}
		for i, th := range r.Thresholds {
			if i == 0 {
				b.WriteString("| threshold | default | what |\n|---|---|---|\n")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", th.Name, formatAmount(th.Default, th.Unit), cell(th.Doc))
		}
		if len(r.Thresholds) > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "What to do: %s\n\nReference: %s\n", r.Remedy, r.Reference)
	}
	return b.String()
}

// sentence makes a text a sentence: sources are named in a few words.
func sentence(s string) string {
	s = strings.ToUpper(s[:1]) + s[1:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	if text, list, ok := strings.Cut(s, ".\n"); ok {
		return text + ".\n" + list
	}
	return s + "."
}

// cell makes a text fit into a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// TestKernelBound: the README states the oldest kernel on which a source that needs BTF
// works.
func TestKernelBound(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`\b(\d+)\.(\d+)\b`)
	var oldest []int
	for _, s := range sources.All {
		v := version.FindStringSubmatch(s.Kernels)
		if v == nil || !strings.Contains(s.Kernels, "BTF") {
			continue
		}
		major, _ := strconv.Atoi(v[1])
		minor, _ := strconv.Atoi(v[2])
		if this := []int{major, minor}; oldest == nil || slices.Compare(this, oldest) < 0 {
			oldest = this
		}
	}
	if want := fmt.Sprintf("Linux %d.%d or newer with BTF", oldest[0], oldest[1]); !strings.Contains(string(b), want) {
		t.Errorf("the README does not say %q, as the sources do", want)
	}
}

// TestArchitectureNamesEveryRoom: the map has a sentence for each package, and names no
// package that does not exist.
func TestArchitectureNamesEveryRoom(t *testing.T) {
	b, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string]bool{}
	for _, top := range []string{"cmd", "internal", "ui"} {
		err := filepath.WalkDir("../../"+top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			ignored := len(f.Comments) > 0 && strings.HasPrefix(f.Comments[0].List[0].Text, "//go:build ignore")
			if !ignored {
				rooms[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(string(b)) {
		name, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "`")
		if !rooms[name] {
			t.Errorf("docs/architecture.md names %s, which is not there", name)
		}
		delete(rooms, name)
	}
	for name := range rooms {
		t.Errorf("docs/architecture.md has no sentence on %s", name)
	}
}
