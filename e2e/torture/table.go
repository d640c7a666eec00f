package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	tableBegin = "<!-- torture: begin -->\n"
	tableEnd   = "<!-- torture: end -->\n"
)

// writeTable replaces the table in a document by what was done until now.
func writeTable(file, dir string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(b), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return fmt.Errorf("write the table into %s: it has no lines %q and %q", file, strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	var t strings.Builder
	t.WriteString("| part | what fails | cases | lost something and said so | ended by the database | failures | time | seed | last run |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range parts {
		st, err := load(filepath.Join(dir, p.name+".json"))
		if err != nil {
			return err
		}
		if st.Done == 0 {
			continue
		}
		fmt.Fprintf(&t, "| %s | %s | %d | %d | %d | %d | %v | %d | %s |\n", p.name, p.doc, st.Done, st.Said, st.Ended, len(st.Failures), st.Took.Round(time.Second), st.Seed, st.At.Format(time.DateOnly))
	}
	return os.WriteFile(file, []byte(before+tableBegin+t.String()+tableEnd+after), 0o644)
}
