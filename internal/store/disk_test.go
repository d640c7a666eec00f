package store

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/store/space"
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
	if got, err := space.SizeOf(dir, except); got != want || err != nil {
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
	got, err := space.Free(dir)
	if err != nil || got < 0 || got%st.Frsize != 0 || got > int64(st.Blocks)*st.Frsize {
		t.Errorf("%d bytes free, %v, of %d blocks of %d", got, err, st.Blocks, st.Frsize)
	}
	if _, err := space.Free(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

// TestDataFolderIsClosed: a data folder is its owner's alone: a new one from the start, one of an earlier version from the next
// start on, which is said once. A mode that was chosen for a group stays, and so does a folder with other things in it.
func TestDataFolderIsClosed(t *testing.T) {
	none := func(string) error { return nil }
	with := func(mode fs.FileMode, names ...string) func(string) error {
		return func(dir string) error {
			err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode))
			for _, name := range names {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		make func(dir string) error
		want fs.FileMode
		said [2]string // at the first start and the second
	}{
		"new":                   {none, 0o700, [2]string{}},
		"of an earlier version": {with(0o755, "lock", "wal", "01JDZ3N5Q8X4R7T2V6W9Y0A1B2", "silences.json.damaged"), 0o700, [2]string{"only its owner"}},
		"empty":                 {with(0o755), 0o700, [2]string{"only its owner"}},
		"writable by all":       {with(0o777, "results"), 0o700, [2]string{"only its owner"}},
		"for a group":           {with(0o750, "lock"), 0o750, [2]string{}},
		"of something else":     {with(0o755, "thesis.tex"), 0o755, [2]string{"chmod 700", "chmod 700"}},
		"home":                  {with(0o755, "lock", "wal", ".profile"), 0o755, [2]string{"chmod 700", "chmod 700"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "above", "data")
			if err := errors.Join(os.Mkdir(filepath.Dir(dir), 0o755), c.make(dir)); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				var log bytes.Buffer
				lock, _, err := takeLock(dir, slog.New(slog.NewTextHandler(&log, nil)))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if said := log.String(); (said == "") != (c.said[i] == "") || !strings.Contains(said, c.said[i]) {
					t.Errorf("%s, start %d: the log says %q", name, i, said)
				}
				if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != c.want {
					t.Errorf("%s: %v, %v; want %v", name, fi.Mode().Perm(), err, c.want)
				}
				if err := lock.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
