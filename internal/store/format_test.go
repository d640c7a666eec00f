package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewerData: a folder that a newer version has written is refused with what to do, and nothing in it changes; one of this format, or
// without a word about it, is opened.
func TestNewerData(t *testing.T) {
	for text, want := range map[string]string{
		"":               "", // no file
		"1\n":            "",
		"2 v9.9.0\n":     "format 2, of v9.9.0; this one reads up to 1): start that version, or choose another directory",
		"3":              "format 3; this one reads up to 1)",
		"two\n":          `has no number of a format, but "two\n": restore it`,
		"0\n":            "has no number of a format",
		"\x00\x00\x00\n": "has no number of a format",
	} {
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
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "reads up to") != errors.Is(err, ErrNewer) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "wal/00000000")); err != nil || string(b) != "what only the newer version can read" {
			t.Errorf("%q: the log is %q, %v", text, b, err)
		}
	}
}
