// Package golden writes the files that tests keep, when they are run with -update.
package golden

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Write writes a kept file anew if its content differs. It then fails the test, so that the names of all files that
// changed are in the output of `go test`: a file of another member, or what was recorded, does not change unseen.
func Write(t testing.TB, path string, content []byte) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, content) {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("wrote %s: look at what changed with git diff, then run the test without -update", path)
}
