package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// engineAt is the engine of --query-url.
func (x explainer) engineAt(r *store.Remote) witness {
	return witness{
		query: r.Query,
		tree: func(ctx context.Context, s subject, from, to time.Time) (web.Explanation, error) {
			t, err := known.Window(ctx, r, explain.Question{Process: s.process, Instance: s.instance, From: from, To: to, PerRequest: x.per == "request"})
			e := web.Explanation{Tree: t, Causes: known.Found(t), Findings: []findings.Record{}}
			e.Summary = t.Summarize(e.Causes, "")
			return e, err
		},
	}
}

// costsNow are the unit costs of a data folder, for a result without any whose baseline
// ran on this machine.
func costsNow(e *result.Experiment, data string) *result.UnitCosts {
	costs, err := prices.Load(host.Local(), data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the result holds no unit costs, and %s no calibration; `teescope calibrate --data %s` makes one", data, data)
	case err == nil && len(e.Environments) > 0:
		if why := elsewhere(&e.Environments[0], costs.Fingerprint); why != "" {
			err = errors.New(why)
		}
	}
	if err != nil {
		return observe.UnitCosts{Err: err}.ForResult()
	}
	return observe.UnitCosts{Calibration: costs}.ForResult()
}

// askEngine has the engine of --query-url answer. It has no findings.
func (x explainer) askEngine(ctx context.Context, out *explained) (witness, error) {
	r, err := x.at.open(ctx, nil)
	if err != nil {
		return witness{}, err
	}
	out.Findings = summarized(web.Findings{Findings: []findings.Record{}, Rules: []findings.RuleStat{}, At: host.Local().Now()}, time.Time{})
	return x.engineAt(r), r.Err()
}
