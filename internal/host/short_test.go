package host

import (
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestShortFolder: a folder is used as it is while paths below it are short enough. Else a new one of its name is made that
// only its user can enter, never through a link that is already there, and an error names the limit.
func TestShortFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	long := "/" + strings.Repeat("x", 100)
	for _, c := range []struct {
		name, folder string
		most         int
		places       []string          // that are there
		links        map[string]string // that someone else has put there
		want, says   string
	}{
		{"short", "/tmp/teescope-pod-1", 22, []string{"/tmp"}, nil, "/tmp/teescope-pod-1", ""},
		{"one byte too long", "/var/lib/teescope-pod-1", 25, []string{"/tmp"}, nil, "/tmp/teescope-pod-1", ""},
		{"long", long + "/teescope-pod-1", 50, []string{"/tmp", "/run"}, nil, "/tmp/teescope-pod-1", ""},
		{"no /tmp", long + "/teescope-pod-1", 50, []string{"/run"}, nil, "/run/teescope-pod-1", ""},
		{"a link to a folder", long + "/teescope-pod-1", 50, []string{"/tmp", "/run", "/mine"}, map[string]string{"/tmp/teescope-pod-1": "/mine"}, "/run/teescope-pod-1", ""},
		{"a link to nowhere", long + "/teescope-pod-1", 50, []string{"/tmp", "/run"}, map[string]string{"/tmp/teescope-pod-1": "/none"}, "/run/teescope-pod-1", ""},
		{"a long name", long + "/teescope-pod-" + strings.Repeat("1", 40), 50, []string{"/tmp"}, nil, "", "has 158 bytes, at most 50 are possible there"},
		{"nowhere", long + "/teescope-pod-1", 50, nil, nil, "", "set TMPDIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := At(t.TempDir())
			for _, place := range c.places {
				if err := h.Mkdir(place); err != nil {
					t.Fatal(err)
				}
			}
			for link, to := range c.links {
				if err := os.Symlink(h.Path(to), h.Path(link)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := h.ShortFolder(c.folder, "ro", c.most)
			if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%q, %v; want %q, %q", got, err, c.want, c.says)
			}
			if err != nil || got == c.folder {
				return
			}
			fi, err := os.Lstat(h.Path(got))
			if err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", got, fi, err)
			}
		})
	}
}

// TestMkdirShort: a socket can be made with any temporary folder, and no other folder is left.
func TestMkdirShort(t *testing.T) {
	temp := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	folder, err := Local().MkdirShort("teescope-test", "socket", MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	l, err := net.Listen("unix", path.Join(folder, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

// TestMostSocketPath: the kernel takes a path of that length, and none that is longer.
func TestMostSocketPath(t *testing.T) {
	folder, err := Local().MkdirShort("teescope-test", strings.Repeat("s", 30), MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	longest := path.Join(folder, strings.Repeat("s", MostSocketPath-len(folder)-1))
	l, err := net.Listen("unix", longest)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(longest), err)
	}
	_ = l.Close()
	if l, err := net.Listen("unix", longest+"s"); err == nil {
		_ = l.Close()
		t.Errorf("a path of %d bytes is possible", len(longest)+1)
	}
}
