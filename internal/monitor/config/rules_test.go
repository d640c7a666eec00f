package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/probe/sources"
)

const rulesYAML = `
analysis:
  long: 2m
  rules:
    pressure: {off: true}
    syscall_storm:
      long: 10m
      thresholds: {rate: 20k/s, factor: 300 %}
      subjects:
      - match: redis.*
        thresholds: {rate: 50000/s}
      - match: redis-server
        thresholds:
          rate: 1M/s
    cpu_steal: {thresholds: {share: 0.1}}
    io_saturation: {thresholds: {latency: 5 ms}}
  own:
  - name: slow_disk
    title: Slow disk
    expr: rate(node_disk_io_time_weighted_seconds_total[1m])
    above: 5
    for: 10m
    severity: critical
    subject: "{device} on {instance}"
    remedy: Buy another one.
  - name: little_memory
    expr: node_memory_MemAvailable_bytes
    below: 64MiB
  - {name: broken, expr: "sum(", above: 1}
  - {name: nobodys, expr: "a_metric_of_mine / up", above: 20 %}
`

// TestNegativeLimit: a slope may be below 0, and so may its limit.
func TestNegativeLimit(t *testing.T) {
	c, err := Parse([]byte("analysis:\n  own:\n  - {name: shrinking, expr: \"deriv(x[5m])\", below: -2MB/s}\n"), ".", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Analysis.Own[0].rule; r.Limit != -2e6 || r.Unit != "bytes/s" || !r.Below {
		t.Errorf("got %+v", r)
	}
}

func TestRulesConfig(t *testing.T) {
	c, err := Parse([]byte(rulesYAML), ".", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Analysis.Options()
	if w := (findings.Windows{Long: 10 * time.Minute, Short: time.Minute}); o.PerRule["syscall_storm"] != w {
		t.Errorf("windows of syscall_storm are %v, want %v", o.PerRule["syscall_storm"], w)
	}
	if w := o.PerRule["slow_disk"]; w != (findings.Windows{Long: 10 * time.Minute, Short: 10 * time.Minute}) {
		t.Errorf("windows of an own rule are %v, want the time for which it must hold", w)
	}
	var limits []string
	for _, l := range o.Limits {
		limits = append(limits, fmt.Sprintf("%s.%s %v %g", l.Rule, l.Threshold, l.Subject, l.Value))
	}
	if want := []string{
		"cpu_steal.share <nil> 0.1",
		"io_saturation.latency <nil> 0.005",
		"syscall_storm.factor <nil> 3",
		"syscall_storm.rate <nil> 20000",
		"syscall_storm.rate ^(?s:redis.*)$ 50000",
		"syscall_storm.rate ^(?s:redis-server)$ 1e+06",
	}; !slices.Equal(limits, want) {
		t.Errorf("limits %q, want %q", limits, want)
	}
	var names []string
	for _, r := range c.Analysis.Enabled() {
		names = append(names, r.Name)
	}
	if slices.Contains(names, "pressure") || len(names) != len(rules.All)+3 || names[len(names)-4] != "slow_disk" {
		t.Errorf("rules %q", names)
	}
	own := c.Analysis.Own[0].rule
	if own.Limit != 5 || own.Below || own.Unit != "" || own.For != 10*time.Minute || own.Severity != findings.Critical || !slices.Equal(own.Needs, []string{"node_disk_io_time_weighted_seconds_total"}) {
		t.Errorf("own rule %+v", own)
	}
	if o := c.Analysis.Own[1].rule; !o.Below || o.Limit != 64<<20 || o.Unit != "bytes" || o.Severity != findings.Warning || o.Title != "little_memory" {
		t.Errorf("own rule %+v", o)
	}
	if o := c.Analysis.Own[3].rule; o.Unit != "ratio" || o.Limit != 0.2 {
		t.Errorf("own rule %+v", o)
	}
}

// TestRulesDoubts: a rule that cannot be evaluated is named with its line, and the
// others are still loaded.
func TestRulesDoubts(t *testing.T) {
	c, err := Parse([]byte(rulesYAML), ".", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	emitted := func(name string) bool { return strings.HasPrefix(name, "node_") || name == "up" }
	for scraped, want := range map[bool][]string{
		false: {
			"line 29: analysis.own[2].expr: rule broken is not checked: parse the expression: 1:5: parse error",
			"line 30: analysis.own[3].expr: rule nobodys reads a_metric_of_mine: no source of this monitor emits this metric, and no target is scraped",
		},
		true: {
			"line 29: analysis.own[2].expr: rule broken is not checked: parse the expression: 1:5: parse error",
			"line 30: analysis.own[3].expr: rule nobodys reads a_metric_of_mine: no source of this monitor emits this metric; a scraped target must provide it",
		},
	} {
		got := c.Analysis.Doubts(emitted, scraped)
		if len(got) != len(want) || !strings.HasPrefix(got[0].Error(), want[0]) || got[1].Error() != want[1] {
			t.Errorf("scraped %v: %q, want %q", scraped, got, want)
		}
	}
}

func TestRulesConfigErrors(t *testing.T) {
	rule := func(body string) string { return "analysis:\n  rules:\n    syscall_storm:\n" + body }
	own := func(body string) string { return "analysis:\n  own:\n  - name: a\n    expr: up\n" + body }
	for in, want := range map[string]string{
		"analysis:\n  rules:\n    storm: {off: true}\n":                          "line 3: analysis.rules.storm: no such rule; docs/rules.md lists them",
		rule("      off: maybe\n"):                                               `line 4: analysis.rules.syscall_storm.off: "maybe": want true or false`,
		rule("      speed: 1\n"):                                                 "line 4: speed is not a known key",
		rule("      short: 1h\n"):                                                "line 3: analysis.rules.syscall_storm: short (60m) must not be above long (5m, the default)",
		rule("      long: 10s\n"):                                                "line 3: analysis.rules.syscall_storm: short (1m, the default) must not be above long (10s)",
		rule("      short: 2m\n      long: 90s\n"):                               "line 3: analysis.rules.syscall_storm: short (2m) must not be above long (90s)",
		rule("      long: -1m\n"):                                                "line 3: analysis.rules.syscall_storm: long: -1m0s; want 1s or more, or 0 for the default",
		"analysis: {short: 1h}\n":                                                "line 1: analysis: short (60m) must not be above long (5m, the default)",
		rule("      thresholds:\n        rate: 20 %\n"):                          `line 5: analysis.rules.syscall_storm.thresholds.rate: "20 %": want a rate like 20k/s`,
		rule("      thresholds:\n        rate: 20000\n"):                         `line 5: analysis.rules.syscall_storm.thresholds.rate: "20000": want a rate like 20k/s`,
		rule("      thresholds:\n        factor: 5ms\n"):                         `line 5: analysis.rules.syscall_storm.thresholds.factor: "5ms": want a share or a factor like 20 % or 0.2`,
		rule("      thresholds:\n        factor: -1\n"):                          `line 5: analysis.rules.syscall_storm.thresholds.factor: "-1": want a share or a factor like 20 % or 0.2`,
		rule("      thresholds:\n        rate: [1]\n"):                           `line 5: analysis.rules.syscall_storm.thresholds.rate: "": want a rate like 20k/s`,
		rule("      thresholds:\n        height: 1\n"):                           "line 5: analysis.rules.syscall_storm.thresholds.height: the rule has no such threshold; it has rate, rate_critical, factor",
		"analysis:\n  rules:\n    clock_source: {thresholds: {rate: 1}}\n":       "line 3: analysis.rules.clock_source.thresholds.rate: the rule has no such threshold; it has no thresholds",
		rule("      subjects:\n      - thresholds: {rate: 1/s}\n"):               "line 5: analysis.rules.syscall_storm.subjects[0]: the key match is missing; match selects the subjects that the thresholds apply to",
		rule("      subjects:\n      - match: (\n"):                              "line 5: analysis.rules.syscall_storm.subjects[0].match: \"(\": error parsing regexp: missing closing ): `(`",
		rule("      subjects:\n      - match: a\n        thresholds: {rate: 1}"): `line 6: analysis.rules.syscall_storm.subjects[0].thresholds.rate: "1": want a rate like 20k/s`,
		"analysis:\n  own:\n  - name: a\n    above: 1\n":                         "line 3: analysis.own[0]: the key expr is missing",
		own(""):                                                          "line 3: analysis.own[0]: want either above or below",
		own("    above: 1\n    below: 1\n"):                              "line 3: analysis.own[0]: want either above or below",
		own("    above: much\n"):                                         `line 5: analysis.own[0].above: "much": want a number, plain or with a unit, such as 20k/s, 20 %, 5ms, 64MiB, 10MB/s or 3 cores`,
		own("    above: 20 %\n    unit: 1/s\n"):                          `line 5: analysis.own[0].above: "20 %": want a rate like 20k/s`,
		own("    above: 1\n    unit: apples\n"):                          `line 6: analysis.own[0].unit: "apples": want one of 1/s, bytes, bytes/s, cores, ratio, seconds`,
		own("    above: 1\n    severity: bad\n"):                         `line 6: analysis.own[0].severity: "bad": want info, warning, critical`,
		own("    above: 1\n    for: -5m\n"):                              "line 6: analysis.own[0].for: -5m0s; want 0 or more, like 5m",
		own("    above: 1\n  - {name: a, expr: up, above: 1}\n"):         "line 6: analysis.own[1].name: a rule named a already exists",
		"analysis:\n  own:\n  - {name: cpu_steal, expr: up, above: 1}\n": "line 3: analysis.own[0].name: a rule named cpu_steal already exists",
		"analysis:\n  own:\n  - {name: \"a<b>\", expr: up, above: 1}\n":  `line 3: analysis.own[0].name: "a<b>": want letters, digits, _ and -`,
		"analysis:\n  own: 5\n":                                          `line 2: analysis.own: "5": want a list of rules`,
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := Parse([]byte(in), ".", sources.All); err == nil || err.Error() != want {
				t.Errorf("%q:\n got %v\nwant %s", in, err, want)
			}
		})
	}
}
