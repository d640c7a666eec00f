// Command member runs what a new member of a list needs, and names the places that were forgotten:
//
//	go run ./tools/member NAME
//
// NAME is that of a source, a rule, a cause of lost time, a price, a workload, a launcher or its template, a TEE, a
// protocol of loads or a format of reports. Its exit status is 1 when a test fails or a place was forgotten, and 4 when it
// was called wrongly.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "member: give one name: make check-member NAME=pressure")
		os.Exit(4)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, name string) int {
	found, err := membersOf(os.DirFS("."), name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		return 4
	}
	ok := true
	for _, m := range found {
		fmt.Printf("%s %s, in %s\n", m.kind.name, name, m.file)
		forgotten, err := m.forgotten(os.DirFS("."))
		if err == nil {
			var changed, line []string
			if changed, err = changedFiles(ctx); err == nil {
				line, err = m.unannounced(os.DirFS("."), changed)
				forgotten = append(forgotten, line...)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "member:", err)
			return 4
		}
		for _, place := range forgotten {
			fmt.Println("forgotten:", place)
		}
		ok = m.test(ctx) == nil && forgotten == nil && ok
	}
	if !ok {
		return 1
	}
	return 0
}

// test runs the tests of a member alone. It fails if there are none, as for a member that is in no list.
func (m member) test(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", m.arguments()...)
	cmd.Stderr = os.Stderr
	fmt.Println("go", strings.Join(m.arguments(), " "))
	out, err := cmd.Output()
	ran := 0
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "=== RUN") && strings.Contains(line, "/") {
			ran++
		}
		if !strings.HasPrefix(line, "===") && !strings.HasPrefix(strings.TrimSpace(line), "--- PASS") {
			fmt.Print(line)
		}
	}
	if err == nil && ran == 0 && m.kind.tests != nil {
		err = fmt.Errorf("no test is about %s: list it where CONTRIBUTING.md says", m.name)
		fmt.Println("forgotten:", err)
	}
	return err
}

// changedFiles lists the files that are new or changed since the branch main, committed or not.
func changedFiles(ctx context.Context) ([]string, error) {
	var all []string
	for _, list := range [][]string{{"diff", "--name-only", "main..."}, {"diff", "--name-only", "HEAD"}, {"ls-files", "--others", "--exclude-standard"}} {
		out, err := exec.CommandContext(ctx, "git", list...).Output()
		if failed := new(exec.ExitError); errors.As(err, &failed) && list[2] == "main..." {
			continue // a clone of another branch alone
		}
		if err != nil {
			return nil, fmt.Errorf("git %s: %w", strings.Join(list, " "), err)
		}
		all = append(all, strings.Fields(string(out))...)
	}
	return all, nil
}
