package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/measured"
)

// table is the file that has what the measurements say.
const table = "docs/measured.md"

// measurement is a Go test in a file with the build tag measure, or a file of browser tests.
type measurement struct {
	name, pkg string // of a file of browser tests: its name, and ""
	promise   string // the first sentence of its comment
}

// outcomes of a measurement, with the strain of the machine during it.
type measuredRow struct {
	measured.Row
	name, strain string
}

// measure runs every measurement, one after the other with nothing beside it, and writes the table.
func measure(ctx context.Context, t *tally) error {
	list, err := measurements()
	if err != nil {
		return err
	}
	var rows []measuredRow
	for _, m := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Printf("%s %s\n", m.pkg, m.name)
		before := readStrain()
		once := &tally{measures: true}
		said, err := m.run(ctx, once)
		if err != nil {
			once.fail(m.name, err.Error())
		}
		strain := readStrain().since(before)
		for _, r := range m.judge(said, once) {
			fmt.Printf("  %s: %s %s\n", r.Answer, r.Promise, r.Need)
			if r.Answer == measured.Broken {
				t.fail(m.pkg+" "+m.name, r.Promise)
			} else {
				t.pass()
			}
			rows = append(rows, measuredRow{r, m.name, strain})
		}
	}
	return os.WriteFile(table, render(ctx, rows), 0o644)
}

var (
	firstSentence = regexp.MustCompile(`(?m)((?:^//.*\n)+)^func (Test\w+)\(t \*testing`)
	sentenceEnd   = regexp.MustCompile(`\.(\s|$)`)
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
		all = append(all, measurement{name: file, promise: "browser tests that measure"})
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
	if len(rows) > 0 {
		return rows
	}
	r := measured.Row{Promise: m.promise, Answer: measured.Holds}
	switch {
	case len(t.failed) > 0:
		r.Answer, r.Need = measured.CannotTell, "failed in one look: "+lastOf(where(t.failed[0].text), t.failed[0].text)
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

// render writes the table.
func render(ctx context.Context, rows []measuredRow) []byte {
	var b bytes.Buffer
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	fmt.Fprintf(&b, `# Measured on a live machine

`+"`make measure`"+` writes this page. Its promises depend on the machine, so the gate does not judge them: it guards their logic
with exact tests. An answer is *holds*, *broken* (the whole interval is beyond the bound), or *cannot tell here*. A row without
numbers is one look at a promise that has several parts.

%s, commit %s, %d CPUs, Linux %s.

| promise | measured by | value | 95 %% interval | bound | answer | during it |
|---|---|---|---|---|---|---|
`, time.Now().UTC().Format("2006-01-02"), strings.TrimSpace(string(commit)), runtime.NumCPU(), strings.TrimSpace(string(kernel)))
	for _, r := range rows {
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", cell(r.Promise), r.name, value, interval, bound, answer, r.strain)
	}
	return b.Bytes()
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
