package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadFrom(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := At(dir)
	for _, c := range []struct {
		offset int64
		max    int
		want   string
	}{{0, 100, "one\ntwo\n"}, {4, 100, "two\n"}, {4, 2, "tw"}, {8, 100, ""}, {99, 100, ""}} {
		t.Run(c.want, func(t *testing.T) {
			if b, err := h.ReadFrom("/log", c.offset, c.max); err != nil || string(b) != c.want {
				t.Errorf("%d bytes from %d: %q, %v; want %q", c.max, c.offset, b, err, c.want)
			}
		})
	}
	if _, err := h.ReadFrom("/missing", 0, 1); err == nil || err.Error() != "open /missing: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := h.ReadFrom("/log", -1, 1); err == nil {
		t.Error("a negative offset is no error")
	}
}
