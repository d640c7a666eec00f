package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// advisory says which versions of a package are known to be vulnerable.
type advisory struct {
	registry string // go or npm
	name     string // of a module or package; stdlib is Go itself
	id       string // GO-... or GHSA-...
	// ranges are pairs of the first vulnerable version and the first one that is not; an empty second one: none is known.
	ranges [][2]string
}

// hits reports whether a version is in one of the ranges.
func (a advisory) hits(version string) bool {
	return slices.ContainsFunc(a.ranges, func(r [2]string) bool {
		return compareVersions(version, r[0]) >= 0 && (r[1] == "" || compareVersions(version, r[1]) < 0)
	})
}

// line is the advisory as a line of the list.
func (a advisory) line() string {
	ranges := make([]string, len(a.ranges))
	for i, r := range a.ranges {
		ranges[i] = r[0] + ".." + r[1]
	}
	return strings.Join([]string{a.registry, a.name, a.id, strings.Join(ranges, " ")}, "\t")
}

// parseList reads the list. Lines that begin with # are about it.
func parseList(text []byte) (comments []string, all []advisory, err error) {
	in := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		if strings.HasPrefix(line, "#") {
			comments = append(comments, line)
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 4 {
			return nil, nil, fmt.Errorf("line %d has %d cells, want registry, name, id and versions", n, len(cells))
		}
		a := advisory{registry: cells[0], name: cells[1], id: cells[2]}
		for _, r := range strings.Fields(cells[3]) {
			from, to, ok := strings.Cut(r, "..")
			if !ok {
				return nil, nil, fmt.Errorf("line %d: versions %q, want FIRST..FIXED", n, r)
			}
			a.ranges = append(a.ranges, [2]string{from, to})
		}
		all = append(all, a)
	}
	return comments, all, in.Err()
}

// compareVersions orders versions as https://semver.org does. A missing number is 0, and what follows a + does not count.
func compareVersions(a, b string) int {
	a, b = strings.TrimPrefix(a, "v"), strings.TrimPrefix(b, "v")
	a, _, _ = strings.Cut(a, "+")
	b, _, _ = strings.Cut(b, "+")
	a, preA, isPreA := strings.Cut(a, "-")
	b, preB, isPreB := strings.Cut(b, "-")
	if c := compareParts(a, b, "0"); c != 0 {
		return c
	}
	switch {
	case isPreA && !isPreB:
		return -1
	case !isPreA && isPreB:
		return 1
	}
	return compareParts(preA, preB, "")
}

// compareParts compares what lies between dots: numbers as numbers, which come before words. absent stands for a part that is not there.
func compareParts(a, b, absent string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := absent, absent
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		n, errN := strconv.ParseUint(x, 10, 64)
		m, errM := strconv.ParseUint(y, 10, 64)
		c := 0
		switch {
		case x == y:
		case errN == nil && errM == nil:
			c = cmp.Compare(n, m)
		case x == "" || y == "": // fewer parts come first
			c = cmp.Compare(len(x), len(y))
		case errN == nil:
			c = -1
		case errM == nil:
			c = 1
		default:
			c = strings.Compare(x, y)
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// dependency is a module or package in its version, and the file that says so.
type dependency struct{ registry, name, version, file string }

var (
	required  = regexp.MustCompile(`(?m)^(?:\t|require )([^\s/]+\.[^\s/]+(?:/\S+)?) (v\S+)`)
	toolchain = regexp.MustCompile(`(?m)^(?:toolchain go|go )([\d.]+(?:rc\d+)?)$`)
)

// readDependencies reads what a go.mod or a package-lock.json names. Of a go.mod the newer of the lines go and toolchain is the version of Go.
func readDependencies(file string) (all []dependency, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if filepath.Base(file) == "package-lock.json" {
		return readPackages(file, text)
	}
	for _, m := range required.FindAllSubmatch(text, -1) {
		all = append(all, dependency{"go", string(m[1]), string(m[2]), file})
	}
	newest := ""
	for _, m := range toolchain.FindAllSubmatch(text, -1) {
		if v := string(m[1]); newest == "" || compareVersions(v, newest) > 0 {
			newest = v
		}
	}
	if len(all) == 0 || newest == "" {
		return nil, fmt.Errorf("%s names %d modules, and Go %q", file, len(all), newest)
	}
	return append(all, dependency{"go", "stdlib", newest, file}), nil
}

// readPackages reads npm's lock file (lockfileVersion 3), with the packages that only build and test.
func readPackages(file string, text []byte) (all []dependency, err error) {
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for path, p := range lock.Packages {
		if i := strings.LastIndex(path, "node_modules/"); i >= 0 {
			all = append(all, dependency{"npm", path[i+len("node_modules/"):], p.Version, file})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no packages", file)
	}
	return all, nil
}

// manifests are the files that name what others wrote and we build with, from the repository's root.
var manifests = []string{"go.mod", "channel/go.mod", "deploy/helm/go.mod", "tools/dashboards/go.mod", "tools/ferretdb/go.mod", "tools/release/go.mod", "ui/package-lock.json", "e2e/browser/package-lock.json"}

// readAll reads the dependencies of all manifests below a root.
func readAll(root string) (all []dependency, err error) {
	var errs []error
	for _, name := range manifests {
		list, err := readDependencies(filepath.Join(root, name))
		all, errs = append(all, list...), append(errs, err)
	}
	return all, errors.Join(errs...)
}
