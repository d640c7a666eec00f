package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

// waiting is a process whose threads wait for something.
type waiting struct {
	evidence
	labels map[string]string
	mean   string // completes titles: over which window
}

// findWaiting reports the processes whose threads wait in a state of tee_sampled_wait_seconds_total. They must spend
// at least the limit "share" of the time in which they have work there, with at least the limit "waiting" of threads
// on average, and judge must accept. judge may add evidence and sets the confidence. what and whatFor name the state:
// "lock waits", "locks".
func findWaiting(ctx context.Context, p *findings.Pass, state, what, whatFor string, judge func(*waiting, *findings.Finding) bool) error {
	points, err := holding(ctx, p, func(w string) string {
		return fmt.Sprintf(`sum by (job, instance, process) (rate(%s{state=%q,process!="other"}[%s]))`, sampledWait, state, w)
	}, p.Least("waiting"), "")
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		subject, err := named(ctx, p, process, sampledWait, pt.Labels["instance"])
		if err != nil {
			return err
		}
		rate := func(w string) string {
			return sumRate(ofProcess(sampledWait, pt.Labels, fmt.Sprintf("state=%q", state)), w)
		}
		e := &waiting{evidence{pass: p}, pt.Labels, ", mean of the last " + window(p)}
		share, around := e.sampled(ctx, fmt.Sprintf("share of %s in the active time of %s%s", what, process, e.mean),
			rate, func(w string) string { return active(pt.Labels, w) }, "cpu|wait", pt.Labels)
		now := e.add(ctx, "share of "+what+", mean of the last "+newest(p), "ratio", rate(newest(p))+" / "+active(pt.Labels, newest(p)))
		threads := e.add(ctx, "threads that wait for "+whatFor+e.mean, "", rate(window(p)))
		f := findings.Finding{
			Machine:  findings.MachineOf(pt.Labels),
			Subject:  subject,
			Life:     lifeOf(pt.Labels),
			Title:    fmt.Sprintf("%s spends %s of its active time waiting for %s.", subject, metric.Percent(share), whatFor),
			Severity: findings.Warning,
			Share:    around,
			ShareOf:  findings.ActiveTime,
			Cost:     fmt.Sprintf("On average %s of its threads wait at any moment.", metric.Count(threads)),
		}
		accepted := judge(e, &f)
		if e.err != nil {
			return e.err
		}
		if !accepted || !(min(share, now) >= p.Limit("share", subject)) || threads < p.Limit("waiting", subject) {
			continue
		}
		f.Evidence = e.list
		p.Report(f)
	}
	return nil
}
