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
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "deploy/*.md", "deploy/helm/*/*.md", "experiments/*.md", "experiments/*/*.md", "workloads/*/*.md"} {
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

// helped is a command with what its help names.
type helped struct {
	commands map[string]*helped
	flags    []string
}

// helpOf asks a command and those below it for their help.
func helpOf(t *testing.T, path ...string) *helped {
	t.Helper()
	text, _, code := run(t, append(path, "--help")...)
	if code != exitOK {
		t.Fatalf("%q has no help", path)
	}
	h := &helped{commands: map[string]*helped{}, flags: regexp.MustCompile(`--[a-z][a-z0-9-]*`).FindAllString(text, -1)}
	_, list, _ := strings.Cut(text, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if name := strings.Fields(line); len(name) > 1 {
			h.commands[name[0]] = helpOf(t, append(slices.Clone(path), name[0])...)
		}
	}
	return h
}

var (
	inQuotes = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)
	started  = regexp.MustCompile("\\bteescope ([a-z]+ [^`|\n;>#)]*)")
	flagged  = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
)

// TestCommandLinesOfPages name commands and flags that exist.
func TestCommandLinesOfPages(t *testing.T) {
	root, lines := helpOf(t), 0
	for file, text := range pages(t) {
		text = inQuotes.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "'…'")
		for _, m := range started.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			at := root.commands[words[0]]
			if at == nil {
				continue // a sentence
			}
			if len(words) > 1 && at.commands[words[1]] != nil {
				at = at.commands[words[1]]
			}
			for _, flag := range flagged.FindAllString(m[1], -1) {
				lines++
				if !slices.Contains(at.flags, flag) {
					t.Errorf("%s: %s: %q has no flag %s", file, m[0], words[0], flag)
				}
			}
		}
	}
	if lines < 100 {
		t.Errorf("only %d flags in all pages", lines)
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

// TestPagesNameEveryMember: the README has every command, the guide of benchmarks every workload and launcher.
func TestPagesNameEveryMember(t *testing.T) {
	all := pages(t)
	readme, guide := all["../../README.md"], all["../../docs/benchmarks.md"]
	for name := range helpOf(t).commands {
		if name != "help" && !strings.Contains(readme, "`teescope "+name) && !strings.Contains(readme, "`"+name+" ") {
			t.Errorf("README.md has no command %s", name)
		}
	}
	for _, w := range workloads.All {
		if !strings.Contains(guide, "`"+w.Name+"`") {
			t.Errorf("docs/benchmarks.md has no workload %s", w.Name)
		}
	}
	for _, l := range launchers.All {
		if !strings.Contains(guide, "`"+l.Name+"`") {
			t.Errorf("docs/benchmarks.md has no launcher %s", l.Name)
		}
	}
}
