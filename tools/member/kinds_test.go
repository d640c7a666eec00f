package main

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMembersOf(t *testing.T) {
	repository := os.DirFS("../..")
	for name, want := range map[string]string{
		"pressure":       "source internal/probe/sources/pressure.go, rule " + comparisons,
		"syscall_storm":  "rule internal/findings/rules/syscall_storm.go, cause internal/explain/causes/syscall_storm.go",
		"first-touch":    "workload internal/bench/workloads/first_touch.go",
		"gramine-sgx":    "launcher internal/bench/launchers/templates/gramine-sgx.yaml",
		"absent":         "",
		"../../etc/x":    "",
		"enclave_churn ": "",
	} {
		t.Run(name, func(t *testing.T) {
			found, err := membersOf(repository, name)
			var got []string
			for _, m := range found {
				got = append(got, m.kind.name+" "+m.file)
			}
			if strings.Join(got, ", ") != want || (err == nil) != (want != "") {
				t.Errorf("found %q, %v; want %q", got, err, want)
			}
		})
	}
}

// TestNothingIsForgotten: the members that there are have everything that a new one is asked for.
func TestNothingIsForgotten(t *testing.T) {
	repository := os.DirFS("../..")
	for _, name := range []string{"pressure", "cpu_steal", "syscall_storm", "redis", "native", "ego", "sgx"} {
		t.Run(name, func(t *testing.T) {
			found, err := membersOf(repository, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found {
				if forgotten, err := m.forgotten(repository); err != nil || forgotten != nil {
					t.Errorf("%s: %q, %v", m.kind.name, forgotten, err)
				}
			}
		})
	}
}

// TestForgotten: each place of a new source is named, and the changelog.
func TestForgotten(t *testing.T) {
	repository := fstest.MapFS{
		comparisons:                             {Data: []byte("package rules\n")},
		"internal/probe/sources/new.go":         {Data: []byte("package sources\n")},
		"docs/metrics.md":                       {Data: []byte("## newer\n")},
		"internal/probe/sources/testdata/n.txt": {},
		"changelog/of-new.md":                   {Data: []byte("kind: added\n\nThe source `new` reads kettles.\n")},
		"changelog/of-another.md":               {Data: []byte("kind: added\n\nThe sources newer, new-er and tee_new_total.\n")},
	}
	found, err := membersOf(repository, "new")
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	forgotten, err := found[0].forgotten(repository)
	if err != nil || len(forgotten) != 2 || !strings.Contains(forgotten[0], "testdata") || !strings.Contains(forgotten[1], "docs/metrics.md") {
		t.Errorf("%q, %v", forgotten, err)
	}
	for _, tt := range []struct {
		name    string
		changed []string
		want    int
	}{
		{"an old file", nil, 0},
		{"without a line", []string{"internal/probe/sources/new.go"}, 1},
		{"with a line", []string{"internal/probe/sources/new.go", "changelog/of-another.md", "changelog/of-new.md"}, 0},
		{"with another member's line", []string{"internal/probe/sources/new.go", "changelog/of-another.md"}, 1},
		{"with a line that was removed", []string{"internal/probe/sources/new.go", "changelog/removed.md"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := found[0].unannounced(repository, tt.changed); err != nil || len(got) != tt.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestKinds: the folders and tests that the kinds name are there.
func TestKinds(t *testing.T) {
	repository := os.DirFS("../..")
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			files, err := fs.Glob(repository, k.folder+"/*_test.go")
			if err != nil || len(files) == 0 {
				t.Fatalf("%s has no tests: %v", k.folder, err)
			}
			var all strings.Builder
			for _, file := range files {
				text, err := fs.ReadFile(repository, file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
			for _, test := range k.tests {
				if !regexp.MustCompile(`(?m)^func Test` + test + `\(`).MatchString(all.String()) {
					t.Errorf("%s has no test Test%s", k.folder, test)
				}
			}
		})
	}
}
