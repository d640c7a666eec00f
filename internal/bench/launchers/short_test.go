package launchers

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// longTemp makes a temporary folder whose path is longer than a socket's can be.
func longTemp(t *testing.T) string {
	t.Helper()
	temp := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	return temp
}

// TestLongTemporaryFolder: whatever the length of TMPDIR, the folders of a launcher and the paths that have a limit fit, the
// next environment finds both after a kill, and both are removed.
func TestLongTemporaryFolder(t *testing.T) {
	h, temp := host.Local(), longTemp(t)
	f, err := newFolders(h, "pod", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.remove() })
	if err := f.shorten(runroot("overlay"), mostRunroot); err != nil {
		t.Fatal(err)
	}
	if path.Dir(f.work) != temp || f.short == f.work || path.Base(f.short) != path.Base(f.work) {
		t.Errorf("work folder %s, short folder %s", f.work, f.short)
	}
	if fi, err := os.Stat(f.short); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the short folder: %v, %v", fi, err)
	}
	for _, ours := range []bool{true, false} {
		for _, argv := range podmanVariants(f.work, f.short, ours) {
			i := slices.Index(argv, "--runroot")
			if (i >= 0) != ours || ours && len(argv[i+1]) > mostRunroot {
				t.Errorf("%v: the store is ours: %v, and podman takes a runroot of at most %d bytes", argv, ours, mostRunroot)
			}
		}
	}
	text, err := os.ReadFile(path.Join(f.work, ownerFile))
	if lines := strings.Split(string(text), "\n"); err != nil || len(lines) != 4 || lines[1] != f.data || lines[2] != f.short {
		t.Errorf("the folder's owner: %q, %v", text, err)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
	for _, folder := range []string{f.work, f.short} {
		t.Run(folder, func(t *testing.T) {
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", folder, err)
			}
		})
	}
}

// TestLongTemporaryFolderOfQEMU starts a machine that is not there: its sockets' paths fit, and their folder goes with the rest.
func TestLongTemporaryFolderOfQEMU(t *testing.T) {
	temp := longTemp(t)
	h := *host.Local()
	var argv []string
	h.Start = func(_ context.Context, c host.Cmd) (*host.Process, error) {
		argv = c.Argv
		return nil, errors.New("there is no QEMU here")
	}
	p, err := bench.Complete("launcher qemu", qemu.Params, bench.Params{"kernel": "/boot/vmlinuz"})
	if err != nil {
		t.Fatal(err)
	}
	v := &vm{h: &h, params: p, kernel: "/boot/vmlinuz", accel: "tcg"}
	if err := v.start(t.Context(), guest{}, 0); err == nil {
		t.Fatal("a machine started")
	}
	sockets := regexp.MustCompile(`(?:^unix:|^socket,.*path=)([^,]*)`)
	var folders []string
	for _, a := range argv {
		if m := sockets.FindStringSubmatch(a); m != nil {
			if folders = append(folders, path.Dir(m[1])); len(m[1]) > host.MostSocketPath {
				t.Errorf("%s is a socket's path of %d bytes", m[1], len(m[1]))
			}
		}
	}
	if len(folders) != 2 || folders[0] != folders[1] || strings.HasPrefix(folders[0], temp) || !slices.Contains(argv, folders[0]) {
		t.Errorf("the sockets are in %v; the keeper of the machine removes one folder: %q", folders, argv)
	}
	for _, folder := range append(folders, v.work) {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", folder, err)
		}
	}
}
