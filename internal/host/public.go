package host

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/printable"
)

// publicFolders are where packages put files, and where devices are. Their names are the same everywhere.
var publicFolders = []string{"/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/dev/"}

// IsPublic reports whether a path may be shown to everybody who can reach the page: its name tells nothing about what users have on
// this machine. That is decided by the path alone: a look at the folders above could block.
func IsPublic(name string) bool {
	if isKernelFile(name) {
		return true
	}
	in := func(folder string) bool { return strings.HasPrefix(path.Clean(name), folder) }
	return slices.ContainsFunc(publicFolders, in) && !in("/dev/shm/")
}

// PublicName is a path where that IsPublic, and otherwise the words instead.
func PublicName(name, instead string) string {
	if IsPublic(name) {
		return name
	}
	return instead
}

// Private is an error whose text, for the log, names what not everybody may list. PublicText replaces it with Shown. Err is
// its cause or nil.
type Private struct {
	Text, Shown string
	Err         error
}

func (p *Private) Error() string { return p.Text }

// Unwrap makes errors.Is see the cause.
func (p *Private) Unwrap() error { return p.Err }

// PublicText is the text of an error for everybody who can reach the page: with neither the paths of a *fs.PathError in its tree
// that are not public, nor the text of a *Private, nor secrets. Paths of mounts stay, which everybody can read (proc_pid_mountinfo(5)).
func PublicText(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	var walk func(error)
	walk = func(err error) {
		switch x := err.(type) { //nolint:errorlint // every error of the tree is looked at
		case *Private:
			text = strings.ReplaceAll(text, x.Text, x.Shown)
		case *fs.PathError:
			if x.Path != "" && !slices.Contains(ofMounts, x.Op) && !IsPublic(x.Path) {
				text = strings.ReplaceAll(text, x.Path, "a file of a user")
			}
		}
		switch x := err.(type) { //nolint:errorlint // see above
		case interface{ Unwrap() error }:
			if below := x.Unwrap(); below != nil {
				walk(below)
			}
		case interface{ Unwrap() []error }:
			for _, below := range x.Unwrap() {
				walk(below)
			}
		}
	}
	walk(err)
	return printable.Redact(text)
}
