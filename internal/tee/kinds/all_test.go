package kinds

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/tee"
)

// A fixture is a machine, and its want file says what every kind must answer
// there, one line each:
//
//	KIND here VARIANT ROLE active|inactive [WHY]   ("-" is no variant, WHY a regular expression)
//	KIND unknown REASON                            (a regular expression)
//
// Kinds that are not named must answer "not here".

// TestMutations damages every file of every fixture: no kind panics.
func TestMutations(t *testing.T) {
	for _, path := range fixtures(t) {
		t.Run(name(path), func(t *testing.T) {
			f := hosttest.Open(t, path)
			for _, file := range f.Files {
				data := f.Text(t, file)
				data = data[:min(len(data), 600)]
				n := 0
				for d := range mutate.Lines(data, " \t:") {
					if n++; n > 40 {
						break
					}
					f.ReplaceDuring(t, file, d.Data, func() {
						for _, found := range tee.Detect(f.Host, All) {
							if p := new(contain.Panic); errors.As(found.Err, &p) {
								t.Errorf("%s: %s: %v", file, d.Name, p)
							}
						}
					})
				}
			}
		})
	}
}

func TestFixtures(t *testing.T) {
	for _, path := range fixtures(t) {
		t.Run(name(path), func(t *testing.T) {
			f := hosttest.Open(t, path)
			text, ok := f.Meta["want"]
			if !ok {
				t.Fatal("fixture without want: it tests nothing")
			}
			want := answersIn(text)
			for _, d := range tee.Detect(f.Host, All) {
				w := want[d.Kind.Name]
				delete(want, d.Kind.Name)
				switch {
				case w == nil:
					if d.State != tee.NotHere {
						t.Errorf("%s: %s (%+v, %v), want not here", d.Kind.Name, d.State, d.Facts, d.Err)
					}
				case w[0] == "unknown":
					if d.State != tee.Unknown {
						t.Fatalf("%s: %s (%v), want could not tell", d.Kind.Name, d.State, d.Err)
					}
					match(t, d.Kind.Name, d.Err.Error(), w[1:])
				default:
					if d.State != tee.Here {
						t.Fatalf("%s: %s (%v), want here", d.Kind.Name, d.State, d.Err)
					}
					checkFacts(t, d.Facts, w)
				}
			}
			for k := range want {
				t.Errorf("want names %q, which is no kind", k)
			}
		})
	}
}

// answersIn returns what a want file says of each kind that it names, in words.
func answersIn(want string) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(want) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			out[fields[0]] = fields[1:]
		}
	}
	return out
}

// TestKindsHaveFixtures: for each kind there is a fixture in which it is here, and one in which nobody can tell.
func TestKindsHaveFixtures(t *testing.T) {
	count := map[[2]string]int{} // by kind and the first word of its answer
	for _, path := range fixtures(t) {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if f.Name == "want" {
				for kind, answer := range answersIn(string(f.Data)) {
					count[[2]string{kind, answer[0]}]++
				}
			}
		}
	}
	for _, k := range All {
		t.Run(k.Name, func(t *testing.T) {
			if here, unknown := count[[2]string{k.Name, "here"}], count[[2]string{k.Name, "unknown"}]; here == 0 || unknown == 0 {
				t.Errorf("%s: found by %d fixtures and unknown in %d, want at least one of each", k.Name, here, unknown)
			}
			if k.Doc == "" {
				t.Errorf("%s: no doc", k.Name)
			}
		})
	}
}

func checkFacts(t *testing.T, f tee.Facts, want []string) {
	t.Helper()
	variant, state := f.Variant, "inactive"
	if variant == "" {
		variant = "-"
	}
	if f.Active {
		state = "active"
	}
	if got := []string{"here", variant, string(f.Role), state}; strings.Join(got, " ") != strings.Join(want[:4], " ") {
		t.Errorf("%s: %v, want %v", f.Kind, got, want[:4])
	}
	if len(f.Evidence) == 0 {
		t.Errorf("%s: here without evidence", f.Kind)
	}
	if f.Active != (f.Why == "") {
		t.Errorf("%s: active %v with the explanation %q", f.Kind, f.Active, f.Why)
	}
	match(t, f.Kind, f.Why, want[4:])
}

func match(t *testing.T, kind, text string, want []string) {
	t.Helper()
	if ok, err := regexp.MatchString("(?s)"+strings.Join(want, " "), text); err != nil || !ok {
		t.Errorf("%s: %q does not match %q (%v)", kind, text, strings.Join(want, " "), err)
	}
}

// TestRemovedFiles takes every file of every fixture away in turn. What was
// here may become less sure but never "not here": CPUID, which no file can take
// away, is the first witness of every kind. What was not here must not appear.
// A contradiction that ends because one side is gone may end either way.
func TestRemovedFiles(t *testing.T) {
	for _, path := range fixtures(t) {
		t.Run(name(path), func(t *testing.T) {
			f := hosttest.Open(t, path)
			full := tee.Detect(f.Host, All)
			for _, file := range f.Files {
				f.RemoveDuring(t, file, func() {
					for i, d := range tee.Detect(f.Host, All) {
						before := full[i].State
						if before == tee.Here && d.State == tee.NotHere || before == tee.NotHere && d.State == tee.Here {
							t.Errorf("without %s: %s was %q and is %q (%v)", file, d.Kind.Name, before, d.State, d.Err)
						}
						if d.State == tee.Here && !d.Facts.Active && d.Facts.Why == "" {
							t.Errorf("without %s: %s is inactive without a reason", file, d.Kind.Name)
						}
					}
				})
			}
		})
	}
}

// TestLocal runs the real CPUID, files and MSR device. Which answer is right
// depends on the machine; that each is complete does not.
func TestLocal(t *testing.T) {
	for _, d := range tee.Detect(host.Local(), All) {
		t.Logf("%s: %s %+v %v", d.Kind.Name, d.State, d.Facts, d.Err)
		if d.State == tee.Here && len(d.Facts.Evidence) == 0 || d.State != tee.Here && d.Err == nil {
			t.Errorf("%s: %s without evidence or reason", d.Kind.Name, d.State)
		}
	}
}

func fixtures(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	return paths
}

func name(path string) string { return strings.TrimSuffix(filepath.Base(path), ".txtar") }

// TestFileNames: kind NAME is in the file NAME.go, dashes as underscores.
func TestFileNames(t *testing.T) {
	for _, m := range All {
		file := strings.ReplaceAll(m.Name, "-", "_") + ".go"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: want its file to be called %s", m.Name, file)
		}
	}
}
