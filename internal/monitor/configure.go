//go:build linux

package monitor

import (
	"errors"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/store"
)

// reconfigure applies a configuration while the monitor runs, including windows, rules
// and thresholds.
func (m *monitor) reconfigure(c config.Config) error {
	rules := c.Analysis.Enabled()
	m.silences.SetRules(rules)
	m.analysis.Reconfigure(rules, m.rulesOptions(c))
	return m.configure(c)
}

// rulesOptions are a configuration's options for the rules. If a target is scraped less
// often than the monitor reads, its interval counts.
func (m *monitor) rulesOptions(c config.Config) findings.Options {
	o := c.Analysis.Options()
	o.Interval = m.Interval
	if scraping := c.Scraping(); scraping != nil {
		o.Interval = max(o.Interval, scraping.LongestInterval())
	}
	m.slowest.Store(int64(o.Interval))
	return o
}

// configure applies a configuration's scraping, receivers and dashboards, and logs
// which of its rules cannot be evaluated.
func (m *monitor) configure(c config.Config) error {
	for _, err := range Doubts(&c, m.Sources) {
		m.Log.Warn("a rule in the configuration is not evaluated; all other rules are", "error", contain.OneLine(err))
	}
	m.boards.lock(c.Dashboards)
	err := m.notifier.ApplySettings(c.Notify.Settings(m.URL()))
	if scraping := c.Scraping(); scraping != nil {
		err = errors.Join(err, m.keeper.ApplyConfig(scraping))
	}
	return err
}

// Doubts are warnings about the user's rules in a configuration, on a monitor with these sources. See config.Config.
func Doubts(c *config.Config, list []*probe.Source) []error {
	scraping := c.Scraping()
	return c.Analysis.Doubts(func(name string) bool { return emitted(list, name) }, scraping != nil && len(scraping.Jobs()) > 0)
}

// emitted reports whether a monitor with these sources emits a metric: a source, the engine, the store, a recording rule, or
// each scrape.
func emitted(sources []*probe.Source, name string) bool {
	for _, list := range [][]*metric.Desc{probe.Metrics, store.Metrics, FindingMetrics, notify.Metrics, quota.Metrics, {observe.InfoDesc, observe.BudgetDesc, observe.UnitCostDesc, MemoryCostDesc}} {
		if slices.ContainsFunc(list, func(d *metric.Desc) bool { return d.Name == name }) {
			return true
		}
	}
	return probe.SourceNames(sources)[name] != "" || slices.ContainsFunc(store.Rules, func(r store.Rule) bool { return r.Record == name }) ||
		name == "up" || strings.HasPrefix(name, "scrape_")
}
