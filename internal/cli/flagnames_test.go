package cli

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/teescope/teescope/internal/worker"
)

// flagsOf are the flags of a command and of those below it.
func flagsOf(c *cobra.Command) (out []string) {
	c.InitDefaultHelpFlag()
	add := func(f *pflag.Flag) { out = append(out, "--"+f.Name) }
	c.Flags().VisitAll(add)
	c.PersistentFlags().VisitAll(add)
	for _, below := range c.Commands() {
		out = append(out, flagsOf(below)...)
	}
	return out
}

var (
	inQuotes = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)
	started  = regexp.MustCompile("\\bteescope ([a-z]+ [^`|\n;>#)]*)")
	flagged  = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
)

// othersFlags are flags that messages name and that another program has, by the name of the program, which is in the same text.
var othersFlags = map[string]string{
	"--banirq": "irqbalance", "--buildtype": "Gramine", "--map-root-user": "unshare", "--numeric-owner": "tar", "--pid": "container", "--sort": "tar", "--unix-socket": "curl", "--vm": "stress-ng",
}

// sentences calls each with every text of the program that has words.
func sentences(t *testing.T, each func(at token.Position, text string)) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr: // a text in several parts
				if text, all := joined(n); all {
					each(files.Position(n.Pos()), text)
					return false
				}
			case *ast.BasicLit:
				if text, all := joined(n); all {
					each(files.Position(n.Pos()), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// joined is the text of a literal, or of a sum of literals.
func joined(e ast.Expr) (text string, all bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, left := joined(e.X)
		y, right := joined(e.Y)
		return x + y, left && right && e.Op == token.ADD
	}
	return "", false
}

// TestFlagsOfMessages: a flag that a text of the program names is one of its own, or of another program that the text names.
func TestFlagsOfMessages(t *testing.T) {
	root, known, used := rootCommand(Env{}), map[string]bool{}, map[string]bool{}
	for _, f := range flagsOf(root) {
		known[f] = true
	}
	for _, c := range worker.All {
		f := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		c.Flags(f)
		f.VisitAll(func(f *flag.Flag) { known["--"+f.Name] = true })
	}
	found := 0
	sentences(t, func(at token.Position, text string) {
		if !strings.Contains(text, " ") || strings.HasPrefix(text, "-") { // arguments
			return
		}
		for _, name := range flagged.FindAllString(text, -1) {
			found++
			switch program := othersFlags[name]; {
			case known[name]:
			case program == "" || !strings.Contains(text, program):
				t.Errorf("%s: no command has the flag %s: %.200q", at, name, text)
			default:
				used[name] = true
			}
		}
		for _, m := range started.FindAllStringSubmatch(inQuotes.ReplaceAllString(text, "'…'"), -1) { // what is quoted is for other programs
			command, _, err := root.Find(strings.Fields(m[1]))
			if err != nil || command == root {
				continue // a sentence
			}
			for _, name := range flagged.FindAllString(m[1], -1) {
				if !slices.Contains(flagsOf(command), name) {
					t.Errorf("%s: %q has no flag %s", at, m[0], name)
				}
			}
		}
	})
	if found < 100 {
		t.Errorf("only %d flags in the texts", found)
	}
	for name := range othersFlags {
		if !used[name] {
			t.Errorf("no text names %s", name)
		}
	}
}
