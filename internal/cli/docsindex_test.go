package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsIndex: docs/README.md has one line for each page of docs, and no other.
func TestDocsIndex(t *testing.T) {
	b, err := os.ReadFile("../../docs/README.md")
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
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		name := filepath.Base(page)
		if name == "README.md" {
			continue
		}
		if lines[name] != 1 {
			t.Errorf("docs/README.md has %d lines of %s, want 1", lines[name], name)
		}
		delete(lines, name)
	}
	for name := range lines {
		if info, err := os.Stat("../../docs/" + name); err != nil || !info.IsDir() && strings.HasSuffix(name, ".md") {
			t.Errorf("docs/README.md names %s, which is no page: %v", name, err)
		}
	}
}
