package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// part is something of others that the programs contain.
type part struct {
	name    string // with its version
	license string // what its package says, where that is known
	dir     string // where its license is
}

// licenseFile matches the names of files with terms, or with what the terms want to be passed on.
var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|copyright|patents)([.-].*)?$`)

// notices lists what of others is in the programs, with the texts of the licenses, which want that: Go, its modules, and the packages of
// the page. Equal texts are there once.
func (o options) notices() ([]byte, error) {
	parts, err := o.modules()
	if err != nil {
		return nil, fmt.Errorf("modules: %w", err)
	}
	packages, err := o.packages()
	if err != nil {
		return nil, fmt.Errorf("packages of the page: %w", err)
	}
	var texts []string // in the order of their first parts
	having := map[string][]string{}
	for _, p := range append(parts, packages...) {
		text, err := p.terms()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if having[text] == nil {
			texts = append(texts, text)
		}
		having[text] = append(having[text], p.name)
	}
	var b bytes.Buffer
	b.WriteString("teescope contains these works of others, under these licenses.\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(having[text], "\n"), text)
	}
	return b.Bytes(), nil
}

// terms joins the files with the terms of a part. Where there are none, what its package calls its license has to do.
func (p part) terms() (string, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, e := range entries { // sorted
		if !e.Type().IsRegular() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	switch {
	case len(texts) > 0:
		return strings.Join(texts, "\n\n"), nil
	case p.license != "":
		return "License: " + p.license + ". Its package has no text of it.", nil
	}
	return "", errors.New("it has no file with its license")
}

// modules lists Go and the modules that the programs are linked from.
func (o options) modules() ([]part, error) {
	list := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = o.root
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
		}
		return strings.TrimSpace(string(out)), err
	}
	goroot, err := list("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, err := list("env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	parts := []part{{"Go's standard library " + version, "BSD-3-Clause", goroot}}
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}
	for _, program := range programs {
		args = append(args, "./cmd/"+program)
	}
	out, err := list(args...)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		if name, dir, ok := strings.Cut(line, "\t"); ok {
			parts = append(parts, part{name: name, dir: dir})
		}
	}
	return parts, nil
}

// packages lists the npm packages of which the page may have something: all that its lock file calls no development dependency.
func (o options) packages() ([]part, error) {
	lock, err := os.ReadFile(o.path("ui/package-lock.json"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, err
	}
	var parts []part
	for path, p := range file.Packages {
		if i := strings.LastIndex(path, "node_modules/"); i >= 0 && !p.Dev {
			parts = append(parts, part{path[i+len("node_modules/"):] + " " + p.Version, p.License, o.path(filepath.Join("ui", path))})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}
