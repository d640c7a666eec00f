package store

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSizeOf: a file counts with the blocks that it has, not with its length.
func TestSizeOf(t *testing.T) {
	dir := t.TempDir()
	sparse, except := filepath.Join(dir, "sub", "sparse"), filepath.Join(dir, "reserve")
	if err := os.MkdirAll(filepath.Dir(sparse), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sparse, except, filepath.Join(dir, "full")} {
		if err := os.WriteFile(name, make([]byte, 100_000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(sparse, 1<<30); err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for _, name := range []string{sparse, filepath.Join(dir, "full")} {
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		want += st.Blocks * 512
	}
	if got, err := sizeOf(dir, except); got != want || err != nil {
		t.Errorf("%d bytes, %v; want %d", got, err, want)
	}
}

// TestFree: what free says is what df says, in units of fragments.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	got, err := free(dir)
	if err != nil || got < 0 || got%st.Frsize != 0 || got > int64(st.Blocks)*st.Frsize {
		t.Errorf("%d bytes free, %v, of %d blocks of %d", got, err, st.Blocks, st.Frsize)
	}
	if _, err := free(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a folder that is not there")
	}
}
