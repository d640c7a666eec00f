package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

var lostSamples = &analysis.Rule{
	Name:  "lost_samples",
	Title: "Samples lost",
	Doc: "The store refused or lost samples within the last 15 minutes, because its disk was full or a write failed. " +
		"Charts have a gap there and rates across it are means. It is said once the store takes samples again; meanwhile the page shows the store's error.",
	Needs: []string{"teescope_store_lost_samples_total"},
	Thresholds: []analysis.Threshold{
		{Name: "samples", Doc: "samples lost within 15 minutes", Unit: "", Default: 1},
	},
	Remedy:    "Free space on the disk that holds --data, keep less (--retention), or move the store to a larger disk.",
	Reference: "https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects",
	Run:       findLostSamples,
}

func findLostSamples(ctx context.Context, p *analysis.Pass) error {
	const lost = "teescope_store_lost_samples_total"
	// While nothing can be stored the counter has no samples either: what is
	// compared is its value now and 15 minutes ago, 0 where there was none.
	since := func(selector string) string {
		return fmt.Sprintf("%[1]s - (%[1]s offset 15m or %[1]s * 0)", selector)
	}
	points, err := p.Query(ctx, fmt.Sprintf("%s >= %g", since(lost), p.Least("samples")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		here := analysis.Selector(lost, pt.Labels)
		e := evidence{pass: p}
		n := e.add(ctx, "samples lost in the last 15m", "", since(here))
		e.add(ctx, "samples lost since the monitor started", "", here)
		e.add(ctx, "failed writes after which the log was put in order", "", analysis.Selector("teescope_store_wal_errors_total", pt.Labels))
		if e.err != nil {
			return e.err
		}
		subject, err := named(ctx, p, "teescope", lost, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if n < p.Limit("samples", subject) {
			continue
		}
		p.Report(analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s lost %s samples in the last 15 minutes: charts have a gap there.", subject, count(n)),
			Severity: analysis.Warning,
			Evidence: e.list,
		})
	}
	return nil
}
