package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// item is a file of a release. It has its text, or the name of a program in the folder of an architecture.
type item struct {
	// inTarball and installed are where it goes, by the name in the tarball's folder and by the path on a machine; "" is nowhere.
	inTarball, installed string
	text                 []byte
	program              string
	// config: the machine's owner may change it, and an upgrade keeps the change.
	config bool
	// service: it is for systemd, which Alpine has not.
	service bool
}

// programs are what a release has in bin.
var programs = []string{"teescope", "teescope-work"}

// shells are those with completions: where bash, zsh and fish look for those of packages.
var shells = []struct{ name, inTarball, installed string }{
	{"bash", "completions/teescope.bash", "/usr/share/bash-completion/completions/teescope"},
	{"zsh", "completions/_teescope", "/usr/share/zsh/site-functions/_teescope"},
	{"fish", "completions/teescope.fish", "/usr/share/fish/vendor_completions.d/teescope.fish"},
}

// pages has the program print what is made from its commands: man pages and completions.
func (o options) pages() (items []item, err error) {
	program, err := filepath.Abs(o.path(o.program))
	if err != nil {
		return nil, err
	}
	out, err := run(program, "--version")
	if err != nil {
		return nil, err
	}
	// Single packages are made of whatever program there is, by tests.
	if words := strings.Fields(string(out)); len(o.only) == 0 && (len(words) == 0 || words[len(words)-1] != o.version) {
		return nil, fmt.Errorf("%s is not of %s: it says %q; build it with VERSION=%s", program, o.version, bytes.TrimSpace(out), o.version)
	}
	dir, err := os.MkdirTemp("", "teescope-man")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := run(program, "man", "--out", dir, "--date", o.created.Format("2006-01-02")); err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.1")) // sorted
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s made no man pages (%w)", program, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		base := "man1/" + filepath.Base(name)
		items = append(items, item{inTarball: "man/" + base, text: text}, item{installed: "/usr/share/man/" + base + ".gz", text: gzipText(text)})
	}
	for _, shell := range shells {
		text, err := run(program, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		items = append(items, item{inTarball: shell.inTarball, installed: shell.installed, text: text})
	}
	return items, nil
}

func run(program string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// gzipText compresses without a name or a time (Debian's policy 12.1 wants man pages so).
func gzipText(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return b.Bytes()
}

// items lists what a release has for every architecture, from the repository and from the pages.
func (o options) items(pages []item) (all []item, err error) {
	for _, name := range programs {
		all = append(all, item{inTarball: name, installed: "/usr/bin/" + name, program: name})
	}
	files := []struct {
		from string
		to   item
	}{
		{"LICENSE", item{inTarball: "LICENSE", installed: "/usr/share/doc/teescope/copyright"}},
		{"deploy/systemd/teescope.service", item{inTarball: "systemd/teescope.service", installed: "/usr/lib/systemd/system/teescope.service", service: true}},
		{"deploy/package/options", item{inTarball: "systemd/options", installed: "/etc/default/teescope", config: true, service: true}},
		{"deploy/package/teescope.yaml", item{inTarball: "systemd/teescope.yaml", installed: "/etc/teescope/teescope.yaml", config: true}},
	}
	licenses, err := filepath.Glob(o.path("LICENSES/*")) // of parts with another one
	if err != nil {
		return nil, err
	}
	for _, name := range licenses {
		base := "LICENSES/" + filepath.Base(name)
		files = append(files, struct {
			from string
			to   item
		}{base, item{inTarball: base, installed: "/usr/share/doc/teescope/" + base}})
	}
	for _, f := range files {
		if f.to.text, err = os.ReadFile(o.path(f.from)); err != nil {
			return nil, err
		}
		all = append(all, f.to)
	}
	notices, packed, err := o.committedNotices()
	if err != nil {
		return nil, fmt.Errorf("licenses of others: %w", err)
	}
	all = append(all, item{inTarball: "LICENSES/OTHERS.txt", text: notices}, item{installed: "/usr/share/doc/teescope/LICENSES/OTHERS.txt.gz", text: packed})
	return append(all, pages...), nil
}
