package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFiles: each file of the repository's folder can be read.
func TestFiles(t *testing.T) {
	if _, err := readChanges("../../changelog"); err != nil {
		t.Error(err)
	}
}

// TestParseChange: a file has its kind and a sentence, and everything else is refused with what is wanted.
func TestParseChange(t *testing.T) {
	c, err := parseChange("kind: fixed\n\nA fault is gone.\nIt was old.\n")
	if err != nil || c.kind != "fixed" || c.text != "A fault is gone.\nIt was old." {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"":                            "want the first line",
		"A sentence.\n":               "want the first line",
		"kind: better\n\nA sentence.": "security, changed, added, fixed, removed",
		"kind: added\nA sentence.":    "and then an empty one",
		"kind: added\n\n":             "want a sentence",
		"kind: added\n\n# A heading":  "without a heading",
		"kind: added\n\n- A line.":    "without the sign of a list",
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := parseChange(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", text, err, want)
			}
		})
	}
}

// TestRun: the changes are printed by kind, and a release moves them into CHANGELOG.md, once.
func TestRun(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n### Fixed\n\n- Old.\n\n## v0.1.0 - 2026-12-01\n\n- First.\n")
	write("changelog/README.md", "# How\n")
	write("changelog/b.md", "kind: added\n\nB,\non two lines.\n")
	write("changelog/a.md", "kind: security\n\nA.\n")
	const list = "### Security\n\n- A.\n\n### Added\n\n- B,\n  on two lines.\n\n"
	var printed strings.Builder
	if err := run(&printed, root, "", ""); err != nil || printed.String() != list {
		t.Errorf("%v, %q", err, printed.String())
	}
	for _, wrong := range [][2]string{{"0.2.0", "2027-01-31"}, {"v0.2.0", "today"}, {"v0.1.0", "2027-01-31"}} {
		if err := run(&printed, root, wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if err := run(&printed, root, "v0.2.0", "2027-01-31"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if want := "# Changelog\n\n## Unreleased\n\n## v0.2.0 - 2027-01-31\n\n" + list + "### Fixed\n\n- Old.\n\n## v0.1.0 - 2026-12-01\n\n- First.\n"; err != nil || string(got) != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
	}
	if left, err := filepath.Glob(filepath.Join(root, "changelog", "*")); err != nil || len(left) != 1 {
		t.Errorf("left %q, %v", left, err)
	}
}
