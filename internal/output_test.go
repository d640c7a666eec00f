package internal_test

import (
	"strings"
	"testing"
)

// TestOneWriter: whatever a program prints passes the writers that it was given, which are printable ones, and URLs are shown by
// printable.URL: net/url's own method leaves tokens.
func TestOneWriter(t *testing.T) {
	files := 0
	eachFile(t, ".go", func(path, source string) {
		if !strings.HasPrefix(path, "../internal/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		files++
		for _, call := range []string{"os.Stdout", "os.Stderr", "fmt.Print(", "fmt.Printf(", "fmt.Println(", ".Redacted()"} {
			if strings.Contains(source, call) {
				t.Errorf("%s uses %s", path, call)
			}
		}
	})
	if files < 300 {
		t.Errorf("only %d files were read", files)
	}
}
