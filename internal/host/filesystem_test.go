package host

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilesystemBytes: statfs(2) counts in fragments. The first is a FUSE file system that does its I/O in MiB.
func TestFilesystemBytes(t *testing.T) {
	for _, c := range []struct {
		bsize, frsize int64
		blocks        uint64
		want          float64
	}{{1048576, 4096, 26214400, 107374182400}, {4096, 4096, 10, 40960}, {512, 0, 10, 5120}, {4096, 4096, 1 << 60, 1 << 72}} {
		f := Filesystem{statfs: unix.Statfs_t{Bsize: c.bsize, Frsize: c.frsize}}
		if got := f.Bytes(c.blocks); got != c.want {
			t.Errorf("%d blocks of %d in fragments of %d: %v bytes, want %v", c.blocks, c.bsize, c.frsize, got, c.want)
		}
	}
}

// TestReadFilesystem: what is said of /proc is said of one file system, and its mount has the same device.
func TestReadFilesystem(t *testing.T) {
	f, err := ReadFilesystem("/proc/self")
	if err != nil || f.Type != unix.PROC_SUPER_MAGIC || f.Blocks != 0 {
		t.Errorf("%+v, %v", f, err)
	}
	id, err := readMounted("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := readFile("/proc/self/mountinfo", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(id) + ` \d+ .*`).FindString(string(mounts))
	if !strings.Contains(line, " "+f.Device+" ") || !strings.Contains(line, " - proc ") {
		t.Errorf("mount %q is %q, want proc with device %s", id, line, f.Device)
	}
	for name, err := range map[string]error{"statfs": func() error { _, err := At("/proc").Statfs("/none"); return err }(),
		"find mount of": func() error { _, err := At("/proc").Mounted("/none"); return err }()} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), name+" /none: ") {
				t.Errorf("%v, want %s /none", err, name)
			}
		})
	}
}
