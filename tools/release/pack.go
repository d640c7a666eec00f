package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/apk"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// architectures are those of releases, by Go's names, with rpm's and Alpine's.
var architectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// formats are what is made for each architecture; what is no tarball has a packager.
var formats = []string{"tar.gz", "deb", "rpm", "apk"}

var packagers = map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM, "apk": apk.Default}

// fileName has no version, so the address of the latest release's file stays the same.
func fileName(format, arch string) string {
	switch format {
	case "tar.gz":
		return "teescope-linux-" + arch + ".tar.gz"
	case "deb":
		return "teescope-" + arch + ".deb"
	}
	return "teescope-" + architectures[arch] + "." + format
}

// pack writes the tarball and the packages of an architecture.
func (o options) pack(b build, pages []item) error {
	all, err := o.items(pages)
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "teescope-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	sources := make([]string, len(all)) // nfpm takes files
	for i, it := range all {
		if it.program != "" {
			sources[i] = o.path(filepath.Join(b.dir, "bin", it.program))
			continue
		}
		sources[i] = filepath.Join(stage, fmt.Sprint(i))
		if err := os.WriteFile(sources[i], it.text, 0o644); err != nil {
			return err
		}
	}
	for _, format := range formats {
		if !o.includes(format) {
			continue
		}
		write := func(w io.Writer) error { return o.tarball(w, all, sources) }
		if packager := packagers[format]; packager != nil {
			write = func(w io.Writer) error { return packager.Package(o.info(format, b.arch, all, sources), w) }
		}
		name := fileName(format, b.arch)
		if err := writeFile(o.path(filepath.Join(o.out, name)), write); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeFile removes a file that cannot be completed.
func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(name)
		}
	}()
	return write(f)
}

// mode is that of an installed file: a program's, or a text's.
func (it item) mode() os.FileMode {
	if it.program != "" {
		return 0o755
	}
	return 0o644
}

// tarball writes a folder teescope with everything.
func (o options) tarball(w io.Writer, all []item, sources []string) error {
	var entries []entry
	for i, it := range all {
		if it.inTarball == "" {
			continue
		}
		content, err := os.ReadFile(sources[i])
		if err != nil {
			return err
		}
		entries = append(entries, entry{"teescope/" + it.inTarball, int64(it.mode()), content})
	}
	return o.writeTar(w, entries)
}

// info describes a package to nfpm.
func (o options) info(format, arch string, all []item, sources []string) *nfpm.Info {
	i := &nfpm.Info{
		Name: "teescope", Arch: arch, Platform: "linux", Version: o.version, VersionSchema: "semver", Release: "1",
		Section: "admin", Priority: "optional", MTime: o.created, DisableGlobbing: true,
		Maintainer: "The teescope authors <teescope@users.noreply.github.com>", Vendor: "teescope",
		Homepage: "https://github.com/teescope/teescope", License: "Apache-2.0",
	}
	const summary = "Monitor, benchmark and explain Trusted Execution Environments"
	const description = "One static program that watches enclaves and confidential virtual machines,\nsays what slows them down, and measures what their protection costs."
	switch format {
	case "deb": // the first line is the summary
		i.Description = summary + "\n" + description
	case "rpm":
		i.RPM.Summary, i.Description = summary, description
	default: // of one line
		i.Description = summary
	}
	if format == "apk" { // 0.1.0_rc1: apk-package(5) has no dot in a pre-release
		if before, after, pre := strings.Cut(o.version, "-"); pre {
			i.Version = before + "-" + strings.ReplaceAll(after, ".", "")
		}
	}
	// The static programs need nothing of the machine, so there are no dependencies.
	i.Deb.Compression, i.RPM.Compression = "zstd", "zstd"
	i.RPM.BuildHost = "localhost" // else the builder's name
	for n, it := range all {
		if it.installed == "" || it.service && format == "apk" {
			continue
		}
		c := &files.Content{Source: sources[n], Destination: it.installed, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: it.mode(), MTime: o.created}}
		if it.config {
			c.Type = files.TypeConfigNoReplace
		}
		if format == "deb" { // Debian's zsh looks elsewhere
			c.Destination = strings.Replace(c.Destination, "/zsh/site-functions/", "/zsh/vendor-completions/", 1)
		}
		i.Contents = append(i.Contents, c)
	}
	if format == "rpm" { // which removes no other folders
		for _, dir := range []string{"/etc/teescope", "/usr/share/doc/teescope", "/usr/share/doc/teescope/LICENSES"} {
			i.Contents = append(i.Contents, &files.Content{Destination: dir, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: o.created}})
		}
	}
	if format != "apk" { // the scripts are about the service
		script := func(name string) string { return o.path("deploy/package/" + name) }
		i.Scripts = nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")}
	}
	return nfpm.WithDefaults(i)
}
