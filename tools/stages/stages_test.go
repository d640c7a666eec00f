package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The files in testdata are what go test, vitest and node printed for tests
// that pass, fail, are skipped, crash and do not build.
func TestReaders(t *testing.T) {
	for _, c := range []struct {
		file    string
		read    func(*testing.T, []byte, *tally) error
		passed  int
		benches int
		failed  map[string]string // test -> text it must show
		skipped map[string]string // test -> reason
	}{
		{
			file:    "gotest.json",
			read:    func(_ *testing.T, b []byte, t *tally) error { return readGoTest(bytes.NewReader(b), io.Discard, t) },
			passed:  3, // TestGood, its subtest, and the benchmark of the package that did not crash
			benches: 1,
			failed: map[string]string{
				"x/p TestBad":    "got 1, want 2",
				"x/p TestZCrash": "no way out",
				"package x/r":    "expected ')', found '{'",
			},
			skipped: map[string]string{"x/p TestSkipped": "needs an SGX machine; this has none"},
		},
		{
			file:    "vitest.json",
			read:    func(_ *testing.T, b []byte, t *tally) error { return readVitest(b, t) },
			passed:  1,
			failed:  map[string]string{"page bad": "expected 1 to be 2"},
			skipped: map[string]string{"page later": "marked skipped"},
		},
		{
			file:    "node.tap",
			read:    func(_ *testing.T, b []byte, t *tally) error { return readTAP(bytes.NewReader(b), t) },
			passed:  2,
			failed:  map[string]string{"bad": "1 == 2"},
			skipped: map[string]string{"absent": "no chromium here"},
		},
	} {
		t.Run(c.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			got := &tally{stage: "x"}
			if err := c.read(t, b, got); err != nil {
				t.Fatal(err)
			}
			if got.passed != c.passed || got.benchmarks != c.benches {
				t.Errorf("%d passed, %d of them benchmarks; want %d, %d", got.passed, got.benchmarks, c.passed, c.benches)
			}
			match(t, "failed", got.failed, c.failed)
			match(t, "skipped", got.skipped, c.skipped)
		})
	}
}

func match(t *testing.T, what string, got []outcome, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d %s, want %d: %v", len(got), what, len(want), got)
	}
	for _, o := range got {
		if text, ok := want[o.test]; !ok || !strings.Contains(o.text, text) {
			t.Errorf("%s %q says %q, want %q in it", what, o.test, o.text, text)
		}
	}
}

func TestWhere(t *testing.T) {
	text := "=== RUN   TestX\n    x_test.go:12: got 1, want 2\n    more of it\nnoise\n    y_test.go:7: third\n" + strings.Repeat("a_test.go:1: again\n", places-1)
	want := append([]string{"y_test.go:7: third"}, slices.Repeat([]string{"a_test.go:1: again"}, places-1)...)
	if got := failingLines(text); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := failingLines("  location: '/a.test.js:4:1'\n  error: '1 == 2'\n"); !slices.Equal(got, []string{"error: '1 == 2'"}) {
		t.Errorf("got %q", got)
	}
	if got := failingLines("  error: |-\n    locator.waitFor: Timeout\n    Call log:\n      - waiting\n  code: 'ERR'\n"); !slices.Equal(got, []string{"locator.waitFor: Timeout", "Call log:", "- waiting"}) {
		t.Errorf("where(an error of several lines) = %q", got)
	}
	compared := "  error: |-\n    Expected values to be strictly equal:\n    + actual - expected\n    \n    + 'false'\n    - 'true'\n    \n  code: 'ERR_ASSERTION'\n  stack: |-\n    Test.run\n"
	if got := failingLines(compared); !slices.Equal(got, []string{"Expected values to be strictly equal:", "+ actual - expected", "+ 'false'", "- 'true'"}) {
		t.Errorf("where(a comparison) = %q", got)
	}
	if got := failingLines("no place here: 3:4\n"); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestSummary(t *testing.T) {
	good := &tally{stage: "unit", passed: 2, skipped: []outcome{{"TestSGX", "no SGX here"}}}
	bad := &tally{stage: "e2e", failed: []outcome{{"TestStorm", "line 1\nline 2"}}}
	for _, c := range []struct {
		name string
		in   []*tally
		ok   bool
		want []string
	}{
		{"good", []*tally{good}, true, []string{"unit: TestSGX: no SGX here", "\n2 passed, 0 failed, 1 skipped\n"}},
		{"bad", []*tally{good, bad}, false, []string{"FAILED e2e: TestStorm\n    line 1\n    line 2", "\n2 passed, 1 failed, 1 skipped\nfailed in e2e: TestStorm\n"}},
		{"nothing ran", nil, false, []string{"\n0 passed, 0 failed, 0 skipped\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if ok := summarize(&b, c.in, 0); ok != c.ok {
				t.Errorf("%s: all is well: %t, want %t", c.name, ok, c.ok)
			}
			for _, w := range c.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("%s: no %q in\n%s", c.name, w, b.String())
				}
			}
		})
	}
}

func TestChoose(t *testing.T) {
	if s, err := choose([]string{"e2e", "format"}); err != nil || len(s) != 2 || s[0].name != "format" {
		t.Errorf("choose e2e format: %v, %v", s, err)
	}
	if s, err := choose(nil); err != nil || slices.ContainsFunc(s, func(s stage) bool { return s.name == "fuzz" || s.name == "measure" }) || len(s) != len(all)-2 {
		t.Errorf("make test runs %d stages of %d, %v; want all but fuzz and measure", len(s), len(all), err)
	}
	if _, err := choose([]string{"unti"}); err == nil || !strings.Contains(err.Error(), "unit") {
		t.Errorf("choose of an unknown stage: %v, want the known ones named", err)
	}
}

func TestDeadlineOnly(t *testing.T) {
	race := "fuzz: elapsed: 11s, execs: 147398 (1477/sec)\n--- FAIL: FuzzText (11.04s)\n    context deadline exceeded\n"
	for text, want := range map[string]bool{
		race: true,
		race + "    Failing input written to testdata/fuzz/FuzzText/0123\n": false,
		"    --- FAIL: FuzzText (1.04s)\n    text_test.go:9: wrong\n":       false,
		race + "panic: index out of range\n":                                false,
	} {
		t.Run(text, func(t *testing.T) {
			tl := &tally{}
			tl.fail("FuzzText", text)
			if got := deadlineOnly(tl); got != want {
				t.Errorf("deadlineOnly(%q) = %v", text, got)
			}
		})
	}
	if deadlineOnly(&tally{passed: 1}) {
		t.Error("a target that passed is run again")
	}
}

// The ten slowest tests of all stages are named, without their subtests.
func TestSlowest(t *testing.T) {
	stream := `{"Action":"run","Package":"x/p","Test":"TestLong"}
{"Action":"run","Package":"x/p","Test":"TestLong/part"}
{"Action":"pass","Package":"x/p","Test":"TestLong/part","Elapsed":31}
{"Action":"pass","Package":"x/p","Test":"TestLong","Elapsed":31.4}
{"Action":"pass","Package":"x/p","Test":"TestShort","Elapsed":3}
`
	unit, browser, page := &tally{stage: "unit"}, &tally{stage: "browser"}, &tally{stage: "ui"}
	if err := readGoTest(strings.NewReader(stream), io.Discard, unit); err != nil {
		t.Fatal(err)
	}
	if err := readTAP(strings.NewReader("TAP version 13\n    ok 1 - part\n      ---\n      duration_ms: 60000.5\n      ...\nok 1 - page\n  ---\n  duration_ms: 12000.5\n  ...\n"), browser); err != nil {
		t.Fatal(err)
	}
	if err := readVitest([]byte(`{"testResults":[{"assertionResults":[{"fullName":"chart","status":"passed","duration":1500}]}]}`), page); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		page.long("quick", 1)
	}
	var b bytes.Buffer
	summarize(&b, []*tally{unit, browser, page}, 0)
	want := "Slowest tests, in seconds:\n   31.4  unit: x/p TestLong\n   12.0  browser: page\n    3.0  unit: x/p TestShort\n    1.5  ui: chart\n" +
		strings.Repeat("    1.0  ui: quick\n", 6) + "\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

func TestTried(t *testing.T) {
	for line, want := range map[string]int{
		"fuzz: elapsed: 3s, execs: 325017 (108336/sec), new interesting: 11 (total: 202)\n": 325017,
		"fuzz: elapsed: 0s, gathering baseline coverage: 0/192 completed\n":                 0,
		"execs: 3": 0,
	} {
		t.Run(line, func(t *testing.T) {
			if got := inputsIn(line); got != want {
				t.Errorf("%q says %d inputs, want %d", line, got, want)
			}
		})
	}
}

// A test that is named here but renamed there would no longer run as it must.
func TestNamesOfE2E(t *testing.T) {
	files, err := filepath.Glob("../../e2e/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllSubmatch(b, -1) {
			there = append(there, string(m[1]))
		}
	}
	for _, name := range guests {
		if !slices.Contains(there, name) {
			t.Errorf("package e2e has no %s", name)
		}
	}
	parallel, err := parallelTests("../../e2e")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"TestStorm": true, "TestCPUTime": true, "TestSSH": false, "TestSandboxes": false, "TestBudget": false} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(parallel, name) != want {
				t.Errorf("%s runs in parallel: %v", name, !want)
			}
		})
	}
	if slices.ContainsFunc(guests, func(name string) bool { return slices.Contains(parallel, name) }) {
		t.Errorf("a test with a guest runs twice: %v, %v", guests, parallel)
	}
	if _, err := parallelTests(t.TempDir()); err == nil {
		t.Error("a folder without tests is no error")
	}
}

// The targets are those of the sources, with what their packages link.
func TestFuzzedPackages(t *testing.T) {
	t.Chdir("../..")
	all, err := fuzzedPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		path, target    string
		linksPrometheus bool
	}{
		{module + "internal/monitor/config", "FuzzParseConfig", true},
		{module + "internal/stats", "FuzzAll", false},
	} {
		t.Run(want.path, func(t *testing.T) {
			if !slices.ContainsFunc(all, func(f fuzzed) bool {
				return f.path == want.path && f.linksPrometheus == want.linksPrometheus && slices.Contains(f.targets, want.target)
			}) {
				t.Errorf("no %+v among %+v", want, all)
			}
		})
	}
}

// Every package with tests has a stage: no new room goes untested.
func TestEveryPackageHasAStage(t *testing.T) {
	all, err := testPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string]bool{}
	for _, p := range all {
		room, _, _ := strings.Cut(short(p.path), "/")
		rooms[room] = rooms[room] || p.besideCode()
	}
	for room, want := range map[string]bool{"internal": true, "channel": true, "tools": true, "experiments": true, "e2e": false, "deploy": false} {
		t.Run(room, func(t *testing.T) {
			if got, ok := rooms[room]; !ok || got != want {
				t.Errorf("packages of %s run in stage unit: %v, want %v", room, got, want)
			}
		})
	}
	t.Chdir("../..")
	dirs, err := modules(t.Context())
	if err != nil || len(dirs) < 2 || dirs[0] != "." {
		t.Fatalf("modules %v, %v", dirs, err)
	}
	for _, dir := range dirs[1:] {
		if dir != "channel" && !strings.HasPrefix(dir, "deploy/") && !strings.HasPrefix(dir, "tools/") { // go.work has channel beside the root: it is one of the rooms
			t.Errorf("module %s has no stage", dir)
		}
	}
}

func TestBeside(t *testing.T) {
	met := make(chan bool)
	var got tally
	err := runTogether(
		func(_ context.Context, t *tally) error { met <- true; t.pass(); return nil },
		func(_ context.Context, t *tally) error {
			<-met
			t.fail("b", "no")
			t.skip("c", "why")
			return errors.New("it broke")
		},
	)(t.Context(), &got)
	if got.passed != 1 || len(got.failed) != 1 || len(got.skipped) != 1 || err == nil || err.Error() != "it broke" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Each failure is reported when it happens, with the stage.
func TestReport(t *testing.T) {
	said := make(chan string)
	tl := &tally{stage: "e2e", report: func(stage string, o outcome) { said <- stage + " " + o.test }}
	in, out := io.Pipe()
	done := make(chan error)
	go func() { done <- readTAP(in, tl) }()
	if _, err := io.WriteString(out, "not ok 1 - bad\n  ---\n  error: 'no'\n  ...\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-said; got != "e2e bad" { // while the tests go on
		t.Errorf("said %q", got)
	}
	_, err := io.WriteString(out, "ok 2 - good\n")
	if err = errors.Join(err, out.Close(), <-done); err != nil || tl.passed != 1 {
		t.Errorf("%d passed, %v", tl.passed, err)
	}
}

// A package that is cut off names the tests that did not run.
func TestCutOff(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("p", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"p/p_test.go":         "package p\nfunc TestMain(m *testing.M) {}\nfunc TestFirst(t *testing.T) {}\nfunc TestSecond(t *testing.T) {}\nfunc TestThird(t *testing.T) {}\nfunc TestOther(t *testing.T) {}\n",
		"p/p_measure_test.go": "//go:build measure\n\npackage p\nfunc TestAside(t *testing.T) {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	stream := `{"Action":"run","Package":"` + module + `p","Test":"TestFirst"}
{"Action":"output","Package":"` + module + `p","Test":"TestFirst","Output":"panic: no way out\n"}
{"Action":"fail","Package":"` + module + `p"}
`
	tl := &tally{chosen: func(test string) bool { return test != "TestOther" }} // which runs in another lane
	if err := readGoTest(strings.NewReader(stream), io.Discard, tl); err != nil {
		t.Fatal(err)
	}
	match(t, "failed", tl.failed, map[string]string{
		module + "p TestFirst":    "no way out",
		"package " + module + "p": "these tests did not run: TestSecond, TestThird",
	})
}
