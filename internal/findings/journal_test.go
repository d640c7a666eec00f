package findings

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
)

// open opens a file and returns its lines.
func open(t *testing.T, path string) (*Journal, []string) {
	t.Helper()
	var lines []string
	j, err := OpenJournal(path, func(l []byte) { lines = append(lines, string(l)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, lines
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "a.jsonl")
	j, lines := open(t, path)
	if len(lines) != 0 {
		t.Errorf("a new file has lines %q", lines)
	}
	if err := j.Append([]byte("one"), []byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := j.Append([]byte("three\nfour")); err == nil {
		t.Error("a line with a line end is taken")
	}
	if err := j.Append([]byte("three")); err != nil {
		t.Fatal(err)
	}
	if _, lines = open(t, path); !slices.Equal(lines, []string{"one", "two", "three"}) {
		t.Errorf("lines %q", lines)
	}
	if err := j.Replace([]byte("three")); err != nil {
		t.Fatal(err)
	}
	if err := j.Append([]byte("four")); err != nil { // goes to the new file, not to the replaced one
		t.Fatal(err)
	}
	var read []string
	if err := j.Read(func(l []byte) { read = append(read, string(l)) }); err != nil || !slices.Equal(read, []string{"three", "four"}) {
		t.Errorf("read %q, %v", read, err)
	}
	if j.Size() != int64(len("three\nfour\n")) {
		t.Errorf("size %d", j.Size())
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(names) != 1 {
		t.Errorf("files left: %q", names)
	}
}

// TestTornLine: a crash within a line loses that line and nothing else.
func TestTornLine(t *testing.T) {
	const whole = "{\"a\":1}\n{\"b\":2}\n"
	for cut := range len(whole) + 1 {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		if err := os.WriteFile(path, []byte(whole[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		j, before := open(t, path)
		if want := strings.Count(whole[:cut], "\n"); len(before) != want {
			t.Errorf("cut at %d: %d lines, want %d", cut, len(before), want)
		}
		if err := j.Append([]byte("next")); err != nil {
			t.Fatal(err)
		}
		if _, after := open(t, path); !slices.Equal(after, append(before, "next")) {
			t.Errorf("cut at %d: %q after %q", cut, after, before)
		}
	}
}

// TestNoRoom: when the disk is full (here a file of limited size), no earlier line is lost, and writing resumes when
// there is space again.
func TestNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	j, _ := open(t, path)
	if err := j.Append([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	full := j.f
	ro, err := disk.Open(path) // every write to it fails
	if err != nil {
		t.Fatal(err)
	}
	j.f = ro
	if err := j.Append([]byte("refused")); err == nil || !j.torn {
		t.Fatalf("append: %v, torn %v", err, j.torn)
	}
	if err := j.Append([]byte("refused")); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("append to what could not be put in order: %v", err)
	}
	j.f = full
	if _, err := full.WriteAt([]byte("half of a li"), j.end); err != nil { // as a failed write leaves it
		t.Fatal(err)
	}
	if err := j.Append([]byte("taken")); err != nil {
		t.Fatal(err)
	}
	if _, lines := open(t, path); !slices.Equal(lines, []string{"kept", "taken"}) {
		t.Errorf("lines %q", lines)
	}
}

// TestDiskFull fills a real file system of 1 MiB.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount a small tmpfs: %v", err)
	}
	defer func() { _ = unix.Unmount(dir, 0) }()
	path := filepath.Join(dir, "a.jsonl")
	j, _ := open(t, path)
	defer j.Close()
	line := bytes.Repeat([]byte("x"), 100_000)
	n := 0
	for ; n < 20; n++ {
		if err := j.Append(line); err != nil {
			break
		}
	}
	if n == 0 || n == 20 {
		t.Fatalf("%d lines went into 1 MiB", n)
	}
	if err := j.Replace(bytes.Repeat([]byte("y"), 300_000)); err == nil {
		t.Error("a copy found room")
	}
	if err := WriteFile(filepath.Join(dir, "b"), bytes.Repeat([]byte("z"), 300_000)); err == nil {
		t.Error("a second file found room")
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(names) != 0 {
		t.Errorf("half-written files are left: %q", names)
	}
	if k, lines := open(t, path); len(lines) != n {
		t.Errorf("%d lines are left of %d", len(lines), n)
	} else if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := j.Replace([]byte("short")); err != nil { // shorter than the space left
		t.Error(err)
	}
	if err := j.Append(line); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if _, err := ReadFile(path, 10); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, text := range []string{"first, longer", "second"} {
		t.Run(text, func(t *testing.T) {
			if err := WriteFile(path, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if b, err := ReadFile(path, 13); err != nil || string(b) != text {
				t.Errorf("%q, %v; want %q", b, err, text)
			}
		})
	}
	if _, err := ReadFile(path, 5); err == nil {
		t.Error("a file above the limit is read")
	}
}

// TestChecksums: a line in which a bit has turned, also within a text, is passed as one that cannot be read, and the file is kept as it
// was; what earlier versions wrote has no checksums and is read.
func TestChecksums(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	j, _ := open(t, path)
	if err := j.Append([]byte(`{"a":"one"}`), []byte(`{"b":"two"}`)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, lines := open(t, path); !slices.Equal(lines, []string{`{"a":"one"}`, `{"b":"two"}`}) {
		t.Errorf("lines %q", lines)
	}
	if err := os.WriteFile(path, bytes.Replace(whole, []byte("one"), []byte("ono"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	k, lines := open(t, path)
	if !slices.Equal(lines, []string{"", `{"b":"two"}`}) {
		t.Errorf("lines %q", lines)
	}
	k.KeepDamaged()
	if b, err := os.ReadFile(k.Kept); err != nil || !bytes.Contains(b, []byte("ono")) {
		t.Errorf("kept as %q: %q, %v", k.Kept, b, err)
	}
	if err := os.WriteFile(path, []byte("{\"a\":\"one\"}\n{\"b\":\"tw"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, lines = open(t, path); !slices.Equal(lines, []string{`{"a":"one"}`}) || k.Cut != 8 || k.Kept != "" {
		t.Errorf("lines %q, %d bytes cut, kept as %q", lines, k.Cut, k.Kept)
	}
}

// TestNoFile: a folder, a device or a link to itself in the place of a journal is renamed, and so is what is in the place of its folder.
func TestNoFile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"folder": func(p string) error { return os.MkdirAll(p, 0o700) },
		"device": func(p string) error { return os.Symlink("/dev/full", p) },
		"loop":   func(p string) error { return os.Symlink(p, p) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "queue")
			path := filepath.Join(dir, "a.jsonl")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			if j, lines := open(t, path); len(lines) != 0 || j.Kept == "" || j.Append([]byte("next")) != nil {
				t.Errorf("%s: lines %q, kept as %q", name, lines, j.Kept)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "queue")
	if err := os.WriteFile(dir, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, _ := open(t, filepath.Join(dir, "a.jsonl")); j.Append([]byte("next")) != nil {
		t.Error("nothing can be written where a file was in the place of the folder")
	}
}
