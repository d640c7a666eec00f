package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMoveAside: what cannot be a file or a folder gives up its place, and what is one, or is not there, stays.
func TestMoveAside(t *testing.T) {
	for name, c := range map[string]struct {
		make         func(path string) error
		file, folder bool // it moves away where one is wanted
	}{
		"missing": {func(string) error { return nil }, false, false},
		"file":    {func(p string) error { return os.WriteFile(p, nil, 0o600) }, false, true},
		"folder":  {func(p string) error { return os.Mkdir(p, 0o700) }, true, false},
		"loop":    {func(p string) error { return os.Symlink(p, p) }, true, true},
		"device":  {func(p string) error { return os.Symlink("/dev/full", p) }, true, true},
		"pipe":    {func(p string) error { return unix.Mkfifo(p, 0o600) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, folder := range []bool{false, true} {
				path := filepath.Join(t.TempDir(), "a")
				for range 2 { // the second one finds the first one's new name taken
					if err := c.make(path); err != nil && !os.IsExist(err) {
						t.Fatal(err)
					}
					to, err := MoveAside(path, folder)
					if want := folder && c.folder || !folder && c.file; err != nil || (to != "") != want {
						t.Errorf("%s, folder %v: moved to %q, %v", name, folder, to, err)
					}
					if _, err := os.Lstat(to); to != "" && err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
}
