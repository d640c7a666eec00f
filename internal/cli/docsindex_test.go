package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDocsIndex: the README of each shelf of the documentation has one line for each page there, and no other.
func TestDocsIndex(t *testing.T) {
	for shelf, least := range map[string]int{"docs": 20, "docs/dev": 2, "docs/lab": 3} {
		t.Run(shelf, func(t *testing.T) { checkIndex(t, filepath.Join("../..", shelf), least) })
	}
}

// checkIndex compares the lines of a folder's README with the pages there, of which there are at least so many.
func checkIndex(t *testing.T, folder string, least int) {
	b, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^- \[([^\]]+)\]\(([^)]+)\): .+$`).FindAllStringSubmatch(string(b), -1) {
		if m[1] != m[2] {
			t.Errorf("the line of %s leads to %s", m[1], m[2])
		}
		lines[m[2]]++
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(pages) < least {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		name := filepath.Base(page)
		if name != "README.md" && lines[name] != 1 {
			t.Errorf("the README of %s has %d lines of %s, want 1", folder, lines[name], name)
		}
	}
	for name := range lines {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Errorf("the README of %s names %s: %v", folder, name, err)
		}
	}
}
