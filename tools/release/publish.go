package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// formulaName and krewName are what a tap of Homebrew and an index of Krew would have, once there is a release to download. Nothing is
// published: both name addresses at which nothing lies yet. A formula has the file name of its class, and an index of Krew wants the
// file teescope.yaml.
const (
	formulaName = "teescope.rb"
	krewName    = "teescope-krew.yaml"
)

// asset is an archive that a package manager downloads.
type asset struct {
	System, Arch string // as Go calls them
	File, SHA256 string
	URL          string
	Program      string // its name in the archive's folder
}

// release is what the templates are filled with.
type release struct {
	Tag, Version, Repository string
	Assets                   []asset // systems in order
}

// asset returns the archive of a system and an architecture; nil if the release has none.
func (r release) asset(system, arch string) *asset {
	if i := slices.IndexFunc(r.Assets, func(a asset) bool { return a.System == system && a.Arch == arch }); i >= 0 {
		return &r.Assets[i]
	}
	return nil
}

// notPublished is the first line of both files.
const notPublished = "# Made by `make release` for %s, and not published: its addresses have files only after that release was uploaded there."

// https://docs.brew.sh/Formula-Cookbook. On Linux it is the whole program; on macOS the client.
var formula = template.Must(template.New("formula").Parse(`class Teescope < Formula
  desc "Monitor, benchmark and explain Trusted Execution Environments"
  homepage "{{.Repository}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range $system := .Systems}}
  on_{{$system.Name}} do
{{- range $system.Assets}}
    on_{{.CPU}} do
      url "{{.URL}}"
      sha256 "{{.SHA256}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "teescope"
    bin.install "teescope-work" if OS.linux?
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/teescope.bash" => "teescope"
    zsh_completion.install "completions/_teescope"
    fish_completion.install "completions/teescope.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/teescope version --json")
  end
end
`))

// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
var krew = template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: teescope
spec:
  version: {{.Tag}}
  homepage: {{.Repository}}
  shortDescription: Explain Trusted Execution Environments
  description: |
    Asks a teescope monitor in the cluster what is wrong and where the time of a
    process goes, and compares, reports and verifies benchmark results:

      kubectl --namespace teescope port-forward service/teescope-monitor 9780 &
      kubectl teescope explain --process redis
  platforms:
{{- range .Assets}}
    - selector:
        matchLabels:
          os: {{.System}}
          arch: {{.Arch}}
      uri: {{.URL}}
      sha256: {{.SHA256}}
      bin: teescope/{{.Program}}
{{- end}}
`))

// assets lists the archives of the release, those of Linux first.
func (o options) assets() (all []asset, err error) {
	add := func(system, arch, file, program string) error {
		sum, err := digest(o.path(filepath.Join(o.out, file)))
		all = append(all, asset{system, arch, file, sum, repository + "/releases/download/" + o.version + "/" + file, program})
		return err
	}
	var errs []error
	for _, b := range o.builds {
		errs = append(errs, add("linux", b.arch, fileName("tar.gz", b.arch), "teescope"))
	}
	for _, c := range o.clients {
		system, arch, _ := strings.Cut(c.arch, "/")
		errs = append(errs, add(system, arch, clientName(c), clientProgram(c)))
	}
	return all, errors.Join(errs...)
}

// brewSystem is a system of a formula.
type brewSystem struct {
	Name   string
	Assets []brewAsset
}

type brewAsset struct {
	asset
	CPU string
}

// Systems are those that Homebrew runs on, by its names.
func (r release) Systems() (all []brewSystem) {
	for _, system := range [][2]string{{"darwin", "macos"}, {"linux", "linux"}} {
		s := brewSystem{Name: system[1]}
		for _, cpu := range [][2]string{{"arm64", "arm"}, {"amd64", "intel"}} {
			if a := r.asset(system[0], cpu[0]); a != nil {
				s.Assets = append(s.Assets, brewAsset{*a, cpu[1]})
			}
		}
		if len(s.Assets) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// writePublished writes the formula and the manifest about the archives that the release has.
func (o options) writePublished() error {
	assets, err := o.assets()
	if err != nil {
		return err
	}
	about := release{o.version, strings.TrimPrefix(o.version, "v"), repository, assets}
	for name, text := range map[string]*template.Template{formulaName: formula, krewName: krew} {
		var b bytes.Buffer
		fmt.Fprintf(&b, notPublished+"\n", o.version)
		if err := text.Execute(&b, about); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(o.path(filepath.Join(o.out, name)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
