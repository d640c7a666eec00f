//go:build linux

// Package config is the language of the configuration file (--config) of a monitor and of an agent that sends.
package config

import (
	"fmt"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// Config is the configuration file (--config). Unknown keys are errors; every key is optional.
type Config struct {
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

// Scraping is what the sections of Prometheus say; nil of the empty configuration that nothing parsed.
func (c *Config) Scraping() *store.ScrapeConfig { return c.scrape }

// NeedsStore reports whether the file has sections without an effect where nothing is stored.
func (c *Config) NeedsStore() bool {
	return len(c.Notify.receivers)+len(c.Analysis.Own)+len(c.Analysis.Rules)+len(c.Dashboards) > 0
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

// Reader returns what an observer reads the file with, for an agent or for a monitor; "" is the empty configuration. What it
// returns is a *Config.
func Reader(agent bool) observe.ReadConfig {
	return func(name string, list []*probe.Source) (observe.Config, error) {
		var c Config
		if err := configfile.Read(name, c.Parser(list, agent)); err != nil {
			return &Config{}, err
		}
		return &c, nil
	}
}

// Parser returns what parses a file into c, for an agent or for a monitor.
func (c *Config) Parser(list []*probe.Source, agent bool) func(text []byte, dir string) error {
	return func(text []byte, dir string) (err error) {
		if *c, err = Parse(text, dir, list); err == nil && agent {
			err = c.unused
		}
		return err
	}
}

// Parse decodes and checks the configuration of a monitor; file names in it are relative to dir. list is what can be read. An
// error names the line and the key.
func Parse(b []byte, dir string, list []*probe.Source) (Config, error) {
	var c Config
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
func (c *Config) checkAnalysis(root *yaml.Node, list []*probe.Source) error {
	at := func(keys ...string) string {
		return configfile.Position(root, keys...)
	}
	for key, d := range map[string]time.Duration{"every": c.Analysis.Every, "long": c.Analysis.Long, "short": c.Analysis.Short, "close_after": c.Analysis.CloseAfter} {
		if d < 0 || d > 0 && d < time.Second {
			return fmt.Errorf("%s: %v; want 1s or more, or 0 for the default", at("analysis", key), d)
		}
	}
	if err := (windowsConfig{Long: c.Analysis.Long, Short: c.Analysis.Short}).check(findings.DefaultOptions().Windows); err != nil {
		return fmt.Errorf("%s: %w", at("analysis"), err)
	}
	return c.Analysis.settle(root, probe.SourceNames(list))
}

// windows are the file's default windows over the built-in ones.
func (a analysisConfig) windows() findings.Windows {
	return windowsConfig{Long: a.Long, Short: a.Short}.applyTo(findings.DefaultOptions().Windows)
}

// check returns what is wrong with the windows over the defaults.
func (w windowsConfig) check(def findings.Windows) error {
	said := func(own, def time.Duration) string {
		if own == 0 {
			return query.PromDuration(def) + ", the default"
		}
		return query.PromDuration(own)
	}
	switch all := w.applyTo(def); {
	case w.Long < 0:
		return fmt.Errorf("long: %v; want 1s or more, or 0 for the default", w.Long)
	case w.Short < 0:
		return fmt.Errorf("short: %v; want 1s or more, or 0 for the default", w.Short)
	case all.Short > all.Long:
		return fmt.Errorf("short (%s) must not be above long (%s)", said(w.Short, def.Short), said(w.Long, def.Long))
	}
	return nil
}

func (w windowsConfig) applyTo(def findings.Windows) findings.Windows {
	if w.Long > 0 {
		def.Long = w.Long
	}
	if w.Short > 0 {
		def.Short = w.Short
	}
	return def
}

// Options are the rule engine's options with the file's values.
func (a analysisConfig) Options() findings.Options {
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
