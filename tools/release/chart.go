package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// chartFolder has the Helm chart, and chartName is its package in a release, which `helm push` takes to a registry as an OCI artefact.
const (
	chartFolder = "deploy/helm/teescope"
	chartName   = "teescope-chart.tgz"
)

// chartLines are the lines of Chart.yaml that a release sets. The comment says that there is none.
var chartLines = []struct {
	is  *regexp.Regexp
	now string // after it, the version
}{
	{regexp.MustCompile(`(?m)^version: .*$`), "version: "},
	{regexp.MustCompile(`(?m)^# The image's tag\..*\nappVersion: .*$`), "appVersion: v"},
}

// chart packs the chart as `helm package` does, with the release's version.
func (o options) chart(w io.Writer) error {
	names, err := filesBelow(o.path(chartFolder), "")
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(o.path(chartFolder), name))
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			for _, line := range chartLines {
				if n := len(line.is.FindAll(content, -1)); n != 1 {
					return fmt.Errorf("%s has %d lines of %s, want one", name, n, line.is)
				}
				content = line.is.ReplaceAll(content, []byte(line.now+strings.TrimPrefix(o.version, "v")))
			}
		}
		err = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "teescope/" + name, Mode: 0o644, Size: int64(len(content)), ModTime: o.created, Format: tar.FormatUSTAR})
		if err == nil {
			_, err = archive.Write(content)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

// filesBelow lists the files below a folder, also where a link leads to, sorted in each folder.
func filesBelow(top, folder string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(top, folder))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		fi, err := os.Stat(filepath.Join(top, name))
		if err != nil {
			return nil, err
		}
		below := []string{name}
		if fi.IsDir() {
			if below, err = filesBelow(top, name); err != nil {
				return nil, err
			}
		}
		names = append(names, below...)
	}
	return names, nil
}
