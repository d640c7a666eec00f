package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// quotedCells are the first cells of a table's lines that quote messages.
var quotedCells = regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\|")

// TestMessagesOfTroubleshooting: what docs/troubleshooting.md quotes as a message is in the program, whatever stands for "...".
func TestMessagesOfTroubleshooting(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	said := strings.ToLower(literals(t) + "\n" + syscall.ECONNREFUSED.Error() + "\n" + syscall.EPERM.Error())
	quotes := 0
	for _, cell := range quotedCells.FindAllStringSubmatch(string(page), -1) {
		for i, quote := range strings.Split(cell[1], "`") {
			if i%2 == 0 || strings.HasPrefix(quote, "teescope ") { // between two quotes, or a command
				continue
			}
			quotes++
			for part := range strings.SplitSeq(quote, "...") {
				if part = strings.Trim(part, " :,"); !strings.Contains(said, strings.ToLower(part)) {
					t.Errorf("docs/troubleshooting.md quotes %q; no message has %q", quote, part)
				}
			}
		}
	}
	if quotes < 10 {
		t.Errorf("%d messages are quoted", quotes)
	}
}

// literals are the texts in the program's source, each on its line.
func literals(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					out.WriteString(text + "\n")
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
