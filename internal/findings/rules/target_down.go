package rules

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var targetDown = &findings.Rule{
	Name:  "target_down",
	Title: "Scrape target down",
	Doc:   "At least half of a target's scrapes in each window failed, including the last one: the target does not answer, or its answer is refused. The finding shows the error. It also opens if the target is still in the configuration, but its last scrape was at least 150 s ago, and at least three times the usual interval ago. The target's series are then old, and rules that need them are not checked. Without scraped targets this rule is not checked either.",
	Thresholds: []findings.Threshold{
		{Name: "failed", Doc: "share of the scrapes that failed", Unit: "ratio", Default: 0.5},
		{Name: "age", Doc: "time since the last scrape", Unit: "seconds", Default: 150},
	},
	Remedy:    "Request the target's page with `curl`, as the monitor does. Check that the target runs, listens on that address and answers within a second, and that no firewall, new certificate or new password blocks the request. /api/v1/targets has the last error. If the target is gone for good, remove it from scrape_configs and send SIGHUP.",
	Reference: "https://prometheus.io/docs/concepts/jobs_instances/#automatically-generated-labels-and-time-series",
	Run:       findTargetDown,
}

func findTargetDown(ctx context.Context, p *findings.Pass) error {
	known, err := p.Query(ctx, "count(count_over_time(up[10m]))", p.To)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return errors.New("the metric up has no value in the last 10m: no scrape target is configured (scrape_configs), or none has been scraped yet")
	}
	failed := func(selector string) string { return fmt.Sprintf("1 - avg_over_time(%s[%s])", selector, window(p)) }
	age := func(selector string) string { return fmt.Sprintf("time() - timestamp(%s)", selector) }
	// A network that fails takes hundreds of targets with it, so each query is about all of them.
	down, err := p.Query(ctx, fmt.Sprintf("%s >= %g and up == 0", failed("up"), p.Least("failed")), p.To)
	if err != nil {
		return err
	}
	reported := map[string]bool{}
	for _, pt := range down {
		subject, here, share := subjectOf(pt), query.Selector("up", pt.Labels), pt.Value
		if share < p.Limit("failed", subject) {
			continue
		}
		reported[here] = true
		f := findings.Finding{Machine: query.MachineOf(pt.Labels), Subject: subject, Severity: findings.Warning,
			Title: fmt.Sprintf("The target %s is down: %s of its scrapes in the last %s failed.", subject, metric.Percent(share), window(p)),
			Cost:  fmt.Sprintf("The target's metrics are missing for %s of the last %s.", metric.Percent(share), window(p)),
			Evidence: []query.Evidence{
				{Text: "1 if its last scrape succeeded", Value: 0, Expr: here},
				{Text: "share of its scrapes in the last " + window(p) + " that failed", Value: share, Unit: "ratio", Expr: failed(here)},
			}}
		if why := p.Failure(pt.Labels["job"], pt.Labels["instance"]); why != "" {
			f.Cost += " The last error: " + why + "."
			f.Remedy = scrapeRemedy(why)
		}
		p.Report(f)
	}
	old, err := p.Query(ctx, fmt.Sprintf("%s >= %g", age("up"), p.Least("age")), p.To)
	if err != nil {
		return err
	}
	old = slices.DeleteFunc(old, func(pt metric.Point) bool {
		return reported[query.Selector("up", pt.Labels)] || pt.Value < p.Limit("age", subjectOf(pt))
	})
	usual, err := betweenScrapes(ctx, p, old)
	if err != nil {
		return err
	}
	for _, pt := range old {
		subject, here := subjectOf(pt), query.Selector("up", pt.Labels)
		between, ok := usual[here]
		if !ok || !(pt.Value >= 3*between.Value) {
			continue
		}
		p.Report(findings.Finding{Machine: query.MachineOf(pt.Labels), Subject: subject, Severity: findings.Warning, Confidence: findings.Medium,
			Title:    fmt.Sprintf("The target %s was last scraped %s ago.", subject, metric.Value(pt.Value, "seconds")),
			Cost:     fmt.Sprintf("The target's metrics have been missing for %s.", metric.Value(pt.Value, "seconds")),
			Evidence: []query.Evidence{{Text: "time since its last scrape", Value: pt.Value, Unit: "seconds", Expr: age(here)}, between}})
	}
	return nil
}

// subjectOf names the target of an element of up.
func subjectOf(pt metric.Point) string {
	return fmt.Sprintf("%s (job %s)", pt.Labels["instance"], pt.Labels["job"])
}

// betweenScrapes returns the mean time between two scrapes in the last 10 minutes, by the target's selector. A younger
// target was not scraped in all of them.
func betweenScrapes(ctx context.Context, p *findings.Pass, targets []metric.Point) (map[string]query.Evidence, error) {
	was, err := ofTargets(ctx, p, targets, "%s offset 10m")
	if err != nil {
		return nil, err
	}
	out := map[string]query.Evidence{}
	for format, young := range map[string]bool{
		"600 / count_over_time(%s[10m])": false,
		"(timestamp(%[1]s) - min_over_time(timestamp(%[1]s)[10m:1s])) / (count_over_time(%[1]s[10m]) - 1)": true,
	} {
		of := slices.DeleteFunc(slices.Clone(targets), func(pt metric.Point) bool {
			_, old := was[query.Selector("up", pt.Labels)]
			return old == young
		})
		values, err := ofTargets(ctx, p, of, format)
		if err != nil {
			return nil, err
		}
		for here, v := range values {
			out[here] = query.Evidence{Text: "time between two scrapes, mean of the last 10m", Value: v, Unit: "seconds", Expr: fmt.Sprintf(format, here)}
		}
	}
	return out, nil
}

// ofTargets evaluates a query about a selector of up for all targets at once, and returns their values by the selector
// of each.
func ofTargets(ctx context.Context, p *findings.Pass, targets []metric.Point, format string) (map[string]float64, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	wanted := map[string]bool{}
	var instances []string
	for _, pt := range targets {
		wanted[query.Selector("up", pt.Labels)] = true
		instances = append(instances, regexp.QuoteMeta(pt.Labels["instance"]))
	}
	points, err := p.Query(ctx, fmt.Sprintf(format, fmt.Sprintf("up{instance=~%q}", strings.Join(instances, "|"))), p.To)
	out := map[string]float64{}
	for _, pt := range points { // other jobs may have the same instances
		if here := query.Selector("up", withoutName(pt.Labels)); wanted[here] {
			out[here] = pt.Value
		}
	}
	return out, err
}

// scrapeRemedies is the advice on errors of scrapes, by a part of their text, which is Prometheus'. The default is the
// rule's.
var scrapeRemedies = []struct{ part, remedy string }{
	{"Content-Type", "Make the target name its format in the header Content-Type, or set `fallback_scrape_protocol: PrometheusText0.0.4` for its job in scrape_configs and send SIGHUP."},
	{"limit", "Raise the limit that the error names for the target's job in scrape_configs (sample_limit, body_size_limit, label_limit ...) and send SIGHUP, or make the target's page smaller."},
	{"server returned HTTP status", "The target answers, but with an error: check its log, and metrics_path, password and certificate of its job in scrape_configs."},
	{"UTF-8", "The target answers, but a name on its page is not UTF-8. The whole page is refused; Prometheus refuses it too. Correct the name in the target."},
	{"expected", "The target answers, but its page is not in the format that its header Content-Type names, so it is refused; Prometheus refuses it too. Check the page with `curl URL | promtool check metrics`."},
	{"parse", "The target answers, but its page is not in the format that its header Content-Type names, so it is refused; Prometheus refuses it too. Check the page with `curl URL | promtool check metrics`."},
	{"too many open files", "The monitor has no file descriptors left: raise `ulimit -n`, or LimitNOFILE of its systemd unit, and restart it."},
}

func scrapeRemedy(why string) string {
	for _, r := range scrapeRemedies {
		if strings.Contains(why, r.part) {
			return r.remedy
		}
	}
	return ""
}
