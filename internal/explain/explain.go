package explain

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// Window explains where the time of a process went in a window. The time in a call is measured by the sampling clock.
// A calibrated price is shown with it as a check. What neither explains is Tree.Unexplained. A question that cannot
// be answered fails with a Refusal.
func (k *Catalog) Window(ctx context.Context, db query.Querier, q Question) (Tree, error) {
	if err := q.check(); err != nil {
		return Tree{}, err
	}
	var err error
	if q, err = q.located(ctx, db); err != nil {
		return Tree{}, err
	}
	asked := q
	if q, err = q.sinceFirstSeen(ctx, db); err != nil {
		return Tree{}, err
	}
	l, err := k.read(ctx, db, q)
	if err != nil {
		return Tree{}, err
	}
	if !l.has(CPUSamples) && !l.has(CPUAccount) {
		return Tree{}, refuse("the CPU time of %q was not measured in this window: the sources samples and switches were off or are unavailable here (`teescope doctor` says why)", q.Process)
	}
	t := Tree{Subject: q.Process, Instance: q.Instance, From: q.From, To: q.To, Per: "second"}
	rows, err := l.rows(func(rows []row) error { return l.regress(ctx, db, q, rows) })
	if err != nil {
		return Tree{}, err
	}
	l.account(&t, rows)
	contended := slices.ContainsFunc(rows, func(r row) bool { return r.ID == "lock" && r.Share.Value >= leastContention })
	for i := range rows {
		l.judge(&rows[i], contended)
		if r := rows[i].Row; r.Reason != "" && r.Unit == nil {
			t.Uncosted = append(t.Uncosted, r)
		} else {
			t.Rows = append(t.Rows, r)
		}
	}
	t.Machine = l.ofMachine()
	if l.has(CPUSamples) {
		t.Unseen.CPU = l.sampled("cpu", 0)
	}
	if l.has(WaitSamples) {
		t.Unseen.Wait = l.sampled("wait", 0)
	}
	t.Checks = l.checks(rows)
	t.Blind = l.blind(t)
	if q.From.After(asked.From) {
		t.Blind = append(t.Blind, "The process was first seen at "+q.From.Format(time.TimeOnly)+": the window begins there.")
	}
	t.Rows = l.fold(t.Rows)
	slices.SortStableFunc(t.Rows, func(a, b Row) int { return cmp.Compare(b.Share.Value, a.Share.Value) })
	places := q.places()
	t.RunsIn = places[q.Process].Homes
	if err := t.compete(ctx, db, q, places); err != nil {
		return Tree{}, err
	}
	t.TEE = t.group()
	requested := l.kindlessTotal(RequestCount)
	if requested > 0 {
		requests := perSecond("requests of "+q.Process, requested, l.process.Rate(RequestCount))
		t.Requests = &requests
	}
	divisor := 1.0
	if q.PerRequest {
		if t.Requests == nil {
			return Tree{}, refuse("no requests of %q were counted in this window: per request needs a server that teescope can ask, or a counter that the configuration names", q.Process)
		}
		t.Per, divisor = "request", requested
	}
	finish(t.Rows, t.Active, divisor)
	finish(t.Uncosted, t.Active, divisor)
	for _, a := range []*Amount{&t.Active, &t.Unexplained, &t.Unseen.CPU, &t.Unseen.Wait} {
		*a = a.scaled(1 / divisor)
	}
	return t, nil
}

// compete finds who uses the CPUs while the process waits for one, over the window of the tree.
func (t *Tree) compete(ctx context.Context, db query.Querier, q Question, places map[string]rivals.Place) error {
	i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Cause == Queueing })
	if i < 0 || t.Rows[i].Share.Value < leastQueued {
		return nil
	}
	of := rivals.Question{Process: q.Process, Machine: query.Machine{Job: q.Job, Instance: q.Instance}, From: q.From, To: q.To, Places: places}
	c, err := rivals.Find(ctx, db, of)
	if err == nil {
		t.Rivals = &c
	}
	return err
}

// leastContention is the smallest share of lock waiting for which futex calls count as part of it.
const leastContention = 0.01

// account adds up the rows, compares the sum with the measured time, and sets the shares. The reference for CPU time
// is the scheduler's own account, which is exact, if every switch was counted. Otherwise it is the samples
// themselves, and the rest is what they could not attribute.
func (l *Ledger) account(t *Tree, rows []row) {
	var all, computing []Amount
	for _, r := range rows {
		all = append(all, r.Time)
		if r.Part != Wait {
			computing = append(computing, r.Time)
		}
	}
	explained := sum(computing...)
	if _, partly := l.coverage["switches"]; !l.has(CPUSamples) || !partly && l.has(CPUAccount) {
		t.Unexplained = l.rated("switches", l.kindlessTotal(CPUAccount)).minus(explained)
	} else {
		t.Unexplained = l.sampled("cpu", l.total(CPUSamples, unattributed))
		shift := l.total(CPUSamples, everything) - explained.Value - t.Unexplained.Value
		t.Unexplained = t.Unexplained.plus(exactly(shift))
	}
	if math.Abs(t.Unexplained.Value) < rounding*explained.Value {
		t.Unexplained.Value = 0
	}
	t.Active = sum(all...).plus(t.Unexplained)
	for i := range rows {
		others := slices.Delete(slices.Clone(all), i, i+1)
		rows[i].Share = all[i].shareBeside(sum(append(others, t.Unexplained)...))
	}
	if t.Active.Value > 0 {
		t.UnexplainedShare = t.Unexplained.scaled(1 / t.Active.Value)
	}
}

// rounding is the largest difference of equal numbers after rounding.
const rounding = 1e-12

// unattributed reports time of unknown purpose: in the kernel without a call, or folded because the table of
// activities was full.
func unattributed(e Event) bool {
	switch e.Label("mode") {
	case "user", "fault", "interrupt", "thread":
		return false
	case "kernel":
		return e.Label("call") == ""
	}
	return true
}

// finish sets the shares of the rows' parts, and divides amounts that are per second.
func finish(rows []Row, active Amount, divisor float64) {
	for i := range rows {
		row := &rows[i]
		if row.Share == (Amount{}) && active.Value > 0 {
			row.Share = row.Time.scaled(1 / active.Value)
		}
		row.Time = row.Time.scaled(1 / divisor)
		if row.Rate != nil {
			rate := row.Rate.scaled(1 / divisor)
			row.Rate = &rate
		}
		if row.Evidence == nil {
			row.Evidence = []query.Evidence{}
		}
		finish(row.Rows, active, divisor)
	}
}
