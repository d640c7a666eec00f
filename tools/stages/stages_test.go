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
		failed  map[string]string // test -> text it must show
		skipped map[string]string // test -> reason
	}{
		{
			file:   "gotest.json",
			read:   func(_ *testing.T, b []byte, t *tally) error { return readGoTest(bytes.NewReader(b), io.Discard, t) },
			passed: 3, // TestGood, its part, and the benchmark of the package that did not crash
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
			read:    func(_ *testing.T, b []byte, t *tally) error { readTAP(b, t); return nil },
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
			if got.passed != c.passed {
				t.Errorf("%d passed, want %d", got.passed, c.passed)
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
	if got := where(text); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := where("  location: '/a.test.js:4:1'\n  error: '1 == 2'\n"); !slices.Equal(got, []string{"error: '1 == 2'"}) {
		t.Errorf("got %q", got)
	}
	if got := where("no place here: 3:4\n"); got != nil {
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
		var b bytes.Buffer
		if ok := summarize(&b, c.in); ok != c.ok {
			t.Errorf("%s: all is well: %t, want %t", c.name, ok, c.ok)
		}
		for _, w := range c.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, b.String())
			}
		}
	}
}

func TestChoose(t *testing.T) {
	if s, err := choose([]string{"e2e", "format"}); err != nil || len(s) != 2 || s[0].name != "format" {
		t.Errorf("choose e2e format: %v, %v", s, err)
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
		tl := &tally{}
		tl.fail("FuzzText", text)
		if got := deadlineOnly(tl); got != want {
			t.Errorf("deadlineOnly(%q) = %v", text, got)
		}
	}
	if deadlineOnly(&tally{passed: 1}) {
		t.Error("a target that passed is run again")
	}
}

func TestSlow(t *testing.T) {
	stream := `{"Action":"run","Package":"x/p","Test":"TestLong"}
{"Action":"run","Package":"x/p","Test":"TestLong/part"}
{"Action":"pass","Package":"x/p","Test":"TestLong/part","Elapsed":31}
{"Action":"pass","Package":"x/p","Test":"TestLong","Elapsed":31.4}
{"Action":"pass","Package":"x/p","Test":"TestShort","Elapsed":3}
`
	var got tally
	if err := readGoTest(strings.NewReader(stream), io.Discard, &got); err != nil {
		t.Fatal(err)
	}
	if want := []string{"TestLong 31 s"}; !slices.Equal(got.slow, want) {
		t.Errorf("slow are %q, want %q", got.slow, want)
	}
}

// A test that is named here but renamed there would no longer have the machine for itself.
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
	for _, name := range slices.Concat(measuring, busy) {
		if !slices.Contains(there, name) {
			t.Errorf("package e2e has no %s", name)
		}
	}
}

// The targets are those of the sources, with what their packages link.
func TestFuzzTargets(t *testing.T) {
	t.Chdir("../..")
	all, err := fuzzTargets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []target{
		{module + "internal/cli", "FuzzParseConfig", false},
		{module + "internal/stats", "FuzzAll", true},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no %+v among %+v", want, all)
		}
	}
}

func TestBeside(t *testing.T) {
	met := make(chan bool)
	var got tally
	err := beside(
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
