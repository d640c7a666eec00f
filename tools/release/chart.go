package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// chart returns the files of the chart's package, as `helm package` makes it, with the release's version.
func (o options) chart() (entries []entry, err error) {
	names, err := filesBelow(o.path(chartFolder), "")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(o.path(chartFolder), name))
		if err != nil {
			return nil, err
		}
		if name == "Chart.yaml" {
			for _, line := range chartLines {
				if n := len(line.is.FindAll(content, -1)); n != 1 {
					return nil, fmt.Errorf("%s has %d lines of %s, want one", name, n, line.is)
				}
				content = line.is.ReplaceAll(content, []byte(line.now+strings.TrimPrefix(o.version, "v")))
			}
		}
		entries = append(entries, entry{"teescope/" + name, 0o644, content})
	}
	return entries, nil
}

// packChart writes the chart's package, and the same as an OCI artefact.
func (o options) packChart() error {
	entries, err := o.chart()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := o.writeTar(&b, entries); err != nil {
		return err
	}
	if err := os.WriteFile(o.path(filepath.Join(o.out, chartName)), b.Bytes(), 0o644); err != nil {
		return err
	}
	metadata := slices.IndexFunc(entries, func(e entry) bool { return e.name == "teescope/Chart.yaml" })
	return writeFile(o.path(filepath.Join(o.out, chartLayoutName)), func(w io.Writer) error { return o.writeChartLayout(w, entries[metadata].content, b.Bytes()) })
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
