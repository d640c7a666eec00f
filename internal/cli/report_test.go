package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportOutput: without --out a page goes to a file for a browser, and every other format to standard output. So
// `report --format md | less` works, and no Markdown is in a file called report.html.
func TestReportOutput(t *testing.T) {
	file, err := filepath.Abs("../../experiments/results/e3-direct.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range strings.Split(formatNames(), ", ") {
		t.Run(format, func(t *testing.T) {
			t.Chdir(t.TempDir())
			out, errs, code := run(t, "report", file, "--format", format)
			made, err := os.ReadDir(".")
			if code != exitOK || err != nil {
				t.Fatalf("exit status %d: %s, %v", code, errs, err)
			}
			if format != "html" {
				if len(made) != 0 || len(out) < 100 {
					t.Errorf("standard output has %d bytes, the folder %v", len(out), made)
				}
				return
			}
			page, err := os.ReadFile("report.html")
			if out != "report.html\n" || len(made) != 1 || err != nil || !strings.Contains(string(page), "<html") {
				t.Errorf("%q, %v, %v, %d bytes", out, made, err, len(page))
			}
		})
	}
}
