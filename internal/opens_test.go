package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rawOpens are the functions that open whatever a path leads to, or read tables as large as a file claims.
var rawOpens = map[string][]string{
	"os":       {"Open", "OpenFile", "ReadFile", "Create"},
	"disk":     {"Open", "OpenFile", "ReadFile", "Create"},
	"unix":     {"Open", "Openat", "Openat2"},
	"syscall":  {"Open"},
	"filepath": {"Glob"},
	"elf":      {"Open", "NewFile"},
}

// opened are the rooms and files that may call them, with the reason. Everything else opens what a user or another process named with
// host.OpenRegular, and looks for files with host.Search.
var opened = map[string]string{
	"host/":                    "it has the opener and the search; its other opens are of the kernel's files, of devices by name, and of files it writes",
	"disk/":                    "it has the calls for this program's own files",
	"probe/probetest/":         "for tests",
	"attest/swtpm/":            "for tests",
	"schematest/":              "for tests",
	"golden/":                  "for tests",
	"docstest/":                "for tests",
	"probe/bpf/sgx.go":         "/proc/kallsyms",
	"probe/bpf/uprobe.go":      "/proc/self/maps",
	"attest/device_linux.go":   "the device of the Nitro module",
	"store/":                   "files of the data folder, which its owner alone may enter",
	"findings/journal.go":      "files of the data folder",
	"result/":                  "results that a command is told to read or write; Archive, which others may write to, uses the opener",
	"configfile/":              "the configuration, an argument of a command",
	"port/":                    "the file of --web-config, an argument of a command",
	"observe/":                 "the file of --web-config, an argument of a command",
	"cli/":                     "arguments of a command, which may be pipes: it has no other rights than its caller",
	"worker/":                  "arguments of the worker inside an environment",
	"prove/":                   "its own keys",
	"bench/linkage.go":         "a program that the caller's job runs",
	"bench/toolchain.go":       "a program that the caller's job runs",
	"bench/launchers/guest.go": "programs and modules that the caller's job runs",
}

// TestPathsOfOthersAreOpenedByHost: nothing that handles paths of users or of other processes opens them itself.
func TestPathsOfOthersAreOpenedByHost(t *testing.T) {
	used := map[string]bool{}
	walk(t, ".", func(path string) {
		path = filepath.ToSlash(path)
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, at := range rawOpensOf(t, path, nil) {
			excuse := ""
			for prefix := range opened {
				if strings.HasPrefix(path, prefix) {
					excuse = prefix
				}
			}
			if used[excuse] = true; excuse == "" {
				t.Errorf("%s: use host.Open, host.OpenRegular or host.Search", at)
			}
		}
	})
	for prefix := range opened {
		if !used[prefix] {
			t.Errorf("%s opens nothing; take it from the list", prefix)
		}
	}
}

// rawOpensOf are the places of a file that open a path themselves.
func rawOpensOf(t *testing.T, path string, text any) (out []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if to, ok := n.(*ast.SelectorExpr); ok { // a call, or a function that is passed on
			if from, ok := to.X.(*ast.Ident); ok && slices.Contains(rawOpens[from.Name], to.Sel.Name) {
				out = append(out, files.Position(n.Pos()).String())
			}
		}
		return true
	})
	return out
}

// TestRawOpensOf: the lint sees calls and functions that are passed on.
func TestRawOpensOf(t *testing.T) {
	got := rawOpensOf(t, "x.go", "package x\nvar a, _ = os.Open(b)\nvar c = os.ReadFile\nvar d = h.Open(b)\nvar e, _ = filepath.Glob(b)\nvar f, _ = elf.NewFile(b)\n")
	if want := []string{"x.go:2:12", "x.go:3:9", "x.go:5:12", "x.go:6:12"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
