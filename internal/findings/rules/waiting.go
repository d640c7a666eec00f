package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// waiting is a process whose threads wait for something, or the part of its processes that run in one unit.
type waiting struct {
	evidence
	labels  map[string]string
	unit    string // "" for all processes of the name
	mean    string // completes titles: over which window
	threads float64
	share   float64
}

// waitingFor is a kind of waiting that a rule reports.
type waitingFor struct {
	state         string // of tee_sampled_wait_seconds_total
	what, whatFor string // "lock waits", "locks"
	// least returns how many threads of a subject must wait for a share; nil is the limit "waiting". It is never
	// below lowest times that limit.
	least  func(p *findings.Pass, subject string, share float64) float64
	lowest float64
	// near: a subject near the limits gets a note.
	near bool
	// judge may add evidence, changes the finding, sets the confidence, and says whether there is one.
	judge func(context.Context, *waiting, *findings.Finding) bool
}

// nearShare is the part of the limit "share" from which a silent rule says how near a process is.
const nearShare = 0.8

// find reports the processes whose threads wait. They must spend at least the limit "share" of their active time
// waiting, with at least the least number of threads on average, and judge must accept.
func (s waitingFor) find(ctx context.Context, p *findings.Pass) error {
	by := func(series, matcher, w string) string {
		return "sum by (job, instance, process) (" + query.Scope{Over: w}.Rate(series, `process!="other"`, matcher) + ")"
	}
	lowest := p.Least("waiting")
	if s.lowest > 0 {
		lowest *= s.lowest
	}
	from := lowest
	if s.near {
		from /= 2
	}
	points, err := holding(ctx, p, func(w string) string { return by(sampledWait, fmt.Sprintf("state=%q", s.state), w) }, from, "")
	if err != nil || len(points) == 0 {
		return err
	}
	inUnits, err := s.findInUnits(ctx, p, lowest)
	if err != nil {
		return err
	}
	// The active time of all of them at once: most do something else for the most part.
	active := map[of]float64{}
	for _, expr := range []string{by(sampledCPU, "", window(p)), by(sampledWait, `state!="sleep"`, window(p))} {
		parts, err := p.QueryOnce(ctx, expr)
		if err != nil {
			return err
		}
		for _, pt := range parts {
			active[processOf(pt)] += pt.Value
		}
	}
	for _, pt := range points {
		if inUnits[processOf(pt)] {
			continue // one of its units is named
		}
		share := pt.Value / active[processOf(pt)]
		subject, err := named(ctx, p, pt.Labels["process"], sampledWait, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if p.Settled(query.MachineOf(pt.Labels), subject, "") {
			continue
		}
		if limit := p.Limit("share", subject); share < limit || pt.Value < lowest {
			s.note(p, pt.Labels, subject, share, share, pt.Value)
			continue
		}
		if _, err := s.examine(ctx, p, subject, pt.Labels); err != nil {
			return err
		}
	}
	return nil
}

// unitTime is the sampled time of the names whose processes run in several units, by unit.
const unitTime = "tee_sampled_unit_seconds_total"

// findInUnits reports the units of such names whose threads wait, and returns the processes of which it reported one.
func (s waitingFor) findInUnits(ctx context.Context, p *findings.Pass, least float64) (map[of]bool, error) {
	points, err := holding(ctx, p, func(w string) string {
		return fmt.Sprintf(`sum by (job, instance, process, unit) (rate(%s{state=%q,process!="other",unit!="",unit!="other"}[%s]))`, unitTime, s.state, w)
	}, least, "")
	reported := map[of]bool{}
	for _, pt := range points {
		subject, err := named(ctx, p, pt.Labels["process"], sampledWait, pt.Labels["instance"])
		if err != nil {
			return nil, err
		}
		on, unit := query.MachineOf(pt.Labels), pt.Labels["unit"]
		if p.Settled(on, subject, "") {
			continue
		}
		found := p.Settled(on, subject, unit)
		if !found {
			if found, err = s.examine(ctx, p, subject, pt.Labels); err != nil {
				return nil, err
			}
		}
		reported[processOf(pt)] = reported[processOf(pt)] || found
	}
	return reported, err
}

// waits selects the time that the threads wait for what a rule is about, and works the time in which they had work.
func (e *waiting) waits(state string) func(window string) string {
	return func(w string) string {
		if e.unit != "" {
			return query.SumRate(e.ofUnit(fmt.Sprintf("state=%q", state)), w)
		}
		return query.SumRate(ofProcess(sampledWait, e.labels, fmt.Sprintf("state=%q", state)), w)
	}
}

func (e *waiting) works(window string) string {
	if e.unit != "" {
		return query.SumRate(e.ofUnit(), window)
	}
	return active(e.labels, window)
}

// cpu returns the query for the CPU time by samples.
func (e *waiting) cpu(window string) string {
	if e.unit != "" {
		return query.SumRate(e.ofUnit(`state="running"`), window)
	}
	return query.SumRate(ofProcess(sampledCPU, e.labels), window)
}

// ofUnit selects the times of the unit.
func (e *waiting) ofUnit(matchers ...string) string {
	return ofProcess(unitTime, e.labels, append([]string{fmt.Sprintf("unit=%q", e.unit)}, matchers...)...)
}

// processOf is the process of an element by job, instance and process.
func processOf(pt metric.Point) of { return of{query.MachineOf(pt.Labels), pt.Labels["process"]} }

// note says how near a process is to a finding, if it is near one. share is that of the window, worst the lower one of
// the window and of its newest part.
func (s waitingFor) note(p *findings.Pass, labels map[string]string, subject string, share, worst, threads float64) {
	limit, least := p.Limit("share", subject), s.fewest(p, subject, worst)
	n := findings.Near{Machine: query.MachineOf(labels), Subject: subject, Life: lifeOf(labels)}
	switch {
	case !s.near || !(worst >= nearShare*limit):
		return
	case worst < limit:
		n.Text = fmt.Sprintf("%s waits %s of its active time; a finding needs %s.", subject, metric.Percent(worst), metric.Percent(limit))
	default:
		n.Text = fmt.Sprintf("%s waits %s of its active time, but on average only %s threads wait; a finding needs %s.", subject, metric.Percent(share), metric.Count(threads), metric.Count(least))
	}
	p.Note(n)
}

// waitingThreads says how many threads of a subject wait at any moment.
func (e *waiting) waitingThreads(subject, whatFor string) string {
	n, noun, verb := metric.Count(e.threads), "threads", "wait"
	if n == "1" {
		noun, verb = "thread", "waits"
	}
	return fmt.Sprintf("On average, %s %s of %s %s for %s at any moment", n, noun, subject, verb, whatFor)
}

// fewest returns how many threads of a subject must wait at a share.
func (s waitingFor) fewest(p *findings.Pass, subject string, share float64) float64 {
	if s.least == nil {
		return p.Limit("waiting", subject)
	}
	return s.least(p, subject, share)
}

// examine reports a process, or the part of it in the unit that the labels name, or notes that it is near a finding. It
// returns whether it reported one.
func (s waitingFor) examine(ctx context.Context, p *findings.Pass, subject string, labels map[string]string) (bool, error) {
	e := &waiting{evidence: evidence{pass: p}, labels: labels, unit: labels["unit"], mean: ", mean of the last " + window(p)}
	process, rate, shown := findings.InUnit(labels["process"], e.unit), e.waits(s.state), findings.InUnit(subject, e.unit)
	clocks := "cpu|wait"
	if e.unit != "" {
		clocks = "wait"
	}
	share, around := e.sampled(ctx, fmt.Sprintf("share of %s in the active time of %s%s", s.what, process, e.mean), rate, e.works, clocks, labels)
	now := e.add(ctx, "share of "+s.what+", mean of the last "+newest(p), "ratio", rate(newest(p))+" / "+e.works(newest(p)))
	e.threads, e.share = e.add(ctx, "threads that wait for "+s.whatFor+e.mean, "", rate(window(p))), share
	if e.err != nil {
		return false, e.err
	}
	worst := min(share, now)
	if p.IsEarly() && around == nil {
		return false, nil
	}
	if p.IsEarly() { // a short window has few samples
		worst = min(worst, around[0])
	}
	if !(worst >= p.Limit("share", subject)) || !(e.threads >= s.fewest(p, subject, worst)) {
		if e.unit == "" {
			s.note(p, labels, subject, share, worst, e.threads)
		}
		return false, nil
	}
	f := findings.Finding{
		Machine:  query.MachineOf(labels),
		Subject:  subject,
		Unit:     e.unit,
		Life:     lifeOf(labels),
		Title:    fmt.Sprintf("%s spends %s of its active time waiting for %s.", shown, metric.Percent(share), s.whatFor),
		Severity: findings.Warning,
		Share:    around,
		ShareOf:  findings.ActiveTime,
		Cost:     e.waitingThreads(shown, s.whatFor) + ".",
		Waiters:  []rivals.Part{{Name: process, Value: e.threads}},
	}
	if accepted := s.judge(ctx, e, &f); e.err != nil || !accepted {
		return false, e.err
	}
	f.Evidence = e.list
	p.Report(f)
	return true, nil
}
