//go:build linux

package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// ruleConfig is the configuration of a built-in rule, at analysis.rules.NAME.
type ruleConfig struct {
	Off           bool `yaml:"off"`
	windowsConfig `yaml:",inline"`
	// Thresholds are values with their unit, by name.
	Thresholds map[string]yaml.Node `yaml:"thresholds"`
	// Subjects are thresholds for some subjects; if several match, the last one counts.
	Subjects []subjectConfig `yaml:"subjects"`
}

// subjectConfig are thresholds for the subjects whose whole name matches.
type subjectConfig struct {
	Match      string               `yaml:"match"`
	Thresholds map[string]yaml.Node `yaml:"thresholds"`
}

// ownConfig is a user's own rule, at analysis.own.
type ownConfig struct {
	Name      string            `yaml:"name"`
	Title     string            `yaml:"title"`
	Expr      string            `yaml:"expr"`
	Above     yaml.Node         `yaml:"above"`
	Below     yaml.Node         `yaml:"below"`
	Unit      string            `yaml:"unit"`
	For       time.Duration     `yaml:"for"`
	Severity  findings.Severity `yaml:"severity"`
	Subject   string            `yaml:"subject"`
	Remedy    string            `yaml:"remedy"`
	Reference string            `yaml:"reference"`

	line int
	rule rules.Own
}

// place returns where in a file a key is: "line 3: analysis.own[0].expr".
type place func(keys ...string) string

// settle checks the file's rules and stores the resulting limits and own rules. An
// expression that cannot be evaluated is not an error here: its rule reports it, and
// the others run. sources maps each metric to its source.
func (a *analysisConfig) settle(root *yaml.Node, sources map[string]string) error {
	at := func(keys ...string) string {
		return configfile.Position(root, append([]string{"analysis"}, keys...)...)
	}
	a.limits = nil
	for _, name := range slices.Sorted(maps.Keys(a.Rules)) {
		if err := a.settleRule(name, at); err != nil {
			return err
		}
	}
	for i := range a.Own {
		a.Own[i].line = configfile.Line(root, "analysis", "own", strconv.Itoa(i))
		if err := a.settleOwn(i, at); err != nil {
			return err
		}
		own := &a.Own[i].rule
		for _, m := range own.Needs {
			if s := sources[m]; s != "" && !slices.Contains(own.Sources, s) {
				own.Sources = append(own.Sources, s)
			}
		}
	}
	return nil
}

func (a *analysisConfig) settleRule(name string, at place) error {
	known := slices.IndexFunc(rules.All, func(r *findings.Rule) bool { return r.Name == name })
	if known < 0 {
		return fmt.Errorf("%s: no such rule; docs/rules.md lists them", at("rules", name))
	}
	c, def := a.Rules[name], a.windows()
	if err := c.check(def); err != nil {
		return fmt.Errorf("%s: %w", at("rules", name), err)
	}
	if err := a.settleLimits(rules.All[known], nil, c.Thresholds, func(keys ...string) string {
		return at(append([]string{"rules", name, "thresholds"}, keys...)...)
	}); err != nil {
		return err
	}
	for i, s := range c.Subjects {
		here := func(keys ...string) string {
			return at(append([]string{"rules", name, "subjects", strconv.Itoa(i)}, keys...)...)
		}
		if s.Match == "" {
			return fmt.Errorf("%s: the key match is missing; match selects the subjects that the thresholds apply to", here())
		}
		match, err := findings.Whole(s.Match)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", here("match"), s.Match, err)
		}
		if err := a.settleLimits(rules.All[known], match, s.Thresholds, func(keys ...string) string {
			return here(append([]string{"thresholds"}, keys...)...)
		}); err != nil {
			return err
		}
	}
	return nil
}

// settleLimits stores a rule's thresholds for the subjects that match; nil matches all.
func (a *analysisConfig) settleLimits(r *findings.Rule, match *regexp.Regexp, thresholds map[string]yaml.Node, at place) error {
	for _, name := range slices.Sorted(maps.Keys(thresholds)) {
		i := slices.IndexFunc(r.Thresholds, func(t findings.Threshold) bool { return t.Name == name })
		if i < 0 {
			return fmt.Errorf("%s: the rule has no such threshold%s", at(name), listed(r.Thresholds))
		}
		n := thresholds[name]
		v, err := metric.ParseAmount(scalar(&n), r.Thresholds[i].Unit)
		if err != nil {
			return fmt.Errorf("%s: %w", at(name), err)
		}
		a.limits = append(a.limits, findings.Limit{Rule: r.Name, Threshold: name, Subject: match, Value: v})
	}
	return nil
}

// listed names the existing thresholds.
func listed(list []findings.Threshold) string {
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return "; it has no thresholds"
	}
	return "; it has " + strings.Join(names, ", ")
}

// scalar is the text of a value; "" for a list or a mapping.
func scalar(n *yaml.Node) string {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

var (
	ruleName   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)
	severities = []findings.Severity{findings.Info, findings.Warning, findings.Critical}
)

func (a *analysisConfig) settleOwn(i int, at place) error {
	o := &a.Own[i]
	here := func(keys ...string) string { return at(append([]string{"own", strconv.Itoa(i)}, keys...)...) }
	for key, v := range map[string]string{"name": o.Name, "expr": o.Expr} {
		if v == "" {
			return fmt.Errorf("%s: the key %s is missing", here(), key)
		}
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(rules.All, func(r *findings.Rule) bool { return r.Name == name }) ||
			slices.ContainsFunc(a.Own[:i], func(x ownConfig) bool { return x.Name == name })
	}
	switch {
	case !ruleName.MatchString(o.Name):
		return fmt.Errorf("%s: %q: want letters, digits, _ and -", here("name"), o.Name)
	case taken(o.Name):
		return fmt.Errorf("%s: a rule named %s already exists", here("name"), o.Name)
	case o.Above.IsZero() == o.Below.IsZero():
		return fmt.Errorf("%s: want either above or below", here())
	case o.For < 0:
		return fmt.Errorf("%s: %v; want 0 or more, like 5m", here("for"), o.For)
	case o.Severity != "" && !slices.Contains(severities, o.Severity):
		return fmt.Errorf("%s: %q: want info, warning, critical", here("severity"), o.Severity)
	}
	if !slices.Contains(metric.AmountUnits, o.Unit) {
		return fmt.Errorf("%s: %q: want one of %s", here("unit"), o.Unit, strings.Join(slices.Sorted(slices.Values(metric.AmountUnits))[1:], ", "))
	}
	key, limit := "above", &o.Above
	if o.Above.IsZero() {
		key, limit = "below", &o.Below
	}
	text, negative := strings.CutPrefix(strings.TrimSpace(scalar(limit)), "-") // such as a slope's
	unit := o.Unit
	if unit == "" {
		var err error
		if unit, err = metric.GuessUnit(text); err != nil {
			return fmt.Errorf("%s: %w", here(key), err)
		}
	}
	v, err := metric.ParseAmount(text, unit)
	if err != nil {
		return fmt.Errorf("%s: %w", here(key), err)
	}
	if negative {
		v = -v
	}
	o.rule = rules.Own{
		Name: o.Name, Title: cmp.Or(o.Title, o.Name), Expr: o.Expr, Below: key == "below", Limit: v, Unit: unit, For: o.For,
		Severity: cmp.Or(o.Severity, findings.Warning), Subject: o.Subject, Remedy: o.Remedy, Reference: o.Reference,
	}
	o.rule.Needs, o.rule.Broken = store.Reads(o.Expr)
	return nil
}

// Enabled are the enabled built-in rules, followed by the user's own.
func (a analysisConfig) Enabled() []*findings.Rule {
	var out []*findings.Rule
	for _, r := range rules.All {
		if !a.Rules[r.Name].Off {
			out = append(out, r)
		}
	}
	for _, o := range a.Own {
		out = append(out, o.rule.Rule())
	}
	return out
}

// tune puts windows and limits into the engine's options. A user's rule covers the time
// for which it must hold, whatever the other rules' windows.
func (a analysisConfig) tune(o *findings.Options) {
	o.PerRule = map[string]findings.Windows{}
	for name, r := range a.Rules {
		o.PerRule[name] = r.applyTo(o.Windows)
	}
	for _, own := range a.Own {
		w := max(own.For, o.Windows.Short)
		o.PerRule[own.Name] = findings.Windows{Long: w, Short: w}
	}
	o.Limits = a.limits
}

// Broken reports whether a rule of the user cannot be evaluated.
func (a analysisConfig) Broken() bool {
	return slices.ContainsFunc(a.Own, func(o ownConfig) bool { return o.rule.Broken != nil })
}

// Doubts are warnings about the user's rules when they are loaded: rules that cannot be
// evaluated, and rules that read a metric that nothing here emits. scraped says whether
// such a metric may come from elsewhere.
func (a analysisConfig) Doubts(emitted func(metric string) bool, scraped bool) []error {
	var out []error
	for i, o := range a.Own {
		if err := o.rule.Broken; err != nil {
			out = append(out, fmt.Errorf("line %d: analysis.own[%d].expr: rule %s is not checked: %w", o.line, i, o.Name, err))
		}
		for _, m := range o.rule.Needs {
			if emitted(m) {
				continue
			}
			why := "no source of this monitor emits this metric, and no target is scraped"
			if scraped {
				why = "no source of this monitor emits this metric; a scraped target must provide it"
			}
			out = append(out, fmt.Errorf("line %d: analysis.own[%d].expr: rule %s reads %s: %s", o.line, i, o.Name, m, why))
		}
	}
	return out
}
