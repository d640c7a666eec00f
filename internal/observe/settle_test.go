package observe

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
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
	Settle(dir)
	if after := file(); after > before-size {
		t.Errorf("%d bytes of files are resident, %d before, %d of them in the folder", after, before, size)
	}
	if !same() {
		t.Error("the file has changed")
	}
}
