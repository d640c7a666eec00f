package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

// TestSettle: pages of the program's file and of files in the store's folder, that only the start needed, are given back.
// What was mapped of them can still be read.
func TestSettle(t *testing.T) {
	const size = 8 << 20
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "block"), bytes.Repeat([]byte{7}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "block"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(block) }()
	same := func() bool { return bytes.Count(block, []byte{7}) == size }
	if !same() {
		t.Fatal("the file is not what was written")
	}
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	file := func() uint64 {
		s, err := self.NewStatus()
		if err != nil {
			t.Fatal(err)
		}
		return s.RssFile + s.RssShmem // of a file on tmpfs
	}
	before := file()
	settle(dir)
	if after := file(); after > before-size {
		t.Errorf("%d bytes of files are resident, %d before, %d of them in the folder", after, before, size)
	}
	if !same() {
		t.Error("the file has changed")
	}
}

// TestLimitFor: the limit always leaves room above what is in use.
func TestLimitFor(t *testing.T) {
	for _, tt := range []struct {
		live, beside, memory uint64
		want                 int64
	}{{0, 0, 8 << 10, 120}, {40, 8, 8 << 10, 120}, {100, 0, 8 << 10, 182}, {1 << 10, 0, 8 << 10, 1536 + 32}, {1 << 10, 300, 8 << 10, 1536 + 300 + 32},
		{40, 8, 256, 120}, {80, 8, 256, 160}, {120, 8, 1000, 220}, {176, 8, 256, 210}, {88, 8, 128, 111}} {
		if got := limitFor(tt.live<<20, tt.beside<<20, tt.memory<<20); got != tt.want<<20 {
			t.Errorf("limit for %d MiB live and %d beside of %d: %d MiB, want %d", tt.live, tt.beside, tt.memory, got>>20, tt.want)
		}
	}
}

// TestLimitFollows: a larger heap has a larger limit after its collection, without a call. The limit is one of a whole
// process for good, so the process is another one.
func TestLimitFollows(t *testing.T) {
	const child = "TESTED_LIMIT"
	if os.Getenv(child) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLimitFollows$") //nolint:gosec // this program
		c.Env = append(os.Environ(), "GOMEMLIMIT=", child+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	limitMemory()
	held := make([]byte, 400<<20)
	await.Event(t, "the limit is above the heap", func() error {
		runtime.GC()
		if got := debug.SetMemoryLimit(-1); got < 500<<20 || got > 1<<40 {
			return fmt.Errorf("%d MiB", got>>20)
		}
		return nil
	})
	runtime.KeepAlive(held)
}
