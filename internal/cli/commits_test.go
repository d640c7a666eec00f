package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// repository makes a repository with one commit for each content of the file run.
func repository(t *testing.T, contents ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for _, c := range contents {
		if err := os.WriteFile(filepath.Join(dir, "run"), []byte(c), 0o755); err != nil {
			t.Fatal(err)
		}
		git("add", "run")
		git("commit", "-q", "-m", "one more")
	}
	return dir
}

func TestBenchCommits(t *testing.T) {
	repo := repository(t, "#!/bin/sh\necho 10 requests\n", "broken", "#!/bin/sh\nsleep 0.05; echo 10 requests\n", "#!/bin/sh\nsleep 0.05; echo 10 requests; :\n")
	data := t.TempDir()
	out, errs, code := run(t, "bench", "commits", "HEAD~3..HEAD", "--repo", repo, "--build", "grep -q requests run && cp run server", "--binary", "server",
		"--param", "command={binary}", "--param", `operations=(\d+) requests`, "--pairs", "2", "--data", data, "--no-counters")
	if code != 0 {
		t.Fatalf("exit status %d: %s%s", code, out, errs)
	}
	if !strings.Contains(errs, "is left out: build by") {
		t.Errorf("the commit that does not build is not named: %s", errs)
	}
	out, errs, code = run(t, "history", "show", "--data", data, "--counters", "2")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 4 {
		t.Fatalf("exit status %d, want a title and three commits: %s%s", code, out, errs)
	}
	if !strings.Contains(errs, "no counter counted exactly this workload") { // --no-counters
		t.Errorf("that there are no counters is not said: %q", errs)
	}
	list, err := exec.Command("git", "-C", repo, "rev-list", "--reverse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	ids := strings.Fields(string(list))
	for i, id := range []string{ids[0], ids[2], ids[3]} {
		t.Run(id, func(t *testing.T) {
			if !strings.Contains(lines[i+1], result.ShortID(id)) {
				t.Errorf("line %q is not of commit %s", lines[i+1], result.ShortID(id))
			}
		})
	}
	if left, err := exec.Command("git", "-C", repo, "worktree", "list").Output(); err != nil || strings.Count(string(left), "\n") != 1 {
		t.Errorf("worktrees are left behind: %s %v", left, err)
	}
}

// TestBenchCommitsInvalid: a commit that crashes, and one that does other work, enter
// the history with the reason, and affect no other.
func TestBenchCommitsInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		middle, why string
		value       bool
	}{
		"crashes":    {"#!/bin/sh\nexit 7\n", "status 7", false},
		"other work": {"#!/bin/sh\necho 11 requests\n", "not comparable with ", true},
	} {
		t.Run(name, func(t *testing.T) {
			repo := repository(t, "#!/bin/sh\necho 10 requests\n", c.middle, "#!/bin/sh\necho 10 requests; :\n")
			data := t.TempDir()
			out, errs, code := run(t, "bench", "commits", "HEAD~2..HEAD", "--repo", repo, "--build", "cp run server", "--binary", "server",
				"--param", "command={binary}", "--param", "digest=stdout", "--pairs", "4", "--data", data, "--no-counters")
			list, err := exec.Command("git", "-C", repo, "rev-list", "--reverse", "HEAD").Output()
			if err != nil {
				t.Fatal(err)
			}
			ids := strings.Fields(string(list))
			if code != exitInvalid || !strings.Contains(out, "commit "+result.ShortID(ids[1])+": added to the history, but not used to find changes: ") || !strings.Contains(out, c.why) {
				t.Errorf("%s: exit status %d, want %d and the commit with %q: %s%s", name, code, exitInvalid, c.why, out, errs)
			}
			out, errs, code = run(t, "history", "show", "--data", data)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if code != 0 || len(lines) != 4 {
				t.Fatalf("%s: exit status %d, want a title and three commits: %s%s", name, code, out, errs)
			}
			for i, id := range ids {
				fields := strings.Fields(lines[i+1])
				_, err := strconv.ParseFloat(fields[3], 64)
				if fields[2] != result.ShortID(id) || (err == nil) != (i != 1 || c.value) || strings.Contains(lines[i+1], "not used: ") != (i == 1) || i == 1 && !strings.Contains(lines[i+1], c.why) {
					t.Errorf("%s: line %q of commit %s", name, lines[i+1], result.ShortID(id))
				}
			}
			if out, errs, code = run(t, "history", "detect", "--data", data); code != 0 || !strings.Contains(out, result.ShortID(ids[1])+" not used: ") || !strings.Contains(out, "in 2 results") {
				t.Errorf("%s: detect: exit status %d: %s%s", name, code, out, errs)
			}
			es, err := historyArchive(data).List()
			if err != nil || len(es) != 3 {
				t.Fatalf("%s: %d results: %v", name, len(es), err)
			}
			for _, e := range es {
				if crashed := !c.value && e.Commit.ID == ids[1]; len(e.Runs) != 4 && !crashed {
					t.Errorf("%s: %d runs of %s, want 4", name, len(e.Runs), result.ShortID(e.Commit.ID))
				}
			}
		})
	}
}

func TestBenchCommitsBadInput(t *testing.T) {
	repo := repository(t, "one", "two")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no range":       {[]string{"HEAD"}, "want FIRST..LAST"},
		"three dots":     {[]string{"HEAD~1...HEAD"}, "want FIRST..LAST"},
		"unknown commit": {[]string{"nothing..HEAD"}, "git rev-parse"},
		"an option":      {[]string{"-x..HEAD"}, "unknown shorthand"},
		"empty range":    {[]string{"HEAD..HEAD"}, "no commit after"},
		"one at most":    {[]string{"HEAD~1..HEAD", "--most", "1"}, "want at least 2"},
		"nothing builds": {[]string{"HEAD~1..HEAD", "--build", "exit 3"}, "0 of 2 commits could be built"},
		"no program":     {[]string{"HEAD~1..HEAD", "--build", "true"}, "0 of 2 commits could be built"},
		"no repository":  {[]string{"HEAD~1..HEAD", "--repo", t.TempDir()}, "not a git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"bench", "commits", "--binary", "nothing", "--repo", repo, "--param", "command={binary}", "--data", t.TempDir()}, tt.args...)
			out, errs, code := run(t, args...)
			if code != exitUsage || !strings.Contains(errs, tt.want) {
				t.Errorf("exit status %d, want %d and %q: %s%s", code, exitUsage, tt.want, out, errs)
			}
		})
	}
}
