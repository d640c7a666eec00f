package internal_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestStandIns: each place of the tests that is marked as a stand-in is in docs/dev/stand-ins.md with a reason, and each of those there is marked somewhere.
func TestStandIns(t *testing.T) {
	text, err := os.ReadFile("../docs/dev/stand-ins.md")
	if err != nil {
		t.Fatal(err)
	}
	marked := markedStandIns(t)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) < 2 || cells[0] == "name" {
			continue
		}
		if len(cells) != 5 || slices.Contains(cells, "") {
			t.Errorf("%d cells, want 5 with a text each: %s", len(cells), line)
		}
		if marked[cells[0]] == nil {
			t.Errorf("%s: no test has the comment \"stand-in: %s\"", cells[0], cells[0])
		}
		delete(marked, cells[0])
	}
	for name, files := range marked {
		t.Errorf("%s is marked in %q, but docs/dev/stand-ins.md does not have it", name, files)
	}
}

// markedStandIns returns the files with comments "stand-in: NAME", by name.
func markedStandIns(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	mark := regexp.MustCompile(`(?m)^\s*// stand-in: ([a-z-]+)$`)
	eachFile(t, ".go", func(path, source string) {
		for _, m := range mark.FindAllStringSubmatch(source, -1) {
			out[m[1]] = append(out[m[1]], path)
		}
	})
	return out
}
