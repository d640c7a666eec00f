// Package build says which program this is: its version, its commit, and what of teescope it contains.
package build

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// version is set by the linker (-X); plain `go build` and `go install` leave it empty.
var version string

// Version is the release, or the commit that the binary was built from.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
}

// versionOf returns the version that the linker set, the commit of a build in a clone, or the version of the module that
// `go install` took.
func versionOf(linked string, info *debug.BuildInfo) string {
	commit := settingIn(info, "vcs.revision")
	switch {
	case linked != "":
		return linked
	case commit != "":
		return "devel-" + commit[:min(12, len(commit))]
	case info != nil && strings.HasPrefix(info.Main.Version, "v"):
		return info.Main.Version
	}
	return "devel"
}

// Committed is when the program's commit was made; zero where it does not say.
func Committed() time.Time {
	t, _ := time.Parse(time.RFC3339, setting("vcs.time")) // zero if it is no time
	return t
}

// Kind is what of teescope a program contains.
type Kind string

// The kinds.
const (
	Full   Kind = "full"
	Agent  Kind = "agent"  // the agent alone: no store, no page
	Client Kind = "client" // on a system other than Linux: nothing that reads a machine
)

// Info is what `version --json` prints. What the program does not say is null.
type Info struct {
	// Version is the release, or devel-COMMIT.
	Version string `json:"version"`
	// Commit is the whole hash, and CommittedAt when it was made.
	Commit      *string    `json:"commit"`
	CommittedAt *time.Time `json:"committed_at"`
	// Modified: the sources differed from the commit.
	Modified *bool `json:"modified"`
	// Go is the version of the compiler.
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	Kind Kind   `json:"kind"`
	// Prometheus is the release of the embedded Prometheus, which clients of its API compare; null in a program without one.
	Prometheus *string `json:"prometheus"`
}

// Describe returns what this program is. prometheus is the release of the embedded Prometheus, "" for none.
func Describe(kind Kind, prometheus string) Info {
	i := Info{Version: Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Kind: kind}
	if commit := setting("vcs.revision"); commit != "" {
		i.Commit = &commit
	}
	if at := Committed(); !at.IsZero() {
		i.CommittedAt = &at
	}
	if m := setting("vcs.modified"); m != "" {
		modified := m == "true"
		i.Modified = &modified
	}
	if prometheus != "" {
		i.Prometheus = &prometheus
	}
	return i
}

// print writes the description for people.
func (i Info) print(w io.Writer) error {
	commit := "unknown"
	if i.Commit != nil {
		commit = *i.Commit
		if i.CommittedAt != nil {
			commit += " of " + i.CommittedAt.UTC().Format(time.RFC3339)
		}
		if i.Modified != nil && *i.Modified {
			commit += ", modified"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "teescope %s (%s) %s/%s\ncommit: %s\ncompiler: %s\n", i.Version, i.Kind, i.OS, i.Arch, commit, i.Go)
	if i.Prometheus != nil {
		fmt.Fprintf(&b, "embedded Prometheus: %s\n", *i.Prometheus)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// setting is what Go's linker wrote into the program under a key; "" for nothing.
func setting(key string) string {
	info, _ := debug.ReadBuildInfo()
	return settingIn(info, key)
}

func settingIn(info *debug.BuildInfo, key string) string {
	if info != nil {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}
