//go:build linux

package cli

import (
	"fmt"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// config is the configuration file (--config). Unknown keys are errors; every key is optional.
type config struct {
	observe.Sections `yaml:",inline"`

	Analysis analysisConfig `yaml:"analysis"`
	Notify   notifyConfig   `yaml:"notify"`
	// Dashboards are shown next to those made on the page, and cannot be changed there.
	Dashboards []web.Dashboard `yaml:"dashboards"`
	// Global, ScrapeConfigs and RemoteWrite are Prometheus' own sections. The store
	// decodes them; here they are only known keys.
	Global        yaml.Node `yaml:"global"`
	ScrapeConfigs yaml.Node `yaml:"scrape_configs"`
	RemoteWrite   yaml.Node `yaml:"remote_write"`

	scrape *store.ScrapeConfig
	unused error // the sections that an agent has no use for
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
	var c config
	if err := configfile.Read(name, c.parse(list, agent)); err != nil {
		return config{}, err
	}
	return c, nil
}

// parse returns what parses a file into c.
func (c *config) parse(list []*probe.Source, agent bool) func(text []byte, dir string) error {
	return func(text []byte, dir string) (err error) {
		if *c, err = parseConfig(text, dir, list); err == nil && agent {
			err = c.unused
		}
		return err
	}
}

// configReader returns readConfig as an observer calls it.
func configReader(agent bool) observe.ReadConfig {
	return func(name string, list []*probe.Source) (observe.Config, error) {
		c, err := readConfig(name, list, agent)
		return &c, err
	}
}

// parseConfig decodes and checks a configuration; file names in it are relative to dir.
func parseConfig(b []byte, dir string, list []*probe.Source) (config, error) {
	var c config
	b = configfile.AsYAML(b)
	root, err := configfile.Decode(b, &c)
	if err != nil {
		return c, err
	}
	if err := c.Check(root, list, dir); err != nil {
		return c, err
	}
	if err := c.checkAnalysis(root, list); err != nil {
		return c, err
	}
	if err := c.Notify.check(root, dir); err != nil {
		return c, err
	}
	if err := checkDashboards(root, c.Dashboards); err != nil {
		return c, err
	}
	c.scrape, err = store.ParseScrape(b, dir, "analysis", "sources", "requests", "notify", "dashboards", "operators")
	c.unused = observe.MonitorOnly(root, c.scrape.Receivers() > 0)
	return c, err
}

// checkAnalysis returns the first invalid value of the section with its line and key.
func (c *config) checkAnalysis(root *yaml.Node, list []*probe.Source) error {
	at := func(keys ...string) string {
		return configfile.Where(root, keys...)
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
