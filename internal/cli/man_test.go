package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMan: every command has a page, which is the same for every user, and which groff reads without a warning.
func TestMan(t *testing.T) {
	write := func(home string) map[string]string {
		t.Helper()
		t.Setenv("HOME", home)
		dir := t.TempDir()
		if _, said, code := run(t, "man", "--out", dir, "--date", "2026-11-30"); code != exitOK {
			t.Fatalf("exit status %d: %s", code, said)
		}
		pages := map[string]string{}
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages[filepath.Base(name)] = string(text)
		}
		return pages
	}
	pages := write("/home/a")
	for name, text := range write("/home/b") {
		if pages[name] != text || text == "" {
			t.Errorf("%s depends on the user:\n%s", name, text)
		}
	}
	for _, name := range []string{"teescope.1", "teescope-monitor.1", "teescope-bench-run.1"} {
		t.Run(name, func(t *testing.T) {
			for _, part := range []string{".TH " + strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(name, ".1"), "-", `\-`)) + ` 1 "2026-11-30"`, ".SH NAME\nteescope", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n"} {
				if !strings.Contains(pages[name], part) {
					t.Errorf("%s has no %q:\n%s", name, part, pages[name])
				}
			}
		})
	}
	for name := range pages {
		if strings.Contains(name, "-man") || strings.Contains(name, "completion") || strings.Contains(name, "inside") {
			t.Errorf("%s is of a hidden command", name)
		}
	}
	const signs = "a 'b' `c` ^d ~/e -f \\g" // what is copied into a shell must be what was written
	if got, want := roff(signs), `a \(aqb\(aq \(gac\(ga \(had \(ti/e \-f \eg`; got != want {
		t.Errorf("%s is written as %s, want %s", signs, got, want)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed (package groff-base)")
	}
	shown := exec.Command(groff, "-man", "-Tutf8")
	shown.Stdin = strings.NewReader(".TH A 1\n.SH B\n" + roff(signs) + "\n")
	if out, err := shown.CombinedOutput(); err != nil || !strings.Contains(string(out), signs) {
		t.Errorf("%s is shown as %s, %v", signs, out, err)
	}
	for name, text := range pages {
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
