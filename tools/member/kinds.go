package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// kind is a list of members.
type kind struct {
	name   string
	folder string
	// files are patterns of the member's file, in folder; NAME stands for its name.
	files []string
	// tests are the tests about members, each with the member's name as its first subtest, or about the whole list; nil is
	// all of the folder.
	tests []string
	// parts: a file may hold several members, whose names begin with that of the file and _.
	parts bool
	// places have to name the member.
	places []place
}

// place is a text that names each member of a list.
type place struct {
	files string // a pattern of fs.Glob
	text  string // a regular expression; NAME stands for the member's name
	what  string // what is to be written there
}

// kinds are the lists of CONTRIBUTING.md whose members can be tested alone.
var kinds = []kind{
	{name: "source", folder: "internal/probe/sources", files: []string{"NAME.go"},
		tests: []string{"Fixtures", "SourcesHaveFixtures", "RemovedFiles", "Mutations", "Declarations", "FileNames", "Docs"},
		places: []place{
			{"internal/probe/sources/testdata/NAME*.txtar", `-- want --`, "a fixture"},
			{"docs/metrics.md", `(?m)^## NAME$`, "a section: go test ./internal/probe/sources -run 'TestDocs/^NAME$' -update"},
		}},
	{name: "rule", folder: "internal/findings/rules", files: []string{"NAME.go"},
		tests: []string{"Rules", "RulesHaveFixtures", "NoOrphans", "Files", "Descriptions", "CausesAreRules", "Docs", "DefaultsCanBeWritten"},
		places: []place{
			{"internal/findings/rules/testdata/NAME/*.txtar", `-- want --`, "fixtures of each answer"},
			{"docs/rules.md", "(?m)^`NAME`", "a section: go test ./internal/findings/rules -run 'TestDocs/^NAME$' -update"},
		}},
	{name: "cause", folder: "internal/explain/causes", files: []string{"NAME.go"},
		tests: []string{"Matches", "CausesHaveCases", "Words"},
		places: []place{
			{"internal/findings/rules/*.go", `"NAME"`, "the rule of its name, with its advice"},
			{"internal/explain/causes/causes_test.go", `"NAME"`, "an event that indicates it, in TestMatches"},
			{"internal/explain/testdata/*.txtar", `NAME`, "an explanation that has a row of it"},
		}},
	{name: "price", folder: "internal/explain/prices", files: []string{"NAME.go"},
		tests: []string{"Measure"}, parts: true},
	{name: "workload", folder: "internal/bench/workloads", files: []string{"NAME.go"},
		tests: []string{"Fixtures", "WorkloadsHaveFixtures", "DamagedOutput", "Declarations", "Bounds", "FileNames"},
		places: []place{
			{"internal/bench/workloads/testdata/NAME*.txtar", `(?m)^-- good.*/want --$`, "a fixture with good, wrong and truncated outputs"},
			{"docs/workloads.md", "`NAME`", "what it measures and what it needs"},
		}},
	{name: "launcher", folder: "internal/bench/launchers", files: []string{"NAME.go", "templates/NAME.yaml"},
		tests: []string{"List", "Arguments", "FileNames"},
		places: []place{
			{"internal/bench/launchers/testdata/NAME*.txtar", `-- commands --`, "a fixture"},
			{"internal/bench/launchers/arguments_test.go", `"NAME"`, "how its environment is opened, in TestArguments"},
			{"docs/workloads.md", "`NAME`", "where it runs jobs and what it needs"},
		}},
	{name: "TEE", folder: "internal/tee/kinds", files: []string{"NAME.go"},
		tests: []string{"Fixtures", "KindsHaveFixtures", "RemovedFiles", "Mutations", "FileNames"},
		places: []place{
			{"internal/tee/kinds/testdata/*.txtar", `(?m)^NAME here `, "a fixture in which it is here"},
			{"internal/tee/kinds/testdata/*.txtar", `(?m)^NAME unknown `, "a fixture in which nobody can tell"},
		}},
	{name: "protocol", folder: "internal/load/protocols", files: []string{"NAME.go"}},
	{name: "format", folder: "internal/report/formats", files: []string{"NAME.go"}, tests: []string{"Formats"}},
}

// comparisons is the file of the rules that have no file of their own.
const comparisons = "internal/findings/rules/comparisons.go"

// member is a member of a list.
type member struct {
	kind kind
	name string
	file string // where it is declared
}

// membersOf returns the members of all lists that have a name.
func membersOf(repository fs.FS, name string) ([]member, error) {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`).MatchString(name) {
		return nil, fmt.Errorf("%q is no name of a member: want small letters, digits, - and _", name)
	}
	var found []member
	for _, k := range kinds {
		for _, file := range k.files {
			base := name
			if strings.HasSuffix(file, ".go") {
				base = strings.ReplaceAll(name, "-", "_")
			}
			path := k.folder + "/" + strings.ReplaceAll(file, "NAME", base)
			if _, err := fs.Stat(repository, path); err == nil {
				found = append(found, member{k, name, path})
			}
		}
	}
	text, err := fs.ReadFile(repository, comparisons)
	if err != nil {
		return nil, fmt.Errorf("%w; run in the repository", err)
	}
	if regexp.MustCompile(`(?m)^\s+Name: +"` + name + `",`).Match(text) {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == "rule" })
		found = append(found, member{kinds[i], name, comparisons})
	}
	if found == nil {
		return nil, errors.New("no list has a member " + name + ": CONTRIBUTING.md says where each is written")
	}
	return found, nil
}

// arguments are those of go for the tests of the member.
func (m member) arguments() []string {
	if m.kind.tests == nil {
		return []string{"test", "-count=1", "./" + m.kind.folder}
	}
	ends := "-./"
	if m.kind.parts {
		ends += "_"
	}
	subtest := "^" + regexp.QuoteMeta(m.name) + "([" + ends + "]|$)"
	return []string{"test", "-v", "-count=1", "./" + m.kind.folder, "-run", "^Test(" + strings.Join(m.kind.tests, "|") + ")$/" + subtest}
}

// forgotten returns the places that do not name the member.
func (m member) forgotten(repository fs.FS) ([]string, error) {
	var out []string
	fill := func(s string) string { return strings.ReplaceAll(s, "NAME", m.name) }
	for _, p := range m.kind.places {
		files, err := fs.Glob(repository, fill(p.files))
		if err != nil {
			return nil, err
		}
		named := false
		for _, file := range files {
			text, err := fs.ReadFile(repository, file)
			if err != nil {
				return nil, err
			}
			named = named || regexp.MustCompile(fill(p.text)).Match(text)
		}
		if !named {
			out = append(out, fill(p.files)+" has no "+m.name+": it needs "+fill(p.what))
		}
	}
	return out, nil
}

// unannounced returns the line of the changelog, if the member's file has changed and no changed text of the changelog names the member.
// Another member's line, of the same branch, is not enough.
func (m member) unannounced(repository fs.FS, changed []string) ([]string, error) {
	if !slices.Contains(changed, m.file) {
		return nil, nil
	}
	named := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(m.name) + `($|[^\w-])`)
	for _, file := range changed {
		if !strings.HasPrefix(strings.ToLower(file), "changelog") {
			continue
		}
		text, err := fs.ReadFile(repository, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a release removes the files
			return nil, err
		}
		if named.Match(text) {
			return nil, nil
		}
	}
	return []string{"the changelog: a line that names " + m.name + " and says what users see of it"}, nil
}
