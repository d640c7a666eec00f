package store

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNewerData: a folder that a newer version has written is refused with what to do, by a queue too, and nothing in it changes; one of
// this format, or without a word about it, is opened.
func TestNewerData(t *testing.T) {
	for text, want := range map[string]string{
		"":           "", // no file
		"1\n":        "",
		"2 v9.9.0\n": "format 2, of v9.9.0; this one reads up to 1): start that version, or choose another directory",
		"3":          "format 3; this one reads up to 1)",
	} {
		t.Run(text, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			for name, content := range map[string]string{formatName: text, "wal/00000000": "what only the newer version can read"} {
				if text == "" || want == "" && name != formatName {
					continue
				}
				file := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			o := DefaultOptions()
			o.Dir = dir
			s, err := Open(t.Context(), o)
			if want == "" {
				if err != nil {
					t.Errorf("%q: %v", text, err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "reads up to") != errors.Is(err, ErrNewer) {
				t.Errorf("%q: error %v, want %q", text, err, want)
			}
			if c, err := ParseScrape([]byte("remote_write: [{url: http://127.0.0.1:1}]\n"), ""); err != nil {
				t.Error(err)
			} else if _, err := OpenQueue(t.Context(), o, c); !errors.Is(err, ErrNewer) {
				t.Errorf("%q: the queue is opened: %v", text, err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "wal/00000000")); err != nil || string(b) != "what only the newer version can read" {
				t.Errorf("%q: the log is %q, %v", text, b, err)
			}
		})
	}
}

// TestDamagedFormat: a file of the format that states none is renamed with a word in the log, whatever it is, and the folder is opened.
func TestDamagedFormat(t *testing.T) {
	text := func(s string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(s), 0o600) }
	}
	for name, make := range map[string]func(path string) error{
		"word": text("two\n"), "zero": text("0\n"), "zeros": text("\x00\x00\x00\n"), "empty": text(""), "large": text("99999999999999999999\n"), "long": text(strings.Repeat("1", 1<<20)),
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/full", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, formatName)
			if err := make(file); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			for i := range 2 {
				err := checkFormat(dir, slog.New(slog.NewTextHandler(&log, nil)))
				if _, gone := os.Lstat(file); err != nil || gone == nil || strings.Count(log.String(), "format.damaged") != 1 {
					t.Errorf("%s, start %d: %v, %v, the log says %q", name, i, err, gone, log.String())
				}
			}
		})
	}
}
