package explain_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/store/storetest"
)

// TestRowsHavePages: each row of a TEE has a section in docs/explain.md, whose last point names fixtures that have the
// row, by TEE.
func TestRowsHavePages(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	in := map[string][]string{} // the fixtures of a row
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		for _, id := range rowsOfTEE(t, file) {
			in[id] = append(in[id], name)
		}
	}
	doc, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, section := range strings.Split(string(doc), "\n### ")[1:] {
		id, text, _ := strings.Cut(section, "\n")
		pages[id], _, _ = strings.Cut(text, "\n## ")
	}
	if rows, pages := slices.Sorted(maps.Keys(in)), slices.Sorted(maps.Keys(pages)); !slices.Equal(rows, pages) {
		t.Errorf("the fixtures have the rows\n%q\nand docs/explain.md has the sections\n%q", rows, pages)
	}
	for id, text := range pages {
		t.Run(id, func(t *testing.T) {
			_, named, found := strings.Cut(text, "- *Fixtures*: ")
			named, _, _ = strings.Cut(named, "\n\n")
			names := quoted.FindAllStringSubmatch(named, -1)
			if !found || names == nil {
				t.Errorf("section %s names no fixtures", id)
			}
			for _, m := range names {
				if !slices.Contains(in[id], m[1]) && !(id == "guest_exits" && m[1] == "snp-guest") { // which has the reason
					t.Errorf("section %s names the fixture %s; the row is in %q", id, m[1], in[id])
				}
			}
			if !strings.Contains(string(doc), "](#"+id+")") {
				t.Errorf("the table does not name %s", id)
			}
		})
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// rowsOfTEE returns the ids of the rows that a fixture has of a TEE, without what follows a colon.
func rowsOfTEE(t *testing.T, file string) (ids []string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := known.Window(t.Context(), storetest.Load(t, string(a.Files[0].Data)), asked(t, string(a.Files[1].Data)))
	if err != nil {
		return nil // a refusal
	}
	rows := slices.Concat(tree.Rows, tree.Uncosted)
	if tree.Machine != nil {
		rows = append(rows, tree.Machine.Rows...)
	}
	for _, r := range rows {
		if id, _, _ := strings.Cut(r.ID, ":"); r.TEE && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
