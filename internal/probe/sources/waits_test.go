package sources

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestUnitOf: a group has the name of its own path in cgroup v2 only, also where the process was moved or v1 is mounted too.
func TestUnitOf(t *testing.T) {
	root := t.TempDir()
	h := &host.Host{Root: root}
	inode := func(path string) uint64 {
		t.Helper()
		var st syscall.Stat_t
		if err := os.MkdirAll(root+path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Stat(root+path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	blue := inode("/sys/fs/cgroup/system.slice/blue.service")
	green := inode("/sys/fs/cgroup/unified/system.slice/green.service")
	outside := inode("/sys/fs/elsewhere/red.service")
	for pid, groups := range []string{
		"0::/system.slice/blue.service",
		"12:pids:/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n1:name=systemd:/system.slice/green.service\n0::/system.slice/green.service",
		"0::/../elsewhere/red.service",
		"1:name=systemd:/system.slice/blue.service",
	} {
		inode(fmt.Sprint("/proc/", pid))
		if err := os.WriteFile(fmt.Sprint(root, "/proc/", pid, "/cgroup"), []byte(groups+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		pid   int
		group uint64
		want  string
	}{{0, blue, "blue.service"}, {1, green, "green.service"}, {0, green, ""}, {1, blue, ""}, {2, outside, ""}, {3, blue, ""}, {4, blue, ""}} {
		got, err := unitOf(h, c.pid, c.group)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("process %d, group %d: %q, %v; want %q", c.pid, c.group, got, err, c.want)
		}
	}
}
