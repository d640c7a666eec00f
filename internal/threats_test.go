package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThreatsAreTested: each sentence of docs/security.md that says what an attacker can and cannot do names tests, and each of them exists. A
// name that several packages use has its folder before it.
func TestThreatsAreTested(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	known := testFunctions(t)
	attackers, sentences := 0, 0
	inTable := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "| can and cannot | test |":
			inTable = true
			attackers++
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && line != "|---|---|":
			sentences++
			cells := strings.Split(line, " | ")
			names := regexp.MustCompile("`((?:([a-z0-9/]+) )?(Test[A-Za-z0-9]+))`").FindAllStringSubmatch(cells[len(cells)-1], -1)
			if len(cells) != 2 || len(names) == 0 {
				t.Errorf("no test in: %s", line)
			}
			for _, n := range names {
				folders := known[n[3]]
				if n[2] != "" && !slices.Contains(folders, n[2]) || n[2] == "" && len(folders) != 1 {
					t.Errorf("%s is in %q: name one folder that has it", n[1], folders)
				}
			}
		}
	}
	if attackers < 8 || sentences < 40 {
		t.Errorf("%d tables with %d sentences were read", attackers, sentences)
	}
}

// testFunctions returns the folders of all tests by their names.
func testFunctions(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
	eachFile(t, "_test.go", func(path, source string) {
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
		for _, m := range function.FindAllStringSubmatch(source, -1) {
			all[m[1]] = append(all[m[1]], folder)
		}
	})
	return all
}

// eachFile calls a function with each file of the repository whose name has an ending, without fixtures and what others wrote.
func eachFile(t *testing.T, ending string, do func(path, source string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "..") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ending) {
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			do(path, string(source))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
