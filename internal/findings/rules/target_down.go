package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

var targetDown = &findings.Rule{
	Name:  "target_down",
	Title: "Scrape target down",
	Doc: "At least half of a target's scrapes of either window failed, the last one too: it does not answer, or its answer is refused; the finding has the error. Or its last scrape was 150 s ago and three times the usual " +
		"interval, though it is still in the configuration. Its series are old, and rules that need them are not checked. " +
		"Without scraped targets this rule is not checked either.",
	Thresholds: []findings.Threshold{
		{Name: "failed", Doc: "share of the scrapes that failed", Unit: "ratio", Default: 0.5},
		{Name: "age", Doc: "time since the last scrape", Unit: "seconds", Default: 150},
	},
	Remedy: "Ask the target with `curl`, as the monitor does: check that it runs, listens on that address and answers within a second, and that no firewall, new certificate " +
		"or new password is in the way. /api/v1/targets has the last error. If the target is gone for good, remove it from scrape_configs and send SIGHUP.",
	Reference: "https://prometheus.io/docs/concepts/jobs_instances/#automatically-generated-labels-and-time-series",
	Run:       findTargetDown,
}

func findTargetDown(ctx context.Context, p *findings.Pass) error {
	known, err := p.Query(ctx, "count(count_over_time(up[10m]))", p.To)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return errors.New("needs up: no reading in the last 10m: no target is scraped (scrape_configs in the configuration)")
	}
	failed := func(selector string) string { return fmt.Sprintf("1 - avg_over_time(%s[%s])", selector, window(p)) }
	age := func(selector string) string { return fmt.Sprintf("time() - timestamp(%s)", selector) }
	points, err := p.Query(ctx, fmt.Sprintf("(%s >= %g and up == 0) or %s >= %g", failed("up"), p.Least("failed"), age("up"), p.Least("age")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject := fmt.Sprintf("%s (job %s)", pt.Labels["instance"], pt.Labels["job"])
		here := findings.Selector("up", pt.Labels)
		e := evidence{pass: p}
		up := e.add(ctx, "1 if its last scrape succeeded", "", here)
		share := e.add(ctx, "share of its scrapes in the last "+window(p)+" that failed", "ratio", failed(here))
		old := e.add(ctx, "time since its last scrape", "seconds", age(here))
		between, err := betweenScrapes(ctx, p, here)
		if err != nil {
			return err
		}
		usual := e.add(ctx, "time between two scrapes, mean of the last 10m", "seconds", between)
		if e.err != nil {
			return e.err
		}
		f := findings.Finding{Machine: findings.MachineOf(pt.Labels), Subject: subject, Severity: findings.Warning, Evidence: e.list}
		switch {
		case up == 0 && share >= p.Limit("failed", subject):
			f.Title = fmt.Sprintf("The target %s is down: %s of its scrapes in the last %s failed.", subject, metric.Percent(share), window(p))
			f.Cost = fmt.Sprintf("Its metrics are missing for %s of the last %s.", metric.Percent(share), window(p))
			if why := p.Failure(pt.Labels["job"], pt.Labels["instance"]); why != "" {
				f.Cost += " The last error: " + why + "."
				f.Remedy = scrapeRemedy(why)
			}
		case old >= p.Limit("age", subject) && old >= 3*usual:
			f.Title = fmt.Sprintf("The target %s was last scraped %s ago.", subject, metric.Value(old, "seconds"))
			f.Confidence = findings.Medium
			f.Cost = fmt.Sprintf("Its metrics have been missing for %s.", metric.Value(old, "seconds"))
		default:
			continue
		}
		p.Report(f)
	}
	return nil
}

// betweenScrapes returns the query for the mean time between two scrapes in the last 10 minutes. A younger target was
// not scraped in all of them.
func betweenScrapes(ctx context.Context, p *findings.Pass, up string) (string, error) {
	old, err := p.Query(ctx, up+" offset 10m", p.To)
	if err != nil {
		return "", err
	}
	if len(old) > 0 {
		return fmt.Sprintf("600 / count_over_time(%s[10m])", up), nil
	}
	return fmt.Sprintf("(timestamp(%[1]s) - min_over_time(timestamp(%[1]s)[10m:1s])) / (count_over_time(%[1]s[10m]) - 1)", up), nil
}

// scrapeRemedies is the advice on errors of scrapes, by a part of their text, which is Prometheus'. The default is the
// rule's.
var scrapeRemedies = []struct{ part, remedy string }{
	{"Content-Type", "Have the target name its format in the header Content-Type, or set `fallback_scrape_protocol: PrometheusText0.0.4` for its job in scrape_configs and send SIGHUP."},
	{"limit", "Raise the limit that the error names for the target's job in scrape_configs (sample_limit, body_size_limit, label_limit ...) and send SIGHUP, or have the target show less."},
	{"server returned HTTP status", "The target answers, but with an error: check its log, and metrics_path, password and certificate of its job in scrape_configs."},
	{"UTF-8", "The target answers, but names are not UTF-8, so its whole page is refused, as by Prometheus: correct the name in the target."},
	{"expected", "The target answers, but its page is not in the format that its header Content-Type names, so it is refused, as by Prometheus: check the page with `curl URL | promtool check metrics`."},
	{"parse", "The target answers, but its page is not in the format that its header Content-Type names, so it is refused, as by Prometheus: check the page with `curl URL | promtool check metrics`."},
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
