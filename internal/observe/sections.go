package observe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/servers"
)

// Sections are the sections of a configuration file that concern the sources and who may change them: what an agent and a
// monitor have in common. Every key is optional.
type Sections struct {
	Sources  map[string]probe.Setting `yaml:"sources"`
	Requests []Requests               `yaml:"requests"`
	// Operators may change settings: users of --web-config, or names of its client certificates.
	Operators []string `yaml:"operators"`

	targets []servers.Target
}

// Shared returns the sections of a configuration that has others too.
func (c *Sections) Shared() *Sections { return c }

// Targets are the servers of Requests, once Check has found no fault.
func (c *Sections) Targets() []servers.Target { return c.targets }

// Check returns the first invalid value with its line and key; list is what can be read, and file names are relative to dir.
func (c *Sections) Check(root *yaml.Node, list []*probe.Source, dir string) error {
	at := func(keys ...string) string {
		return configfile.Position(root, keys...)
	}
	for name, s := range c.Sources {
		i := slices.IndexFunc(list, func(x *probe.Source) bool { return x.Name == name })
		if i < 0 {
			return fmt.Errorf("%s: no such source; `teescope doctor` lists them", at("sources", name))
		}
		if err := s.Check(list[i]); err != nil {
			key, why, _ := strings.Cut(err.Error(), ": ")
			return fmt.Errorf("%s: %s", at("sources", name, key), why)
		}
	}
	if err := errors.Join(checkRequests(c.Requests, root), checkOperators(c.Operators, at)); err != nil {
		return err
	}
	c.targets = requestTargets(c.Requests, dir)
	return nil
}

// Apply sets the sources to the file's settings, and to the defaults for everything
// else; process is the filter of the command line. It continues after a source that
// refuses.
func (c *Sections) Apply(e *probe.Engine, process string) error {
	var errs []error
	for _, s := range e.Status() {
		setting := complete(c.Sources[s.Source.Name], s.Source, process)
		if named := len(c.targets) > 0; named && sources.IsRequests(s.Source) && c.Sources[s.Source.Name].On == nil {
			setting.On = &named
		}
		errs = append(errs, e.Set(s.Source.Name, setting))
	}
	return errors.Join(errs...)
}

// complete is a setting of every field: the file's values over the defaults.
func complete(s probe.Setting, source *probe.Source, process string) probe.Setting {
	on, auto, all, none, pids, files := !source.OptIn, true, 1.0, "", []int{}, []string{}
	out := probe.Setting{On: &on, Process: &process, PIDs: &pids, Cgroup: &none, Container: &none, Sample: &all, Files: &files}
	if len(source.Levels) > 0 {
		out.Level = &source.Levels[0].Name
	}
	if !source.ByProcess() {
		out.Process = &none
	}
	if source.Waits != nil && s.On == nil {
		out.On, out.Auto = nil, &auto
	}
	set(&out.On, s.On)
	set(&out.Auto, s.Auto)
	set(&out.Level, s.Level)
	set(&out.Process, s.Process)
	set(&out.PIDs, s.PIDs)
	set(&out.Cgroup, s.Cgroup)
	set(&out.Container, s.Container)
	set(&out.Sample, s.Sample)
	set(&out.Files, s.Files)
	return out
}

func set[T any](to **T, v *T) {
	if v != nil {
		*to = v
	}
}

// checkOperators returns the first fault of the configuration's operators.
func checkOperators(list []string, at func(keys ...string) string) error {
	for i, name := range list {
		key := at("operators", strconv.Itoa(i))
		switch {
		case strings.TrimSpace(name) == "" || len(name) > 255:
			return fmt.Errorf("%s: %q: want a name of --web-config's basic_auth_users, or one of a client certificate", key, name)
		case slices.Contains(list[:i], name):
			return fmt.Errorf("%s: %q is there twice", key, name)
		}
	}
	return nil
}

// monitorOnly are the sections that an agent refuses, and why.
var monitorOnly = [][2]string{
	{"analysis", "an agent evaluates no rules"},
	{"notify", "an agent has no findings to send"},
	{"dashboards", "an agent serves no page"},
	{"global", "an agent without remote_write scrapes nothing"},
	{"scrape_configs", "an agent without remote_write scrapes nothing"},
}

// MonitorOnly returns why an agent has no use for sections that are in the file; nil if there are none. With remote_write an agent
// scrapes.
func MonitorOnly(root *yaml.Node, sends bool) error {
	var errs []error
	for _, s := range monitorOnly {
		scrapes := slices.Contains([]string{"global", "scrape_configs"}, s[0])
		if configfile.Line(root, s[0]) > 0 && !(scrapes && sends) {
			errs = append(errs, fmt.Errorf("%s: %s; it belongs in the configuration of a monitor", configfile.Position(root, s[0]), s[1]))
		}
	}
	return errors.Join(errs...)
}
