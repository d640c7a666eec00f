package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// accepted are advisories about versions that are in use, with the reason why they do no harm.
var accepted = map[string]string{
	"GO-2026-5932": "golang.org/x/crypto/openpgp is not maintained, and no version mends that: no program of ours links it (TestNoOpenPGP)",
}

func readKnown(t *testing.T) (comments []string, list []advisory) {
	t.Helper()
	text, err := os.ReadFile("known.tsv")
	if err != nil {
		t.Fatal(err)
	}
	if comments, list, err = parseList(text); err != nil {
		t.Fatal(err)
	}
	return comments, list
}

// TestKnown: no version that we build with is known to be vulnerable, and the list says of which day it is.
func TestKnown(t *testing.T) {
	comments, list := readKnown(t)
	for _, registry := range []string{"go", "npm"} {
		t.Run(registry, func(t *testing.T) {
			dated := regexp.MustCompile(`^# ` + registry + `: .* as of 20\d\d-[01]\d-[0-3]\d`)
			if !slices.ContainsFunc(comments, dated.MatchString) || !slices.ContainsFunc(list, func(a advisory) bool { return a.registry == registry }) {
				t.Errorf("the list has no date, or no advisory, of %s: %q", registry, comments)
			}
		})
	}
	used, err := readAll("../..")
	if err != nil {
		t.Fatal(err)
	}
	excused := map[string]bool{}
	for _, a := range list {
		for _, d := range used {
			if d.registry != a.registry || d.name != a.name || !a.hits(d.version) {
				continue
			}
			excused[a.id] = true
			if accepted[a.id] == "" {
				t.Errorf("%s: %s %s is vulnerable (%s: %v): take a version that is not, or say in `accepted` why it does no harm", d.file, d.name, d.version, a.id, a.ranges)
			}
		}
	}
	for id := range accepted {
		if !excused[id] {
			t.Errorf("%s is accepted, and no version in use has it", id)
		}
	}
}

// TestManifests: every file that names dependencies is compared with the list, but for one.
func TestManifests(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "../..") {
			return filepath.SkipDir
		}
		if d.Name() == "go.mod" || d.Name() == "package-lock.json" {
			name, err := filepath.Rel("../..", path)
			found = append(found, name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes' own programs for a test on loopback, with the modules that this release of Kubernetes names: nothing of them is shipped.
	want := append([]string{"e2e/kubernetes/components/go.mod"}, manifests...)
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("the repository has %q, want %q", found, want)
	}
}

// TestNoOpenPGP: nothing that is shipped or makes releases links the package that is accepted.
func TestNoOpenPGP(t *testing.T) {
	for dir, packages := range map[string]string{"../..": "./cmd/...", "../release": "./..."} {
		t.Run(dir, func(t *testing.T) {
			list := exec.Command("go", "list", "-deps", packages)
			list.Dir = dir
			out, err := list.Output()
			if err != nil || len(out) == 0 {
				t.Fatalf("%s in %s: %v", list, dir, err)
			}
			for name := range strings.Lines(string(out)) {
				if strings.HasPrefix(name, "golang.org/x/crypto/openpgp") {
					t.Errorf("%s links %s", dir, name)
				}
			}
		})
	}
}

// TestHits: ranges have a begin and an end, or none.
func TestHits(t *testing.T) {
	_, list, err := parseList([]byte("# about\ngo\texample.org/a\tGO-1\t0..1.2.3 2.0.0-rc.1..2.0.1 3.1..\n"))
	if err != nil || len(list) != 1 || list[0].line() != "go\texample.org/a\tGO-1\t0..1.2.3 2.0.0-rc.1..2.0.1 3.1.." {
		t.Fatalf("%v, %+v", err, list)
	}
	for version, want := range map[string]bool{
		"v0.1.0": true, "1.2.2": true, "v1.2.3": false, "v1.2.4-0.20260101000000-abcdefabcdef": false, "v1.2.3-0.20260101000000-abcdefabcdef": true,
		"2.0.0-beta.9": false, "2.0.0-rc.1": true, "2.0.0-rc.10": true, "2.0.0": true, "2.0.1+incompatible": false, "3.0.9": false, "3.1.0": true, "40.0.0": true,
	} {
		t.Run(version, func(t *testing.T) {
			if got := list[0].hits(version); got != want {
				t.Errorf("%s: vulnerable %v, want %v", version, got, want)
			}
		})
	}
	for _, text := range []string{"go\texample.org/a\tGO-1\n", "go\ta\tGO-1\t1.2.3\n"} {
		t.Run(text, func(t *testing.T) {
			if _, _, err := parseList([]byte(text)); err == nil || !strings.Contains(err.Error(), "line 1") {
				t.Errorf("%q: error %v", text, err)
			}
		})
	}
}

// TestCompareVersions: the order of https://semver.org/#spec-item-11, and of Go's own versions.
func TestCompareVersions(t *testing.T) {
	order := []string{"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2", "1.10.0", "1.26.0-rc.3", "1.26.8", "2"}
	for i, a := range order {
		t.Run(a, func(t *testing.T) {
			for j, b := range order {
				got := compareVersions(a, b)
				if got < 0 != (i < j) || got > 0 != (i > j) {
					t.Errorf("%s against %s: %d", a, b, got)
				}
			}
		})
	}
}

// TestReadDependencies: modules in both forms of require, Go by the newer of two lines, and packages of npm also where one lies in another.
func TestReadDependencies(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	mod := write("go.mod", "module example.org/m\n\ngo 1.26.0\n\ntoolchain go1.26.8\n\nrequire example.org/a v1.0.0\n\nrequire (\n\tgithub.com/b/c/v2 v2.0.0-rc.1 // indirect\n)\n\nreplace example.org/a => ../a\n")
	lock := write("package-lock.json", `{"packages": {"": {"version": "0"}, "node_modules/@s/d": {"version": "1.0.0"}, "node_modules/x/node_modules/d": {"version": "2.0.0"}}}`)
	for file, want := range map[string][]string{
		mod:  {"go example.org/a v1.0.0", "go github.com/b/c/v2 v2.0.0-rc.1", "go stdlib 1.26.8"},
		lock: {"npm @s/d 1.0.0", "npm d 2.0.0"},
	} {
		t.Run(file, func(t *testing.T) {
			list, err := readDependencies(file)
			var got []string
			for _, d := range list {
				got = append(got, strings.Join([]string{d.registry, d.name, d.version}, " "))
			}
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v, want %q", file, got, err, want)
			}
		})
	}
	for name, text := range map[string]string{"go.mod": "module example.org/m\n", "package-lock.json": "{}"} {
		t.Run(name, func(t *testing.T) {
			if _, err := readDependencies(write(name, text)); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s without anything: %v", name, err)
			}
		})
	}
}

// TestReadOSV: only what is used and was not withdrawn.
func TestReadOSV(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"GO-1": `{"id": "GO-1", "affected": [{"package": {"name": "a"}, "ranges": [{"events": [{"introduced": "0"}, {"fixed": "1.0.0"}, {"introduced": "2.0.0"}]}]}, {"package": {"name": "other"}}]}`,
		"GO-2": `{"id": "GO-2", "withdrawn": "2026-01-01T00:00:00Z", "affected": [{"package": {"name": "a"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	list, err := readOSV(dir, []dependency{{"go", "a", "v1", "go.mod"}, {"npm", "other", "1", "package-lock.json"}})
	if err != nil || len(list) != 1 || list[0].line() != "go\ta\tGO-1\t0..1.0.0 2.0.0.." {
		t.Errorf("%v, %+v", err, list)
	}
	if _, err := readOSV(t.TempDir(), nil); err == nil {
		t.Error("a folder without files is taken")
	}
}
