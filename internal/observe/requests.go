package observe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/servers"
	"github.com/teescope/teescope/internal/store/page"
)

// Requests is a server whose own count of requests is read.
type Requests struct {
	// Process is the server's process name, as in /proc/PID/comm; of a name over 15 bytes the first 15 count, which the
	// kernel keeps.
	Process      string `yaml:"process"`
	App          string `yaml:"app"`
	Address      string `yaml:"address"`
	User         string `yaml:"user"`
	Database     string `yaml:"database"`
	PasswordFile string `yaml:"password_file"`
	Counter      string `yaml:"counter"`
}

// mostTargets bounds the connections made by one reading.
const mostTargets = 64

// checkRequests returns the section's first fault, with its line.
func checkRequests(list []Requests, root *yaml.Node) error {
	at := func(i int, key string) string {
		return fmt.Sprintf("line %d: requests: %s", configfile.Line(root, "requests", strconv.Itoa(i), key), key)
	}
	for i, r := range list {
		k := slices.IndexFunc(servers.All, func(a *servers.App) bool { return a.Name == r.App })
		switch {
		case i == mostTargets:
			return fmt.Errorf("%s: %d servers; want at most %d", at(i, "process"), len(list), mostTargets)
		case r.Process == "":
			return errors.New(at(i, "process") + ": want the server's process name, as in /proc/PID/comm")
		case k < 0:
			var names []string
			for _, a := range servers.All {
				names = append(names, a.Name)
			}
			return fmt.Errorf("%s: %q: want one of %s", at(i, "app"), r.App, strings.Join(names, ", "))
		}
		a := servers.All[k]
		if err := a.Check(r.Address); err != nil {
			return fmt.Errorf("%s: %w", at(i, "address"), err)
		}
		switch {
		case a.Counter && r.Counter == "":
			return fmt.Errorf("%s: want the name of a counter that the address serves", at(i, "counter"))
		case !a.Counter && r.Counter != "":
			return fmt.Errorf("%s: %s has only one counter; leave this out", at(i, "counter"), a.Name)
		case slices.Contains(list[:i], r):
			return fmt.Errorf("%s: this server is listed twice", at(i, "process"))
		}
	}
	return nil
}

// requestTargets are the servers of a checked section; dir is where relative names start.
func requestTargets(list []Requests, dir string) []servers.Target {
	var out []servers.Target
	for _, r := range list {
		i := slices.IndexFunc(servers.All, func(a *servers.App) bool { return a.Name == r.App })
		t := servers.Target{App: servers.All[i], Process: metric.CutName(r.Process), Address: r.Address, User: r.User, Database: r.Database,
			PasswordFile: r.PasswordFile, Counter: r.Counter, Pages: page.Parser{}}
		if t.PasswordFile != "" && !filepath.IsAbs(t.PasswordFile) {
			t.PasswordFile = filepath.Join(dir, t.PasswordFile)
		}
		out = append(out, t)
	}
	return out
}

// Asked are the servers of the current configuration.
type Asked struct {
	list atomic.Pointer[[]servers.Target]
}

// Set has these servers asked from now on.
func (a *Asked) Set(list []servers.Target) { a.list.Store(&list) }

func (a *Asked) get() []servers.Target {
	if t := a.list.Load(); t != nil {
		return *t
	}
	return nil
}

// ReplaceSource replaces the source without servers by one that asks the current servers.
func (a *Asked) ReplaceSource(list []*probe.Source) []*probe.Source {
	out := slices.Clone(list)
	for i, s := range out {
		if sources.IsRequests(s) {
			out[i] = sources.Requests(a.get)
		}
	}
	return out
}
