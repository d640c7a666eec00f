package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResumeByName: a finished experiment does not run again, and another experiment's
// result is left alone.
func TestResumeByName(t *testing.T) {
	out := filepath.Join(t.TempDir(), "result.json")
	arms := []string{"--env", "a=fake", "--env", "b=fake", "--pairs", "1", "--out", out}
	for _, c := range []struct {
		name, want string
		resume     bool
		code       int
	}{
		{"null", "no experiment was started", false, 4},
		{"null", "writing " + out, true, 0},
		{"null", out + " is already finished", true, 0},
		{"startup", "has the runs of null, but the experiment to continue is startup", true, 4},
		{"platform", "one experiment", true, 4},
	} {
		args := []string{"bench", "run", "--resume", c.name}
		if !c.resume {
			args = []string{"bench", "run", "--resume"}
		}
		if c.name == "platform" || !c.resume {
			args = append(args, "--out", out)
		} else {
			args = append(args, arms...)
		}
		if _, errs, code := run(t, args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit status %d, %q, want %d and %q", strings.Join(args, " "), code, errs, c.code, c.want)
		}
	}
}

// TestResumeKnowsThePasses: the file lists the passes, without the experiment's name.
// The fake's output gives no capacity, so the passes end before they begin.
func TestResumeKnowsThePasses(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "mine.yaml"), filepath.Join(dir, "mine.json")
	text := "name: mine\nworkload: clock-server\nenvironments: [a=fake, b=fake]\npairs: 3\nno_counters: true\nthen: [{name: half, loads: [50%]}]\n"
	// The worker is looked up before the first run, and a fake starts none.
	for name, content := range map[string]string{file: text, filepath.Join(dir, "teescope-work"): "#!/bin/sh\n"} {
		if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const want = "then half: the capacity of a in case default is unknown"
	for _, args := range [][]string{{"bench", "run", file, "--out", out}, {"bench", "run", "--resume", "--out", out}} {
		if _, errs, code := run(t, append(args, "--data", dir)...); code != exitInvalid || !strings.Contains(errs, want) {
			t.Errorf("%s: exit status %d, %q, want %d and %q", strings.Join(args, " "), code, errs, exitInvalid, want)
		}
	}
}
