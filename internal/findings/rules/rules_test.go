package rules

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
	"github.com/teescope/teescope/internal/tee"
)

var update = flag.Bool("update", false, "write what the rules say into the fixtures")

// answers maps the first word of a fixture's name to the expected answer.
var answers = map[string]findings.Answer{
	"fires":       findings.Fires,
	"silent":      findings.Silent,
	"cannot-tell": findings.CannotTell,
}

// TestRules runs each rule on its fixtures. A fixture is testdata/RULE/ANSWER*.txtar
// and holds the files
//
//	load   series in PromQL test notation, the first column at 0
//	at     the time of the evaluation since then ("10m"); the monitor began at 0
//	error  the error of every target's last scrape; may be absent
//	store  why the store refuses samples, empty where it takes them; absent: it is not known
//	apart  the time between two readings, where that is not the default of 5 s
//	facts  what is known of TEEs, as JSON; may be absent
//	want   what the rule says
func TestRules(t *testing.T) {
	for _, r := range All {
		for _, file := range fixturesOf(t, r) {
			t.Run(strings.TrimPrefix(file, "testdata/"), func(t *testing.T) {
				kind, ok := kindOf(filepath.Base(file))
				if !ok {
					t.Fatalf("%s: its name begins with none of fires, silent and cannot-tell", file)
				}
				checkFixture(t, r, file, answers[kind])
			})
		}
	}
}

// TestRulesHaveFixtures: each rule has a fixture of every answer.
func TestRulesHaveFixtures(t *testing.T) {
	for _, r := range All {
		t.Run(r.Name, func(t *testing.T) {
			for kind := range answers {
				if !slices.ContainsFunc(fixturesOf(t, r), func(file string) bool { k, _ := kindOf(filepath.Base(file)); return k == kind }) {
					t.Errorf("rule %s has no fixture testdata/%s/%s*.txtar", r.Name, r.Name, kind)
				}
			}
		})
	}
}

func fixturesOf(t *testing.T, r *findings.Rule) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", r.Name, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestNoOrphans fails for fixtures without a rule.
func TestNoOrphans(t *testing.T) {
	dirs, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if !slices.ContainsFunc(All, func(r *findings.Rule) bool { return r.Name == d.Name() }) {
			t.Errorf("testdata/%s belongs to no rule", d.Name())
		}
	}
}

// TestFiles: a rule with code of its own is in the file of its name.
func TestFiles(t *testing.T) {
	for _, r := range computed {
		if _, err := os.Stat(r.Name + ".go"); err != nil {
			t.Errorf("rule %s: %v", r.Name, err)
		}
	}
}

// TestCausesAreRules: a cause of lost time has the name and the advice of the rule that finds it.
func TestCausesAreRules(t *testing.T) {
	for _, c := range causes.All {
		i := slices.IndexFunc(All, func(r *findings.Rule) bool { return r.Name == c.Name })
		if i < 0 {
			t.Errorf("cause %s: no rule has that name", c.Name)
		} else if All[i].Remedy != c.Remedy {
			t.Errorf("cause %s advises %q, the rule %q", c.Name, c.Remedy, All[i].Remedy)
		}
	}
}

func kindOf(name string) (string, bool) {
	name, ok := strings.CutSuffix(name, ".txtar")
	for kind := range answers {
		if name == kind || strings.HasPrefix(name, kind+"-") {
			return kind, ok
		}
	}
	return "", false
}

func checkFixture(t *testing.T, r *findings.Rule, file string, want findings.Answer) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	part := func(name string) string {
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 {
			return ""
		}
		return string(a.Files[i].Data)
	}
	if part("load") == "" || part("at") == "" {
		t.Fatalf("%s: holds no file load or no file at", file)
	}
	since, err := time.ParseDuration(strings.TrimSpace(part("at")))
	if err != nil {
		t.Fatal(err)
	}
	var facts []tee.Facts
	if f := part("facts"); f != "" {
		if err := json.Unmarshal([]byte(f), &facts); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(0, 0).Add(since)
	st := storetest.Load(t, part("load"))
	o := findings.DefaultOptions()
	o.Now, o.Started, o.Facts = func() time.Time { return at }, time.Unix(0, 0), facts
	o.Absent = func(string) string { return "the fixture has none" }
	o.Source = func(string) string { return "switches" }
	o.Failure = func(string, string) string { return strings.TrimSpace(part("error")) }
	if store := part("store"); store != "" {
		o.Own = query.Machine{Job: "teescope", Instance: "vm1"}
		o.Refusing = func() error {
			if why := strings.TrimSpace(store); why != "" {
				return errors.New(why)
			}
			return nil
		}
	}
	if apart := part("apart"); apart != "" {
		if o.Interval, err = time.ParseDuration(strings.TrimSpace(apart)); err != nil {
			t.Fatal(err)
		}
	}
	e := findings.New([]*findings.Rule{r}, st, o)
	e.Evaluate(t.Context())

	stat := e.Rules()[0]
	if stat.Answer != want {
		t.Errorf("answer is %q (%s), want %q", stat.Answer, stat.Reason, want)
	}
	got := show(stat, e.Records())
	if *update {
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
		if i < 0 {
			a.Files = append(a.Files, txtar.File{Name: "want"})
			i = len(a.Files) - 1
		}
		a.Files[i].Data = []byte(got)
		golden.Write(t, file, txtar.Format(a))
	} else if got != part("want") {
		t.Errorf("the rule says\n%s\nwant\n%s\n(-update accepts it)", got, part("want"))
	}
	for _, rec := range e.Records() {
		checkFinding(t, st, at, rec.Finding)
	}
}

// units are those of evidence and thresholds.
var units = []string{"", "1/s", "ratio", "cores", "seconds", "bytes", "bytes/s"}

// checkFinding asserts what holds for every finding of every rule.
func checkFinding(t *testing.T, q query.Querier, at time.Time, f findings.Finding) {
	t.Helper()
	if f.Subject == "" || f.Remedy == "" || f.Reference == "" || !strings.HasSuffix(f.Title, ".") {
		t.Errorf("finding lacks a subject, a remedy, a reference or a sentence as title: %+v", f)
	}
	if !strings.ContainsAny(f.Title, "0123456789") {
		t.Errorf("title %q has no number", f.Title)
	}
	if f.Cost != "" && (!strings.HasSuffix(f.Cost, ".") || !strings.ContainsAny(f.Cost, "0123456789")) {
		t.Errorf("cost %q is no sentence with a number", f.Cost)
	}
	if len(f.Evidence) < 2 {
		t.Errorf("%d pieces of evidence, want at least 2", len(f.Evidence))
	}
	// What all the evidence is about is the machine of the finding.
	for label, got := range map[string]string{"job": f.Job, "instance": f.Instance} {
		selected := map[string]bool{}
		for _, ev := range f.Evidence {
			for _, m := range regexp.MustCompile(`\b`+label+`="([^"]*)"`).FindAllStringSubmatch(ev.Expr, -1) {
				selected[m[1]] = true
			}
		}
		if len(selected) == 1 && !selected[got] {
			t.Errorf("finding of %s %q, but its evidence is of %v", label, got, selected)
		}
	}
	// A finding about a process ends with it.
	for _, ev := range f.Evidence {
		if m := regexp.MustCompile(`[{,]process="((?:[^"\\\\]|\\\\.)*)"`).FindStringSubmatch(ev.Expr); m != nil && strings.HasPrefix(f.Subject, m[1]) && !strings.Contains(f.Life, `process="`+m[1]+`"`) {
			t.Errorf("evidence about the process %s, but the finding ends with %q", m[1], f.Life)
		}
	}
	// Its title has a past tense, unless it is about the past.
	if past := findings.PastTense(f.Title, f.Subject); past == f.Title && !regexp.MustCompile(` (was|lost|refused|were) `).MatchString(f.Title) {
		t.Errorf("title %q has no verb with a known past tense", f.Title)
	}
	for _, ev := range f.Evidence {
		points, err := q.Query(context.Background(), ev.Expr, at)
		if err != nil || len(points) != 1 || points[0].Value != ev.Value {
			t.Errorf("evidence %q: %s gives %v, %v, want the one value %v", ev.Text, ev.Expr, points, err, ev.Value)
		}
		if ev.Text == "" || !slices.Contains(units, ev.Unit) {
			t.Errorf("evidence %q has unit %q", ev.Text, ev.Unit)
		}
		if math.IsNaN(ev.Value) || math.IsInf(ev.Value, 0) {
			t.Errorf("evidence %q is %v", ev.Text, ev.Value)
		}
	}
	if f.Share != nil && (f.Share[0] < 0 || f.Share[0] > f.Share[1] || f.Share[1] > 1) {
		t.Errorf("share %v is no interval of ratios", *f.Share)
	}
}

// TestOverBudgetAdvice: the advice on a monitor over its budget, and the first part that its sentence names, are about the part
// with most of the CPU time, whatever the numbers are.
func TestOverBudgetAdvice(t *testing.T) {
	rule := All[slices.IndexFunc(All, func(r *findings.Rule) bool { return r.Name == "over_budget" })]
	for _, c := range []struct {
		user, body, dispatch float64 // percent of a core
		kernel               bool
	}{{0.4, 6, 4, true}, {9, 0.8, 0.6, false}, {5, 2.6, 2.6, true}, {5.2, 2.5, 2.5, false}, {0, 4, 4, true}, {4, 0, 0, false}, {4, -1, -1, false}} {
		load := "load 5s\n"
		for part, v := range map[string]float64{"userspace": c.user, "body": c.body, "dispatch": c.dispatch, "page": 50} {
			if v >= 0 {
				load += fmt.Sprintf("  teescope_overhead_cpu_seconds_total{job=\"teescope\",instance=\"vm1\",part=%q} 0+%gx120\n", part, v/100*5)
			}
		}
		load += "  teescope_budget_ratio{job=\"teescope\",instance=\"vm1\"} 0.02x120\n  node_cpu_seconds_total{job=\"teescope\",instance=\"vm1\",cpu=\"0\",mode=\"idle\"} 0+4x120\n"
		o := findings.DefaultOptions()
		o.Now, o.Started = func() time.Time { return time.Unix(600, 0) }, time.Unix(0, 0)
		e := findings.New([]*findings.Rule{rule}, storetest.Load(t, load), o)
		e.Evaluate(t.Context())
		all := e.Records()
		if len(all) != 1 {
			t.Errorf("%+v: %d findings", c, len(all))
			continue
		}
		f, remedy, first := all[0], overBudgetUser, "teescope's own process"
		if c.kernel {
			remedy, first = overBudgetKernel, "teescope's eBPF programs"
		}
		at := func(part string) int { return strings.Index(f.Cost+part, part) }
		if f.Remedy != remedy || at(first) >= len(f.Cost) || at(first) > at("own process") || at(first) > at("eBPF programs") {
			t.Errorf("%+v: %s\n%s", c, f.Cost, f.Remedy)
		}
	}
}

func show(stat findings.RuleStat, recs []findings.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", stat.Answer)
	if stat.Reason != "" {
		fmt.Fprintf(&b, "reason: %s\n", stat.Reason)
	}
	for _, n := range stat.Near {
		fmt.Fprintf(&b, "near: %s\n", n.Text)
	}
	for _, r := range recs {
		fmt.Fprintf(&b, "\n%s, %s confidence: %s: %s\n", r.Severity, r.Confidence, r.Subject, r.Title)
		if r.Share != nil {
			fmt.Fprintf(&b, "share: %.4g to %.4g\n", r.Share[0], r.Share[1])
		}
		if r.Cost != "" {
			fmt.Fprintf(&b, "cost: %s\n", r.Cost)
		}
		for _, ev := range r.Evidence {
			fmt.Fprintf(&b, "- %s: %s\n  %s\n", ev.Text, ev.Number(), ev.Expr)
		}
		fmt.Fprintf(&b, "remedy: %s\nreference: %s\n", r.Remedy, r.Reference)
	}
	return b.String()
}

// TestDescriptions checks every rule's description.
func TestDescriptions(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All {
		if r.Name == "" || r.Title == "" || r.Reference == "" || r.Run == nil {
			t.Errorf("rule %q lacks a title, a reference or a run function", r.Name)
		}
		names := map[string]bool{}
		for _, th := range r.Thresholds {
			if th.Name == "" || names[th.Name] || th.Doc == "" || th.Default <= 0 || !slices.Contains(units, th.Unit) {
				t.Errorf("rule %s: threshold %+v", r.Name, th)
			}
			names[th.Name] = true
		}
		if len(r.Thresholds) == 0 && !strings.Contains(r.Doc, "No threshold") {
			t.Errorf("rule %s has no threshold and does not say why", r.Name)
		}
		if !strings.HasSuffix(r.Doc, ".") || !strings.HasSuffix(r.Remedy, ".") {
			t.Errorf("rule %s: doc and remedy are sentences", r.Name)
		}
		if seen[r.Name] {
			t.Errorf("rule %s is there twice", r.Name)
		}
		seen[r.Name] = true
	}
}
