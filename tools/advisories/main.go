// Command advisories renews the list of versions that are known to be vulnerable, of the Go modules that go.mod names, from a copy of
// Go's vulnerability database (https://github.com/golang/vulndb, its folder data/osv), and says which of them are in use:
//
//	go run ./tools/advisories -osv ../vulndb/data/osv -as-of "2026-08-21, commit a752ea54fd1b"
//
// The rows of npm are written by hand: npm's database is asked by `npm audit`, which sends the names of all packages to the registry. The
// list is known.tsv; a test compares it with what is in use.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const listFile = "tools/advisories/known.tsv"

func main() {
	folder := flag.String("osv", "", "folder with the database's files in the format of OSV")
	asOf := flag.String("as-of", "", "date and commit of the database")
	flag.Parse()
	if err := renew(*folder, *asOf); err != nil {
		fmt.Fprintln(os.Stderr, "advisories:", err)
		os.Exit(4)
	}
}

func renew(folder, asOf string) error {
	if folder == "" || asOf == "" {
		return errors.New("name the database with -osv FOLDER, and its date and commit with -as-of")
	}
	used, err := readAll(".")
	if err != nil {
		return err
	}
	old, err := os.ReadFile(listFile)
	if err != nil {
		return err
	}
	comments, list, err := parseList(old)
	if err != nil {
		return fmt.Errorf("%s: %w", listFile, err)
	}
	list = slices.DeleteFunc(list, func(a advisory) bool { return a.registry == "go" })
	found, err := readOSV(folder, used)
	if err != nil {
		return err
	}
	list = append(list, found...)
	slices.SortFunc(list, func(a, b advisory) int {
		return cmp.Or(strings.Compare(a.registry, b.registry), strings.Compare(a.name, b.name), strings.Compare(a.id, b.id))
	})
	var b strings.Builder
	for _, c := range comments {
		if strings.HasPrefix(c, "# go: ") {
			c = goSource + asOf
		}
		fmt.Fprintln(&b, c)
	}
	for _, a := range list {
		fmt.Fprintln(&b, a.line())
	}
	for _, a := range list {
		for _, d := range used {
			if d.registry == a.registry && d.name == a.name && a.hits(d.version) {
				fmt.Printf("%s: %s %s is vulnerable: %s, %s\n", d.file, d.name, d.version, a.id, a.line())
			}
		}
	}
	return os.WriteFile(listFile, []byte(b.String()), 0o644)
}

// goSource is the comment of the list about its Go part, before the date.
const goSource = "# go: from https://github.com/golang/vulndb (The Go Authors, CC-BY 4.0, https://creativecommons.org/licenses/by/4.0/), selected and reformatted; as of "

// record is what is read of a file in the format of OSV (https://ossf.github.io/osv-schema/).
type record struct {
	ID        string
	Withdrawn string
	Affected  []struct {
		Package struct{ Name string }
		Ranges  []struct {
			Events []struct{ Introduced, Fixed string }
		}
	}
}

// readOSV reads the advisories about modules that are used.
func readOSV(folder string, used []dependency) (all []advisory, err error) {
	names := map[string]bool{}
	for _, d := range used {
		names[d.name] = names[d.name] || d.registry == "go"
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files of advisories", folder)
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if r.Withdrawn != "" {
			continue
		}
		for _, about := range r.Affected {
			if !names[about.Package.Name] {
				continue
			}
			a := advisory{registry: "go", name: about.Package.Name, id: r.ID}
			for _, span := range about.Ranges {
				for _, e := range span.Events {
					if e.Introduced != "" {
						a.ranges = append(a.ranges, [2]string{e.Introduced, ""})
					} else if n := len(a.ranges); n > 0 {
						a.ranges[n-1][1] = e.Fixed
					}
				}
			}
			all = append(all, a)
		}
	}
	return all, nil
}
