package web

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestWords keeps the answer of GET words in a file, from which the tests of the page read it.
func TestWords(t *testing.T) {
	w := do(served(func(*Options) {}), "GET", "/api/teescope/v1/words", "")
	if w.Code != 200 || w.Body.Len() > 8<<10 {
		t.Fatalf("status %d, %d bytes", w.Code, w.Body.Len())
	}
	var got bytes.Buffer
	if err := json.Indent(&got, w.Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "words.json")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("GET words answers\n%s\nwant\n%s(-update accepts it)", got.Bytes(), want)
	}
}
