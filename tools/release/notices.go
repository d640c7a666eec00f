package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	file    string // its license, in place of dir
}

// licenseFile matches the names of files with terms, or with what the terms want to be passed on.
var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|copyright|patents)([.-].*)?$`)

// noticesFile has the licenses of others, which the programs contain and `teescope licenses` prints.
const noticesFile = "internal/licenses/others.txt.gz"

// writeNotices writes the licenses of others into a file.
func (o options) writeNotices() error {
	text, err := o.notices()
	if err != nil {
		return fmt.Errorf("licenses of others: %w", err)
	}
	return os.WriteFile(o.path(o.licenses), gzipText(text), 0o644)
}

// committedNotices reads what writeNotices wrote; the text and its file.
func (o options) committedNotices() (text, packed []byte, err error) {
	packed, err = os.ReadFile(o.path(noticesFile))
	if err != nil {
		return nil, nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		text, err = io.ReadAll(unpacked)
	}
	return text, packed, err
}

// notices lists what of others is in the programs, with the texts of the licenses, which want that: Go, its modules, the packages of
// the page, and musl. Equal texts are there once.
func (o options) notices() ([]byte, error) {
	parts, err := o.modules()
	if err != nil {
		return nil, fmt.Errorf("modules: %w", err)
	}
	packages, err := o.packages()
	if err != nil {
		return nil, fmt.Errorf("packages of the page: %w", err)
	}
	parts = append(append(parts, packages...), part{name: "musl 1.2.3, in the small worker of workloads/micro", file: o.path("LICENSES/musl.txt")})
	var texts []string // in the order of their first parts
	having := map[string][]string{}
	for _, p := range parts {
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
	if p.file != "" {
		text, err := os.ReadFile(p.file)
		return strings.TrimSpace(string(text)), err
	}
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

// linked are the programs whose modules are listed, on the systems for which a release has them: a client links what Linux does not need.
var linked = []struct {
	system, arch string
	programs     []string
}{
	{"linux", "amd64", []string{"./cmd/teescope", "./cmd/teescope-work", "./cmd/teescope-agent"}},
	{"linux", "arm64", []string{"./cmd/teescope", "./cmd/teescope-work", "./cmd/teescope-agent"}},
	{"darwin", "arm64", []string{"./cmd/teescope"}},
	{"windows", "amd64", []string{"./cmd/teescope"}},
}

// modules lists Go and the modules that the programs are linked from.
func (o options) modules() ([]part, error) {
	list := func(env []string, args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = o.root, append(os.Environ(), env...)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
		}
		return strings.TrimSpace(string(out)), err
	}
	goroot, err := list(nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	parts := []part{{name: "Go's standard library", license: "BSD-3-Clause", dir: goroot}}
	var lines []string
	for _, l := range linked {
		args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}, l.programs...)
		out, err := list([]string{"GOOS=" + l.system, "GOARCH=" + l.arch, "CGO_ENABLED=0"}, args...)
		if err != nil {
			return nil, err
		}
		lines = append(lines, strings.Split(out, "\n")...)
	}
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
			parts = append(parts, part{name: path[i+len("node_modules/"):] + " " + p.Version, license: p.License, dir: o.path(filepath.Join("ui", path))})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}
