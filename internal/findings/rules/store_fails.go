package rules

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var storeFails = &findings.Rule{
	Name:  "store_fails",
	Title: "Samples are not stored",
	Role:  findings.RoleMonitor,
	Doc:   "The monitor's store accepts no samples now. Its data folder is missing or was replaced, its disk is full, or a write failed. The store reports this directly, so this rule needs no samples. With --query-url the rule checks the data folder only. No threshold: the finding stays while the store refuses samples.",
	Remedy: "Put the data folder back; if it is lost, restart the monitor. If the disk that holds --data is full, free space on the disk, or store less (--retention). " +
		"After a failed write, check the disk (`dmesg`, `smartctl -a DEVICE`) and whether it is mounted read-only. The store then accepts samples again without a restart.",
	Reference: "https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects",
	Run:       findStoreFailing,
}

func findStoreFailing(ctx context.Context, p *findings.Pass) error {
	own, known, why := p.Refusing()
	if !known {
		return errors.New("this monitor does not know whether its samples are stored")
	}
	if why == nil {
		return nil
	}
	here := query.Selector("teescope_store_lost_samples_total", map[string]string{"job": own.Job, "instance": own.Instance})
	e := evidence{pass: p}
	ago := e.add(ctx, "time since the last stored reading", "seconds", fmt.Sprintf("time() - max(max_over_time(timestamp(%s)[1h:5s]))", here))
	e.add(ctx, "samples lost until then", "", fmt.Sprintf("last_over_time(%s[1h])", here))
	f := findings.Finding{Machine: own, Subject: "the store", Severity: findings.Critical,
		Title:    "Nothing is recorded now.",
		Cost:     "Charts have a gap, and rules that need samples are not checked. The store says: " + contain.OneLine(why) + ".",
		Evidence: e.list}
	switch {
	case e.err != nil: // it cannot say since when
	case math.IsNaN(ago):
		f.Title = "Nothing is recorded now, and nothing was in the last hour."
	default:
		f.Title = fmt.Sprintf("Nothing has been recorded for %s.", metric.Value(ago, "seconds"))
		f.Cost = fmt.Sprintf("Charts have a gap of %s, and rules that need samples are not checked. The store says: %s.", metric.Value(ago, "seconds"), contain.OneLine(why))
	}
	p.Report(f)
	return nil
}
