package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// vitest runs the tests of the page's code in dir and reads its JSON report.
func vitest(dir string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		argv := low("npx", "vitest", "run", "--reporter=json")
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Stderr = os.Stderr
		out, failed := cmd.Output()
		if err := readVitest(out, t); err != nil {
			return fmt.Errorf("vitest: %w", errors.Join(failed, err))
		}
		if failed != nil && len(t.failed) == 0 {
			return fmt.Errorf("vitest: %w", failed)
		}
		return nil
	}
}

// readVitest counts the tests of vitest's JSON report, which has jest's form.
func readVitest(b []byte, t *tally) error {
	var report struct {
		TestResults []struct {
			Name, Status, Message string
			AssertionResults      []struct {
				FullName, Status string
				Duration         float64 // milliseconds
				FailureMessages  []string
			}
		}
	}
	// npm may print a line above the report.
	if err := json.Unmarshal(b[max(0, bytes.IndexByte(b, '{')):], &report); err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	for _, file := range report.TestResults {
		for _, a := range file.AssertionResults {
			t.long(a.FullName, a.Duration/1000)
			switch a.Status {
			case "passed":
				t.pass()
			case "failed":
				t.fail(a.FullName, strings.Join(a.FailureMessages, "\n"))
			default:
				t.skip(a.FullName, "marked "+a.Status)
			}
		}
		if file.Status == "failed" && len(file.AssertionResults) == 0 {
			t.fail(file.Name, file.Message)
		}
	}
	return nil
}

// nodeTest runs the tests below dir with node's own runner, three files at a time: they spend half of their time
// waiting.
func nodeTest(dir string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		cmd := exec.CommandContext(ctx, "node", "--test", "--test-concurrency=3", "--test-reporter=tap")
		cmd.Dir = dir
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		readTAP(out, t)
		if err != nil && len(t.failed) == 0 {
			return fmt.Errorf("node --test in %s: %w\n%s", dir, err, out)
		}
		return nil
	}
}

var tapLine = regexp.MustCompile(`^(\s*)(not )?ok \d+ - (.*?)(?: # (SKIP|TODO)\s?(.*))?$`)

// readTAP counts the results of TAP version 13 as node writes it. A failed result's
// description follows it, up to the next result.
func readTAP(b []byte, t *tally) {
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		m := tapLine.FindStringSubmatch(line)
		if m != nil && m[1] == "" && i+2 < len(lines) {
			if ms, ok := strings.CutPrefix(strings.TrimSpace(lines[i+2]), "duration_ms: "); ok {
				v, _ := strconv.ParseFloat(ms, 64) // 0 if node wrote none
				t.long(m[3], v/1000)
			}
		}
		switch {
		case m == nil:
		case m[4] != "":
			t.skip(m[3], m[5])
		case m[2] != "":
			end := i + 1
			for end < len(lines) && !tapLine.MatchString(lines[end]) && strings.TrimSpace(lines[end]) != "..." {
				end++
			}
			t.fail(m[3], strings.Join(lines[i+1:end], "\n"))
		default:
			t.pass()
		}
	}
}
