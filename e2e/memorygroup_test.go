package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/machine"
)

// memoryGroup is a control group with a limit on memory, of either version.
type memoryGroup struct {
	dir    string
	events string // the file that counts OOM kills
}

// newMemoryGroup makes a group below the one of this process, or skips the test with the reason why that cannot be.
func newMemoryGroup(t *testing.T, limit int64) memoryGroup {
	t.Helper()
	needRoot(t)
	const file = "/proc/self/mountinfo"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := machine.ParseMounts(file, text)
	if err != nil {
		t.Log(err) // the other lines are parsed
	}
	var reasons []string
	for _, m := range machine.CgroupMounts(mounts) {
		if !m.V2 && !strings.Contains(","+strings.Join(m.Controllers, ",")+",", ",memory,") {
			continue
		}
		g := memoryGroup{dir: filepath.Join(m.Point, fmt.Sprintf("teescope-test-%d-%s", os.Getpid(), strings.ToLower(t.Name())))}
		limitFile := "memory.limit_in_bytes"
		if g.events = filepath.Join(g.dir, "memory.oom_control"); m.V2 {
			g.events, limitFile = filepath.Join(g.dir, "memory.events"), "memory.max"
		}
		err := os.Mkdir(g.dir, 0o755)
		if err == nil {
			t.Cleanup(func() { _ = os.Remove(g.dir) }) // empty by then: the program was ended before
			err = os.WriteFile(filepath.Join(g.dir, limitFile), []byte(strconv.FormatInt(limit, 10)), 0o600)
		}
		if err == nil {
			_, err = os.ReadFile(g.events)
		}
		if err == nil {
			// Swap would hide that memory is short. Where the kernel does not count it there is no such file.
			_ = os.WriteFile(filepath.Join(g.dir, "memory.memsw.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0o600)
			_ = os.WriteFile(filepath.Join(g.dir, "memory.swap.max"), []byte("0"), 0o600)
			return g
		}
		reasons = append(reasons, err.Error())
	}
	t.Skipf("no control group with a limit on memory can be made here: %s", strings.Join(append(reasons, "no hierarchy has the controller memory"), "; "))
	return memoryGroup{}
}

// command is a program that runs in the group.
func (g memoryGroup) command(argv ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}, argv...)...)
}

// peak is the most memory that the group used, 0 where the kernel does not say so.
func (g memoryGroup) peak() (n int64) {
	for _, file := range []string{"memory.peak", "memory.max_usage_in_bytes"} {
		if b, err := os.ReadFile(filepath.Join(g.dir, file)); err == nil {
			n, _ = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		}
	}
	return n
}

// kills is how many processes of the group were killed because its memory was used up.
func (g memoryGroup) kills(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(g.events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Skipf("%s has no oom_kill: the kernel is older than 4.13", g.events)
	return 0
}
