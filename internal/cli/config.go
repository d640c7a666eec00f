package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/servers"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// config is the configuration file (--config). Unknown keys are errors; every key is optional.
type config struct {
	Analysis analysisConfig           `yaml:"analysis"`
	Sources  map[string]probe.Setting `yaml:"sources"`
	Requests []requestsConfig         `yaml:"requests"`
	Notify   notifyConfig             `yaml:"notify"`
	// Dashboards are shown next to those made on the page, and cannot be changed there.
	Dashboards []web.Dashboard `yaml:"dashboards"`
	// Operators may change settings: users of --web-config, or names of its client certificates.
	Operators []string `yaml:"operators"`
	// Global, ScrapeConfigs and RemoteWrite are Prometheus' own sections. The store
	// decodes them; here they are only known keys.
	Global        yaml.Node `yaml:"global"`
	ScrapeConfigs yaml.Node `yaml:"scrape_configs"`
	RemoteWrite   yaml.Node `yaml:"remote_write"`

	scrape  *store.ScrapeConfig
	targets []servers.Target
	unused  []error // the sections that an agent has no use for
}

// monitorOnly are the sections that an agent refuses, and why.
var monitorOnly = [][2]string{
	{"analysis", "an agent evaluates no rules"},
	{"notify", "an agent has no findings to send"},
	{"dashboards", "an agent serves no page"},
	{"global", "an agent without remote_write scrapes nothing"},
	{"scrape_configs", "an agent without remote_write scrapes nothing"},
}

type analysisConfig struct {
	Every      time.Duration         `yaml:"every"`
	Long       time.Duration         `yaml:"long"`
	Short      time.Duration         `yaml:"short"`
	CloseAfter time.Duration         `yaml:"close_after"`
	Rules      map[string]ruleConfig `yaml:"rules"`
	Own        []ownConfig           `yaml:"own"`

	limits []findings.Limit // of Rules
}

type windowsConfig struct {
	Long  time.Duration `yaml:"long"`
	Short time.Duration `yaml:"short"`
}

// readConfig reads and checks the file, for an agent or for a monitor; "" is the empty configuration.
func readConfig(name string, list []*probe.Source, agent bool) (config, error) {
	if name == "" {
		return config{}, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return config{}, fmt.Errorf("read configuration: %w", err)
	}
	var c config
	err = contain.Call("reading the configuration", func() (err error) { c, err = parseConfig(b, filepath.Dir(name), list); return err })
	if err == nil && agent {
		err = errors.Join(c.unused...)
	}
	if err != nil {
		return config{}, fmt.Errorf("configuration %s: %w", name, err)
	}
	return c, nil
}

// parseConfig decodes and checks a configuration; file names in it are relative to dir.
func parseConfig(b []byte, dir string, list []*probe.Source) (config, error) {
	var c config
	b = asYAML(b)
	root, err := decode(b, &c)
	if err != nil {
		return c, err
	}
	if err := c.check(root, list); err != nil {
		return c, err
	}
	if err := c.Notify.check(root, dir); err != nil {
		return c, err
	}
	if err := checkDashboards(root, c.Dashboards); err != nil {
		return c, err
	}
	c.targets = requestTargets(c.Requests, dir)
	c.scrape, err = store.ParseScrape(b, dir, "analysis", "sources", "requests", "notify", "dashboards", "operators")
	for _, s := range monitorOnly {
		scrapes := slices.Contains([]string{"global", "scrape_configs"}, s[0])
		if lineOf(root, s[0]) > 0 && !(scrapes && c.scrape.Receivers() > 0) {
			c.unused = append(c.unused, fmt.Errorf("%s: %s; it belongs in the configuration of a monitor", where(root, s[0]), s[1]))
		}
	}
	return c, err
}

// check returns the first invalid value with its line and key.
func (c *config) check(root *yaml.Node, list []*probe.Source) error {
	at := func(keys ...string) string {
		return where(root, keys...)
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
	for key, d := range map[string]time.Duration{"every": c.Analysis.Every, "long": c.Analysis.Long, "short": c.Analysis.Short, "close_after": c.Analysis.CloseAfter} {
		if d < 0 || d > 0 && d < time.Second {
			return fmt.Errorf("%s: %v; want 1s or more, or 0 for the default", at("analysis", key), d)
		}
	}
	if err := (windowsConfig{Long: c.Analysis.Long, Short: c.Analysis.Short}).check(findings.DefaultOptions().Windows); err != nil {
		return fmt.Errorf("%s: %w", at("analysis"), err)
	}
	return c.Analysis.settle(root, sourceOf(list))
}

// windows are the file's default windows over the built-in ones.
func (a analysisConfig) windows() findings.Windows {
	return windowsConfig{Long: a.Long, Short: a.Short}.over(findings.DefaultOptions().Windows)
}

// check returns what is wrong with the windows over the defaults.
func (w windowsConfig) check(def findings.Windows) error {
	said := func(own, def time.Duration) string {
		if own == 0 {
			return findings.PromDuration(def) + ", the default"
		}
		return findings.PromDuration(own)
	}
	switch all := w.over(def); {
	case w.Long < 0:
		return fmt.Errorf("long: %v; want 1s or more, or 0 for the default", w.Long)
	case w.Short < 0:
		return fmt.Errorf("short: %v; want 1s or more, or 0 for the default", w.Short)
	case all.Short > all.Long:
		return fmt.Errorf("short (%s) must not be above long (%s)", said(w.Short, def.Short), said(w.Long, def.Long))
	}
	return nil
}

func (w windowsConfig) over(def findings.Windows) findings.Windows {
	if w.Long > 0 {
		def.Long = w.Long
	}
	if w.Short > 0 {
		def.Short = w.Short
	}
	return def
}

// options are the rule engine's options with the file's values.
func (a analysisConfig) options() findings.Options {
	o := findings.DefaultOptions()
	o.Windows = a.windows()
	if a.Every > 0 {
		o.Every = a.Every
	}
	if a.CloseAfter > 0 {
		o.CloseAfter = a.CloseAfter
	}
	a.tune(&o)
	return o
}

// apply sets the sources to the file's settings, and to the defaults for everything
// else; process is the filter of the command line. It continues after a source that
// refuses.
func (c *config) apply(e *probe.Engine, process string) error {
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

// where is the place of a nested key: "line 3: analysis.own[0].expr".
func where(root *yaml.Node, keys ...string) string {
	var path strings.Builder
	for i, k := range keys {
		switch _, err := strconv.Atoi(k); {
		case err == nil:
			k = "[" + k + "]"
		case i > 0:
			k = "." + k
		}
		path.WriteString(k)
	}
	return fmt.Sprintf("line %d: %s", lineOf(root, keys...), path.String())
}

// lineOf is the line of a nested key, or of its nearest parent; 0 without either. The
// keys of a list are its indices.
func lineOf(n *yaml.Node, keys ...string) int {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	line := 0
	for _, k := range keys {
		found := false
		if i, err := strconv.Atoi(k); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
			n, line, found = n.Content[i], n.Content[i].Line, true
		}
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			if n.Content[i].Value == k {
				line, n, found = n.Content[i].Line, n.Content[i+1], true
				break
			}
		}
		if !found {
			return line
		}
	}
	return line
}

// keysAt is the path of the value on a line that the decoder refused: what all values there with its tag and text have in
// common. There may be several, as on the one line of a JSON file.
func keysAt(root *yaml.Node, line int, tag, text string) (path []string) {
	text = strings.TrimSuffix(text, "...") // of a long one
	found := false
	var walk func(n *yaml.Node, keys []string)
	walk = func(n *yaml.Node, keys []string) {
		if len(keys) > 0 && n.Line == line && n.ShortTag() == tag && strings.HasPrefix(n.Value, text) {
			if !found {
				found, path = true, keys
			}
			same := 0
			for same < min(len(path), len(keys)) && path[same] == keys[same] {
				same++
			}
			path = path[:same]
		}
		for i, c := range n.Content {
			if n.Kind != yaml.MappingNode {
				walk(c, keys)
			} else if i%2 == 1 {
				walk(c, append(slices.Clone(keys), n.Content[i-1].Value))
			}
		}
	}
	walk(root, nil)
	return path
}

var (
	syntax     = regexp.MustCompile(`^yaml: (found|did not find|could not find|mapping values|block |while )`)
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongType  = regexp.MustCompile("line (\\d+): cannot unmarshal (!!\\w+)(?: `(.*)`)? into (.+)")
	// wanted translates the decoder's Go types; every other type is a mapping.
	wanted = map[string]string{"time.Duration": "a time like 15s", "bool": "true or false", "string": "text",
		"[]cli.requestsConfig": "a list of servers", "[]cli.ownConfig": "a list of rules", "[]cli.subjectConfig": "a list of subjects",
		"[]cli.receiverConfig": "a list of receivers", "[]web.Dashboard": "a list of dashboards", "[]web.Panel": "a list of panels",
		"float64": "a number", "int": "a whole number", "[]int": "a list like [1, 2]", "[]string": "a list of texts",
		"web.PanelKind": "text", "findings.Severity": "text", "cli.webhookFormat": "text", "config.Secret": "text"}
)

// readable rewrites the decoder's errors with lines and keys in place of Go types; b is
// the file's text.
func readable(err error, b []byte) error {
	var root yaml.Node
	_ = yaml.Unmarshal(b, &root) // invalid YAML has no keys to name
	s := unknownKey.ReplaceAllString(err.Error(), "$1 is not a known key")
	s = wrongType.ReplaceAllStringFunc(s, func(m string) string {
		part := wrongType.FindStringSubmatch(m)
		line, _ := strconv.Atoi(part[1])
		out := "line " + part[1] + ": "
		if keys := keysAt(&root, line, part[2], part[3]); len(keys) > 0 {
			out += strings.Join(keys, ".") + ": "
		}
		if part[3] != "" {
			out += strconv.Quote(part[3]) + ": "
		}
		other := "keys with values"
		if strings.HasPrefix(part[4], "[]") {
			other = "a list"
		}
		return out + "want " + cmp.Or(wanted[part[4]], other)
	})
	if !strings.Contains(s, "line ") && syntax.MatchString(s) {
		s = "line 1: " + s // the library leaves out the first line
	}
	s = strings.NewReplacer("yaml: unmarshal errors:\n  ", "", "yaml: ", "", "\n  ", "\n").Replace(s)
	return errors.New(s)
}
