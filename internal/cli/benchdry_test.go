package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench/benchtest"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestShellLine: a shell that gets a printed command starts it with the same words.
func TestShellLine(t *testing.T) {
	job := benchtest.WordsJob()
	dir := filepath.Join(t.TempDir(), "a {b,c} $HOME")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "NAME=value") // in front of a command this would be an assignment
	if err := host.Local().Install(program, []byte("#!/bin/sh\nexec sh \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	job.Inside.Dir, job.Inside.Argv[0] = dir, filepath.Base(program)
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		out, err := host.Local().Exec(t.Context(), host.Cmd{Argv: []string{shell}, Stdin: []byte(shellLine(job.Inside) + "\n")})
		if err == nil {
			err = benchtest.CheckWords(out.Stdout)
		}
		if err != nil {
			t.Errorf("%s: %v: %.500s", shell, err, out.Stderr)
		}
	}
}

// TestBraces: the commands of public reports do the same work natively and in Gramine, whose manifest is rendered as a template
// (gramineproject/gramine issue 1380, ansible/ansible issue 16968). Gramine is the real one where it is on PATH.
// stand-in: runtimes
func TestBraces(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import jinja2, tomllib").CombinedOutput(); err != nil {
		t.Skipf("python3 with jinja2 and tomllib (package python3-jinja2): %v: %s", err, out)
	}
	standins, err := filepath.Abs("../bench/launchers/testdata/standins")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("gramine-direct"); err != nil {
		t.Setenv("PATH", standins+":"+os.Getenv("PATH"))
	}
	for command, want := range map[string]float64{
		`printf "result %s\n" "$(printf "{{1}}" | wc -c)"`: 5,
		`x=abcd; echo result ${#x}`:                        4,
	} {
		out := filepath.Join(t.TempDir(), "r.json")
		if _, said, code := run(t, "bench", "run", "custom", "--pairs", "1", "--env", "native", "--env", "gramine-direct", "--no-counters", "--param", "shell=sh",
			"--param", "command="+command, "--param", "pattern=result ([0-9]+)", "--out", out, "--data", t.TempDir()); code != exitOK && code != exitInvalid { // one pair gives no verdict
			t.Fatalf("%s: exit status %d: %s", command, code, said)
		}
		e, err := result.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, r := range e.Runs {
			for _, m := range r.Metrics {
				if strings.HasPrefix(m.Name, "result_") {
					if seen[r.Env] = true; m.Value == nil || *m.Value != want {
						t.Errorf("%s in %s: another value (%s), want %v", command, r.Env, m.Reason, want)
					}
				}
			}
		}
		if len(seen) != 2 {
			t.Errorf("%s: values in %v", command, seen)
		}
	}
}
