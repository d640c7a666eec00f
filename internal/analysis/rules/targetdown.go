package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

var targetDown = &analysis.Rule{
	Name:  "target_down",
	Title: "Scrape target down",
	Doc: "A scraped target does not answer, and has not in at least half of the scrapes of either window; or its last scrape is 150 s ago and three times the usual " +
		"time between two scrapes, though it is still in the configuration. What its series say is old, and rules that need them cannot tell. " +
		"Without scraped targets it cannot tell either.",
	Thresholds: []analysis.Threshold{
		{Name: "failed", Doc: "share of the scrapes that failed", Unit: "ratio", Default: 0.5},
		{Name: "age", Doc: "time since the last scrape", Unit: "seconds", Default: 150},
	},
	Remedy: "Ask the target as the monitor does, with `curl`: does it run, listen on that address and answer below a second; is there a firewall between, has its certificate " +
		"or password changed? The page of the targets, /api/v1/targets, has the last error. A target that is gone for good: take it out of scrape_configs and send SIGHUP.",
	Reference: "https://prometheus.io/docs/concepts/jobs_instances/#automatically-generated-labels-and-time-series",
	Run:       findTargetDown,
}

func findTargetDown(ctx context.Context, p *analysis.Pass) error {
	known, err := p.Query(ctx, "count(count_over_time(up[10m]))", p.To)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return errors.New("up has no reading in the last 10m: no target is scraped")
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
		here := analysis.Selector("up", pt.Labels)
		e := evidence{pass: p}
		up := e.add(ctx, "1 if its last scrape succeeded", "", here)
		share := e.add(ctx, "share of its scrapes in the last "+window(p)+" that failed", "ratio", failed(here))
		old := e.add(ctx, "time since its last scrape", "seconds", age(here))
		usual := e.add(ctx, "time between two scrapes, mean of the last 10m", "seconds", between(here))
		if e.err != nil {
			return e.err
		}
		f := analysis.Finding{Subject: subject, Severity: analysis.Warning, Evidence: e.list}
		switch {
		case up == 0 && share >= p.Limit("failed", subject):
			f.Title = fmt.Sprintf("The target %s does not answer: %s of its scrapes in the last %s failed.", subject, percent(share), window(p))
			f.Cost = fmt.Sprintf("Nothing was seen of it in %s of the last %s.", percent(share), window(p))
		case old >= p.Limit("age", subject) && old >= 3*usual:
			f.Title = fmt.Sprintf("The target %s was last scraped %s s ago.", subject, count(old))
			f.Confidence = analysis.Medium
			f.Cost = fmt.Sprintf("Nothing was seen of it for %s s.", count(old))
		default:
			continue
		}
		p.Report(f)
	}
	return nil
}
