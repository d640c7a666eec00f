package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/measured"
)

// dryRun ends the name of a measurement that runs a tool briefly, so the tool keeps working. It promises nothing and has no row.
const dryRun = "Once"

// table is the file that has what the measurements say.
const table = "docs/lab/measured.md"

// measurement is a Go test in a file with the build tag measure, or a file of browser tests.
type measurement struct {
	name, pkg string // of a file of browser tests: its name, and ""
	promise   string // the first sentence of its comment
}

func (m measurement) String() string {
	return strings.TrimPrefix(strings.TrimPrefix(m.pkg, "./")+" "+m.name, " ")
}

// tableRow is a line of the table.
type tableRow struct{ by, text string } // the measurement; the whole line

// measure runs the measurements whose names match MEASURE, one after the other with nothing beside them. After each it
// writes the table, which keeps the rows of those that did not run to their end.
func measure(ctx context.Context, t *tally) error {
	chosen, err := regexp.Compile(os.Getenv("MEASURE"))
	if err != nil {
		return fmt.Errorf("read MEASURE: %w; want a regular expression such as TestBudget", err)
	}
	list, err := measurements()
	if err != nil {
		return err
	}
	old, err := os.ReadFile(table)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows, where, ran := readRows(old), measuredHere(ctx), 0
	for _, m := range list {
		if !chosen.MatchString(m.String()) {
			continue
		}
		ran++
		fmt.Println(m)
		before := readStrain()
		once := &tally{measures: true}
		said, err := m.run(ctx, once)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			once.fail(m.name, err.Error())
		}
		if m.pkg != "" && len(once.ran) == 0 {
			t.fail(m.String(), "it did not run, and its rows stay as they are\n"+once.failed[0].text)
			continue
		}
		during := fmt.Sprintf("%s; %s", where, readStrain().since(before))
		var now []tableRow
		if strings.HasSuffix(m.name, dryRun) {
			if len(once.failed) > 0 {
				t.fail(m.String(), once.failed[0].text)
			} else {
				t.pass()
			}
		}
		for _, r := range m.judge(said, once) {
			fmt.Printf("  %s: %s %s\n", r.Answer, r.Promise, r.Need)
			if r.Answer == measured.Broken {
				t.fail(m.String(), r.Promise)
			} else {
				t.pass()
			}
			now = append(now, tableRow{m.String(), row(r, m.String(), during)})
		}
		rows = merge(list, rows, now)
		if err := replace(table, render(rows)); err != nil {
			return err
		}
	}
	if ran == 0 {
		return fmt.Errorf("choose measurements: no name matches MEASURE=%s", chosen)
	}
	return nil
}

// merge puts the rows of one measurement in the place of its old ones, in the order of the list. Rows of measurements that
// are no longer there go.
func merge(list []measurement, old, now []tableRow) (all []tableRow) {
	for _, m := range list {
		from := old
		if len(now) > 0 && now[0].by == m.String() {
			from = now
		}
		for _, r := range from {
			if r.by == m.String() {
				all = append(all, r)
			}
		}
	}
	return all
}

// readRows returns the rows of a table that was written before.
func readRows(page []byte) (rows []tableRow) {
	_, body, _ := strings.Cut(string(page), rule)
	for text := range strings.Lines(body) {
		if cells := strings.Split(text, " | "); len(cells) == columns {
			rows = append(rows, tableRow{cells[1], text})
		}
	}
	return rows
}

// replace writes a file as a whole or not at all.
func replace(name string, b []byte) error {
	if err := os.WriteFile(name+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// measuredHere says when, of which commit and on which machine is measured. Rows of earlier measurements in the table are no
// change of the commit.
func measuredHere(ctx context.Context) string {
	commit := "unknown commit"
	if out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
		if changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ".", ":!"+table).Output(); err != nil || len(changed) > 0 {
			commit += " with changes"
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %s, %d CPUs, Linux %s", time.Now().UTC().Format("2006-01-02"), commit, runtime.NumCPU(), strings.TrimSpace(string(kernel)))
}

var (
	firstSentence  = regexp.MustCompile(`(?m)((?:^//.*\n)+)^func (Test\w+)\(t \*testing`)
	leadingComment = regexp.MustCompile(`^(?://.*\n)+`)
	sentenceEnd    = regexp.MustCompile(`\.(\s|$)`)
)

// measurements lists them by reading the sources.
func measurements() (all []measurement, err error) {
	for _, pattern := range []string{"*/*_measure_test.go", "*/*/*_measure_test.go", "*/*/*/*_measure_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range firstSentence.FindAllStringSubmatch(string(text), -1) {
				all = append(all, measurement{m[2], "./" + filepath.ToSlash(filepath.Dir(file)), sentence(m[1], m[2])})
			}
		}
	}
	files, err := filepath.Glob("e2e/browser/*.measure.js")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, measurement{name: file, promise: sentence(leadingComment.FindString(string(text)), "")})
	}
	return all, err
}

// sentence is the first sentence of a comment, without the name that it begins with.
func sentence(comment, name string) string {
	var words []string
	for line := range strings.Lines(comment) {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "//"))...)
	}
	text := strings.Join(words, " ")
	if end := sentenceEnd.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return strings.TrimPrefix(strings.TrimPrefix(text, name), ": ")
}

// run runs a measurement and returns what it printed.
func (m measurement) run(ctx context.Context, t *tally) (string, error) {
	if m.pkg == "" {
		dir, file := filepath.Split(m.name)
		return "", nodeTest(dir, file)(ctx, t)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "measure", "-json", "-count=1", "-vet=off", "-timeout", "60m", "-run", pattern([]string{m.name}), m.pkg)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Run()
	var said strings.Builder
	for line := range bytes.Lines(out.Bytes()) {
		var e event
		if json.Unmarshal(line, &e) == nil {
			said.WriteString(e.Output)
		}
	}
	if again := readGoTest(&out, new(bytes.Buffer), t); again != nil {
		return said.String(), again
	}
	if len(t.failed) > 0 {
		err = nil // it says so itself
	}
	return said.String(), err
}

// judge returns the rows that a measurement printed. One without rows is a single look without an interval: if it
// fails, that does not show that the promise is broken.
func (m measurement) judge(said string, t *tally) (rows []measured.Row) {
	for line := range strings.Lines(said) {
		if _, text, ok := strings.Cut(line, measured.Prefix); ok {
			var r measured.Row
			if json.Unmarshal([]byte(text), &r) == nil {
				rows = append(rows, r)
			}
		}
	}
	if len(rows) > 0 || strings.HasSuffix(m.name, dryRun) {
		return rows
	}
	r := measured.Row{Promise: m.promise, Answer: measured.Holds}
	switch {
	case len(t.failed) > 0:
		r.Answer, r.Need = measured.CannotTell, "failed in one look: "+lastOf(failingLines(t.failed[0].text), t.failed[0].text)
	case len(t.skipped) > 0 && t.passed == 0:
		r.Answer, r.Need = measured.CannotTell, t.skipped[0].text
	}
	return []measured.Row{r}
}

// lastOf returns the last line, or the last of the text if there are none.
func lastOf(lines []string, text string) string {
	if len(lines) == 0 {
		lines = strings.Split(strings.TrimSpace(text), "\n")
	}
	return lines[len(lines)-1]
}

// The table's head ends with the rule; each row has as many cells.
const (
	columns = 7
	rule    = "|---|---|---|---|---|---|---|\n"
	head    = `# Measured on a live machine

` + "`make measure`" + ` writes this page. Its promises depend on the machine, so the gate does not judge them: it guards their logic
with exact tests. An answer is *holds*, *broken* (the whole interval is beyond the bound), or *cannot tell here*. A row without
numbers is one look at a promise that has several parts. Each row says when, of which commit and on which machine it was
measured; ` + "`make measure MEASURE=NAME`" + ` measures one anew and keeps the others.

| promise | measured by | value | 95 % interval | bound | answer | measured |
`
)

// render returns the page with the rows.
func render(rows []tableRow) []byte {
	var b bytes.Buffer
	b.WriteString(head + rule)
	for _, r := range rows {
		b.WriteString(r.text)
	}
	return b.Bytes()
}

// row is the line of a promise.
func row(r measured.Row, by, during string) string {
	value, interval, bound, answer := "", "", "", string(r.Answer)
	if r.Values > 0 {
		value, bound = number(r.Value, r.Unit), number(r.Bound, r.Unit)
	}
	if r.Low != nil {
		interval = fmt.Sprintf("[%.3g, %.3g]", *r.Low, *r.High)
	}
	if r.Need != "" {
		answer += ": " + cell(r.Need)
	}
	return fmt.Sprintf("| %s |\n", strings.Join([]string{cell(r.Promise), by, value, interval, bound, answer, during}, " | "))
}

func number(v float64, unit string) string { return strings.TrimSpace(fmt.Sprintf("%.3g %s", v, unit)) }

// cell makes a text fit into a table.
func cell(s string) string {
	const most = 240
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, "|", "/")), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + " ..."
	}
	return s
}
