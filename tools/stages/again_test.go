package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// write fills a new folder and goes there.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestAgain(t *testing.T) {
	write(t, map[string]string{
		"go.mod": "module " + strings.TrimSuffix(module, "/") + "\n",
		"p/p_test.go": `package p

import (
	"os"
	"testing"
)

func TestGood(t *testing.T) {}

func TestOnce(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if _, err := os.Stat("seen"); err != nil {
			_ = os.WriteFile("seen", nil, 0o644)
			t.Error("a busy machine")
		}
	})
}

func TestLater(t *testing.T) {
	if _, err := os.Stat("later"); err == nil {
		t.Skip("not any more")
	}
	_ = os.WriteFile("later", nil, 0o644)
	t.Error("only the first time")
}

func TestPart(t *testing.T) {
	_, err := os.Stat("part")
	t.Run("part", func(t *testing.T) {
		if err == nil {
			t.Skip("not any more")
		}
		_ = os.WriteFile("part", nil, 0o644)
		t.Error("the first time")
	})
}
`,
	})
	var got tally
	if err := again(goTest("./..."), goAgain())(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	if got.passed != 3 { // good, once and its part
		t.Errorf("%d passed, want 3", got.passed)
	}
	match(t, "failed", got.failed, map[string]string{module + "p TestLater": "only the first time", module + "p TestPart": "", module + "p TestPart/part": "the first time"})
	match(t, "passed the second time", got.twice, map[string]string{module + "p TestOnce": "TestOnce", module + "p TestOnce/part": "a busy machine"})
}

// What is final beside the tests is not hidden by a test that passes the second time.
func TestAgainIsNoWayAround(t *testing.T) {
	write(t, map[string]string{
		"go.mod": "module " + strings.TrimSuffix(module, "/") + "\n",
		"p/p_test.go": `package p

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	m.Run()
	panic("a defect")
}

func TestOnce(t *testing.T) {
	if _, err := os.Stat("seen"); err != nil {
		_ = os.WriteFile("seen", nil, 0o644)
		t.Error("a busy machine")
	}
}

`,
		"q/q_test.go": `package q

import "testing"

func TestBad(t *testing.T) { t.Error("always") }

func TestBoth(t *testing.T) { t.Error("always") }
`,
		"r/r_test.go": `package r

import (
	"os"
	"testing"
)

func TestBoth(t *testing.T) {
	if _, err := os.Stat("seen"); err != nil {
		_ = os.WriteFile("seen", nil, 0o644)
		t.Error("a busy machine")
	}
}
`,
	})
	var p, q tally
	if err := again(goTest("./p"), goAgain())(context.Background(), &p); err != nil {
		t.Fatal(err)
	}
	match(t, "failed", p.failed, map[string]string{module + "p TestOnce": "a busy machine", "package " + module + "p": "a defect"})
	if err := again(goTest("./q", "./r"), goAgain())(context.Background(), &q); err != nil {
		t.Fatal(err)
	}
	match(t, "failed", q.failed, map[string]string{module + "q TestBad": "always", module + "q TestBoth": "always"})
	match(t, "passed the second time", q.twice, map[string]string{module + "r TestBoth": "a busy machine"})
}

func TestAgainInNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	write(t, map[string]string{"d/x.test.js": `
const { test, describe } = require("node:test");
const { existsSync, writeFileSync } = require("node:fs");
describe("page", () => {
  test("good", () => {});
  test("once: a/b #1 (c)\\d", () => {
    if (!existsSync("seen")) { writeFileSync("seen", ""); throw new Error("a busy machine"); }
  });
  test("bad", () => { throw new Error("always"); });
});
`})
	var got tally
	if err := again(nodeTest("d"), nodeAgain)(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	match(t, "failed", got.failed, map[string]string{"d bad": "always", "d page": "subtest"})
	match(t, "passed the second time", got.twice, map[string]string{`d once: a/b #1 (c)\d`: "a busy machine"})
}

func TestRepeatable(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed []outcome
		want   string
	}{
		{"nothing", nil, "[]"},
		{"parts of one", []outcome{{module + "a TestA/x", ""}, {module + "a TestA", ""}, {module + "b TestB", ""}},
			"[{" + module + "a [TestA]} {" + module + "b [TestB]}]"},
		{"a race", []outcome{{module + "a TestA", ""}, {module + "a TestB", "WARNING: DATA RACE\n"}}, "[]"},
		{"a panic", []outcome{{module + "a TestA", "panic: nil\n"}}, "[]"},
		{"cut off", []outcome{{module + "a TestA", cutOff}}, "[]"},
		{"not built", []outcome{{"package " + module + "a", "undefined"}}, "[]"},
		{"a file", []outcome{{"d x.test.js", ""}}, "[]"},
		{"node's time limit", []outcome{{"d a", "failureType: 'testTimeoutFailure'"}}, "[]"},
		{"many of a name", []outcome{{"d a", ""}, {"d a", ""}, {"d a", ""}, {"d a", ""}}, "[]"},
		{"a command", []outcome{{"vet", "x"}}, "[]"},
		{"too many", []outcome{{module + "a TestA", ""}, {module + "a TestB", ""}, {module + "a TestC", ""}, {module + "a TestD", ""}}, "[]"},
	} {
		if got := fmt.Sprint(repeatable(c.failed)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
