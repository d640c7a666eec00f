package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

var targetDown = &findings.Rule{
	Name:  "target_down",
	Title: "Scrape target down",
	Doc: "A scraped target does not answer and failed at least half of the scrapes of either window; or its last scrape was 150 s ago and three times the usual " +
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
	between := func(selector string) string { return fmt.Sprintf("600 / count_over_time(%s[10m])", selector) }
	points, err := p.Query(ctx, fmt.Sprintf("(%s >= %g and up == 0) or (%s >= %g and %s >= 3 * %s)",
		failed("up"), p.Least("failed"), age("up"), p.Least("age"), age("up"), between("up")), p.To)
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
		usual := e.add(ctx, "time between two scrapes, mean of the last 10m", "seconds", between(here))
		if e.err != nil {
			return e.err
		}
		f := findings.Finding{Subject: subject, Severity: findings.Warning, Evidence: e.list}
		switch {
		case up == 0 && share >= p.Limit("failed", subject):
			f.Title = fmt.Sprintf("The target %s does not answer: %s of its scrapes in the last %s failed.", subject, metric.Percent(share), window(p))
			f.Cost = fmt.Sprintf("Its metrics are missing for %s of the last %s.", metric.Percent(share), window(p))
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
