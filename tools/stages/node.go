package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// vitest runs the tests of the page's code in dir and reads its JSON report.
func vitest(dir string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		argv := []string{"npx", "vitest", "run", "--reporter=json"}
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

// nodeTest runs the tests below dir with node's own runner.
func nodeTest(dir string, args ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		cmd := exec.CommandContext(ctx, "node", append([]string{"--test", "--test-reporter=tap"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), patient)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		var said bytes.Buffer
		err = errors.Join(readTAP(io.TeeReader(out, &said), t), cmd.Wait())
		if err != nil && len(t.failed) == 0 {
			return fmt.Errorf("node --test in %s: %w\n%s", dir, err, &said)
		}
		return nil
	}
}

var tapLine = regexp.MustCompile(`^(\s*)(not )?ok \d+ - (.*?)(?: # (SKIP|TODO)\s?(.*))?$`)

// readTAP counts the results of TAP version 13 as node writes it. A result's description follows it, up to a line "...".
func readTAP(r io.Reader, t *tally) error {
	var result []string // of the last result: its parts
	var text []string   // its description
	finish := func() {
		if result == nil {
			return
		}
		for _, line := range text {
			if ms, ok := strings.CutPrefix(strings.TrimSpace(line), "duration_ms: "); ok && result[1] == "" {
				v, _ := strconv.ParseFloat(ms, 64) // 0 if node wrote none
				t.long(result[3], v/1000)
				break
			}
		}
		switch {
		case result[4] != "":
			t.skip(result[3], result[5])
		case result[2] != "":
			t.fail(result[3], strings.Join(text, "\n"))
		default:
			t.pass()
		}
		result, text = nil, nil
	}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		switch m := tapLine.FindStringSubmatch(in.Text()); {
		case m != nil:
			finish()
			result = m
		case strings.TrimSpace(in.Text()) == "...":
			finish()
		case result != nil:
			text = append(text, in.Text())
		}
	}
	finish()
	return in.Err()
}
