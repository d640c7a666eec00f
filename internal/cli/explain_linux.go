package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// engineAt is the engine of --query-url. It has no findings, platform and overhead.
func engineAt(r *store.Remote) client.Backend {
	return client.Backend{
		Findings: func(context.Context) (web.Findings, error) {
			return web.Findings{Findings: []findings.Record{}, Rules: []findings.RuleStat{}, At: host.Local().Now()}.WithSummary(time.Time{}), r.Err()
		},
		Query: r.Query,
		Tree: func(ctx context.Context, s client.Subject, per string, from, to time.Time) (web.Explanation, error) {
			t, err := known.Window(ctx, r, explain.Question{Process: s.Process, Instance: s.Instance, From: from, To: to, PerRequest: per == "request"})
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
		err = fmt.Errorf("the result has no unit costs, and %s has no calibration; `teescope calibrate --data %s` measures unit costs", data, data)
	case err == nil && len(e.Environments) > 0:
		if why := environment.OtherMachine(&e.Environments[0], costs.Fingerprint); why != "" {
			err = errors.New(why)
		}
	}
	if err != nil {
		return observe.UnitCosts{Err: err}.ForResult()
	}
	return observe.UnitCosts{Calibration: costs}.ForResult()
}

// askEngine has the engine of --query-url answer.
func (x *explainer) askEngine(ctx context.Context) (client.Backend, error) {
	r, err := x.at.Open(ctx, nil)
	if err != nil {
		return client.Backend{}, err
	}
	return engineAt(r), nil
}

// watchHere watches for a while in this process, which then answers, and says so.
func (x *explainer) watchHere(ctx context.Context, env Env, base *url.URL) (b client.Backend, end func() error, err error) {
	end = func() error { return nil }
	instead := ""
	if x.lasting {
		instead = fmt.Sprintf("; this process has no earlier data, so the window is this time, not --last %s", &x.last)
	}
	fmt.Fprintf(env.Stderr, "no monitor answers at %s: watching for %v in this process%s\n", printable.URL(base), monitor.WatchedOnce, instead)
	a, err := monitor.WatchAlone(ctx, aloneSettings(), monitor.EagerInterval, false)
	if err != nil {
		return b, end, err
	}
	if err := a.WatchOnce(ctx); err != nil {
		return b, end, errors.Join(err, a.Close())
	}
	command := "explain"
	if x.process != "" {
		command += " --process " + quoted(x.process)
	}
	if lack := a.Lacks(command); lack != "" {
		fmt.Fprintln(env.Stderr, lack)
	}
	x.last = duration(monitor.WatchedOnce)
	return a.Backend(command, true), a.Close, nil
}
