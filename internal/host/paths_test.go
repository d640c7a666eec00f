package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// put writes a file with a mode, and makes its folder.
func put(t *testing.T, name string, mode fs.FileMode) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("#!/bin/sh\n"), mode)); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestLookPath: a name is looked up in PATH, and a path is taken as it is.
func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	found := put(t, filepath.Join(dir, "bin", "tool"), 0o755)
	other := put(t, filepath.Join(dir, "built [1]", "tool"), 0o755)
	data := put(t, filepath.Join(dir, "data"), 0o644)
	t.Setenv("PATH", filepath.Join(dir, "empty")+string(filepath.ListSeparator)+filepath.Dir(found))
	t.Chdir(dir)
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"tool", found, nil},
		{other, other, nil},
		{"./built [1]/tool", other, nil},
		{"bin/../bin/tool", found, nil},
		{"built [1]/none", "", fs.ErrNotExist},
		{dir + "/none", "", fs.ErrNotExist},
		{"none", "", fs.ErrNotExist},
		{"./tool", "", fs.ErrNotExist}, // not the one in PATH
		{data, "", fs.ErrPermission},
		{dir, "", fs.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Local().LookPath(c.name)
			if !errors.Is(err, c.err) || c.err == nil && got != c.want {
				t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
			}
		})
	}
	fixture := *Local()
	fixture.Root = dir
	if got, err := fixture.LookPath("/bin/tool"); got != "/bin/tool" || err != nil {
		t.Errorf("on a fixture: %q, %v", got, err)
	}
}

// TestFind: a path with the signs of patterns is that file, and a root with them is that folder.
func TestFind(t *testing.T) {
	root := filepath.Join(t.TempDir(), `a[1]*?\b`)
	for _, name := range []string{"/x[1]/f", "/x1/f", "/y1/f", "/y2/f"} {
		put(t, root+name, 0o644)
	}
	put(t, filepath.Join(filepath.Dir(root), `a1xy\b`, "x1/f"), 0o644)
	h := *Local()
	h.Root = root
	for _, c := range []struct {
		name string
		want []string
	}{{"/x[1]/f", []string{"/x[1]/f"}}, {"/y[12]/f", []string{"/y1/f", "/y2/f"}}, {"/x1/f", []string{"/x1/f"}}, {"/z[1]/f", nil}} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := Chosen.Find(t.Context(), &h, c.name); err != nil || !slices.Equal(got[0], c.want) {
				t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
			}
		})
	}
	if got, err := h.Glob(Literal("/x[1]") + "/*"); err != nil || !slices.Equal(got, []string{"/x[1]/f"}) {
		t.Errorf("a literal folder: %q, %v", got, err)
	}
}
