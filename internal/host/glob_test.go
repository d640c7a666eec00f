package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestGlobAsFilepath: patterns find what path/filepath.Glob finds, in its order.
func TestGlobAsFilepath(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a/x", "a/y", "a-b/x", "b1/c/x", "b2/c/x", "b2/x", ".hidden/x", "s[1]/x", `back\\slash/x`} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755), os.WriteFile(filepath.Join(root, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("b1", filepath.Join(root, "link")), os.Symlink("nowhere", filepath.Join(root, "dangling")), unix.Mkfifo(filepath.Join(root, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	h := At(root)
	for _, pattern := range []string{"/*", "/*/x", "/a*/x", "/b?/c/*", "/b[12]/*", "/*/*/*", "/a/x", "/a/none", "/none/*", `/s\[1\]/x`, `/s\[1\]/*`, "/dang*", "/*/none", "/link/*", "/pipe/*", "/[^a]*/x"} {
		want, err := filepath.Glob(filepath.Join(Literal(root), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			want[i] = strings.TrimPrefix(want[i], root)
		}
		if got, err := h.Glob(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; filepath.Glob has %q", pattern, got, err, want)
		}
	}
	for _, bad := range []string{"/[", "/a/[x", `/a\`} {
		if _, err := h.Glob(bad); err == nil {
			t.Errorf("%s is no error", bad)
		}
		if _, err := Chosen.Find(t.Context(), h, bad); err == nil {
			t.Errorf("find %s is no error", bad)
		}
	}
}

// TestFindStopsAtItsBudget: over a tree with 100,000 entries a search ends when its budget does, with what it has found.
func TestFindStopsAtItsBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 100,000 files")
	}
	root := t.TempDir()
	for i := range 100 {
		dir := filepath.Join(root, fmt.Sprintf("d%02d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		first := filepath.Join(dir, "000")
		if err := os.WriteFile(first, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for k := 1; k < 1000; k++ {
			if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("%03d", k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := At(root)
	found, err := (Search{Entries: 20_000}).Find(t.Context(), h, "/*/*", "/d99/*")
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "/*/*") || !strings.Contains(err.Error(), "20000 entries") {
		t.Errorf("over the budget: %v", err)
	}
	if n := len(found[0]); n < 15_000 || n > 20_000 || len(found[1]) != 0 {
		t.Errorf("%d and %d files were found, want some 19,000 and none", n, len(found[1]))
	}
	if found, err = (Search{Entries: 5000}).Find(t.Context(), h, "/d01/*", "/d02/*"); err != nil || len(found[0]) != 1000 || len(found[1]) != 1000 {
		t.Errorf("within the budget: %d and %d files, %v", len(found[0]), len(found[1]), err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err = (Search{Entries: 5000}).Find(stopped, h, "/*/*"); !errors.Is(err, context.Canceled) || len(found[0]) != 0 {
		t.Errorf("canceled: %d files, %v", len(found[0]), err)
	}
	if _, err = (Search{Entries: 1 << 30, Time: time.Nanosecond}).Find(t.Context(), h, "/*/*"); !errors.Is(err, ErrStopped) {
		t.Errorf("out of time: %v", err)
	}
}
