package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// quotedCells are the first cells of a table's lines that quote messages.
var quotedCells = regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\|")

// TestMessagesOfTroubleshooting: of what docs/troubleshooting.md quotes as a message, all parts between "..." are in one file of
// the source, or an error of the kernel.
func TestMessagesOfTroubleshooting(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	files := literals(t)
	quotes := 0
	for _, cell := range quotedCells.FindAllStringSubmatch(string(page), -1) {
		for i, quote := range strings.Split(cell[1], "`") {
			if i%2 == 0 || strings.HasPrefix(quote, "teescope ") { // between two quotes, or a command
				continue
			}
			quotes++
			parts := strings.Split(strings.ToLower(quote), "...")
			if !slices.ContainsFunc(files, func(said string) bool {
				return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(said, strings.Trim(p, " :,")) })
			}) {
				t.Errorf("docs/troubleshooting.md quotes %q, which no file of the source says", quote)
			}
		}
	}
	if quotes < 10 {
		t.Errorf("%d messages are quoted", quotes)
	}
}

// literals are the texts in each file of the source, in lower case and each on its line, with the kernel's errors.
func literals(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		said := []string{syscall.ECONNREFUSED.Error(), syscall.EPERM.Error()}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					said = append(said, text)
				}
			}
			return true
		})
		files = append(files, strings.ToLower(strings.Join(said, "\n")))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
