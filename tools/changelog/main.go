// Command changelog collects the files of the folder changelog, one for each change, into a section of CHANGELOG.md:
//
//	go run ./tools/changelog                                      # prints what the next release says
//	go run ./tools/changelog -release v0.2.0 -date 2027-01-31     # writes it, and removes the files
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// kinds are those of changes, in the order of a section.
var kinds = []string{"security", "changed", "added", "fixed", "removed"}

// change is what one file says.
type change struct{ file, kind, text string }

func main() {
	version := flag.String("release", "", "version of the release that the changes become part of, as v0.2.0; empty: only print them")
	date := flag.String("date", "", "date of that release, as 2027-01-31")
	flag.Parse()
	if err := run(os.Stdout, ".", *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(4)
	}
}

// run prints the changes of a repository, or writes them into its CHANGELOG.md.
func run(w io.Writer, root, version, date string) error {
	changes, err := readChanges(filepath.Join(root, "changelog"))
	if err != nil {
		return err
	}
	if version == "" {
		_, err := io.WriteString(w, section(changes))
		return err
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-.+)?$`).MatchString(version) {
		return fmt.Errorf("-release %q: want a version such as v0.2.0", version)
	}
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("-date %q: want a date such as 2027-01-31", date)
	}
	file := filepath.Join(root, "CHANGELOG.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	released, err := release(string(text), section(changes), version, date)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(released), 0o644); err != nil {
		return err
	}
	var errs []error
	for _, c := range changes {
		errs = append(errs, os.Remove(c.file))
	}
	return errors.Join(errs...)
}

// readChanges reads the files of a folder, by their names.
func readChanges(folder string) (all []change, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		c, err := parseChange(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		c.file = file
		all = append(all, c)
	}
	return all, nil
}

// parseChange reads the kind and the text of a file.
func parseChange(text string) (c change, err error) {
	head, body, ok := strings.Cut(text, "\n\n")
	kind, named := strings.CutPrefix(head, "kind: ")
	body = strings.TrimSpace(body)
	switch {
	case !ok || !named || !slices.Contains(kinds, kind):
		return c, fmt.Errorf("want the first line \"kind: KIND\" with one of %s, and then an empty one", strings.Join(kinds, ", "))
	case body == "" || strings.HasPrefix(body, "#") || strings.HasPrefix(body, "- "):
		return c, errors.New("want a sentence after the empty line, without a heading and without the sign of a list")
	}
	return change{kind: kind, text: body}, nil
}

// section writes the changes of each kind as a list.
func section(changes []change) string {
	var b strings.Builder
	for _, kind := range kinds {
		begun := false
		for _, c := range changes {
			if c.kind != kind {
				continue
			}
			if !begun {
				fmt.Fprintf(&b, "### %s\n\n", strings.ToUpper(kind[:1])+kind[1:])
				begun = true
			}
			fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(c.text, "\n", "\n  "))
		}
		if begun {
			b.WriteString("\n")
		}
	}
	return b.String()
}

const unreleased = "## Unreleased\n"

// release gives what is unreleased, and the changes before it, the heading of a release.
func release(text, changes, version, date string) (string, error) {
	before, after, ok := strings.Cut(text, unreleased)
	switch {
	case !ok:
		return "", fmt.Errorf("no line %q", strings.TrimSpace(unreleased))
	case strings.Contains(text, "\n## "+version+" "):
		return "", fmt.Errorf("%s is there already", version)
	}
	return before + unreleased + "\n## " + version + " - " + date + "\n\n" + changes + strings.TrimLeft(after, "\n"), nil
}
