package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/bench/workloads"
)

// pages are the texts for users and contributors, from the folder of this package.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/dev/*.md", "docs/dev/decisions/*.md", "docs/lab/*.md", "deploy/*.md", "deploy/helm/*/*.md", "experiments/*.md", "experiments/*/*.md", "workloads/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out[file] = string(b)
		}
	}
	if len(out) < 30 {
		t.Fatalf("only %d pages", len(out))
	}
	return out
}

var (
	link    = regexp.MustCompile(`\]\(([^)# ]*)(?:#([^) ]+))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are the names by which GitHub links to a page's headings.
func anchors(page string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		out = append(out, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// TestLinksOfPages lead to files and headings that exist.
func TestLinksOfPages(t *testing.T) {
	for file, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
				continue
			}
			if m[2] == "" {
				continue
			}
			b, err := os.ReadFile(target)
			if err != nil || !slices.Contains(anchors(string(b)), m[2]) {
				t.Errorf("%s links to %s#%s, and there is no such heading (%v)", file, m[1], m[2], err)
			}
		}
	}
}

// TestTablesOfPages: a line of a table belongs to a table with a head, which an empty line ends.
func TestTablesOfPages(t *testing.T) {
	rule := regexp.MustCompile(`^\|[-| :]+\|$`)
	for file, text := range pages(t) {
		lines, code := strings.Split(text, "\n"), false
		for i, line := range lines {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if code || !strings.HasPrefix(line, "|") || i > 0 && strings.HasPrefix(lines[i-1], "|") {
				continue
			}
			if i+1 == len(lines) || !rule.MatchString(lines[i+1]) {
				t.Errorf("%s:%d: a row without a head: %s", file, i+1, line)
			}
		}
	}
}

// TestTestsOfPages: the tests and benchmarks that pages name exist.
func TestTestsOfPages(t *testing.T) {
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	err := filepath.WalkDir("../..", func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(name)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	for file, text := range pages(t) {
		if filepath.Base(file) == "CHANGELOG.md" {
			continue // it says what was
		}
		for _, name := range named.FindAllString(text, -1) {
			if !exist[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// TestPagesNameEveryMember: the README has every command, the reference of workloads every workload and launcher.
func TestPagesNameEveryMember(t *testing.T) {
	all := pages(t)
	readme, guide := all["../../README.md"], all["../../docs/workloads.md"]
	for _, c := range rootCommand(Env{}).Commands() {
		if name := c.Name(); !c.Hidden && !strings.Contains(readme, "`teescope "+name) && !strings.Contains(readme, "`"+name+" ") {
			t.Errorf("README.md has no command %s", name)
		}
	}
	for _, w := range workloads.All {
		if !strings.Contains(guide, "`"+w.Name+"`") {
			t.Errorf("docs/workloads.md has no workload %s", w.Name)
		}
	}
	for _, l := range launchers.All {
		if !strings.Contains(guide, "`"+l.Name+"`") {
			t.Errorf("docs/workloads.md has no launcher %s", l.Name)
		}
	}
}
