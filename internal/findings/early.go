package findings

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// On a monitor that is older than the long window, a rule's windows show a cause that begins only after most of
// that window. A rule that is Early is also judged over a window of five readings, with its early limits, as alerts on
// burn rates are: the shorter the window, the higher the limit (https://sre.google/workbook/alerting-on-slos/, numbers
// 5 and 6).

// earlyWindow is the window over which an early rule is judged: five readings, so the four times between them.
func (v *evaluation) earlyWindow(r *Rule) time.Duration { return max(r.Early, 5*v.opts.Interval) }

// earlySince is the time of the first reading in the early window.
func (v *evaluation) earlySince(r *Rule, at time.Time) time.Time {
	return at.Add(v.opts.Interval - v.earlyWindow(r))
}

// findEarly returns a rule's findings over the early window, about machines and living processes. Those that settled
// reports are left out, and so is teescope's own process while it starts. Without an answer there is none.
func (v *evaluation) findEarly(ctx context.Context, r *Rule, settled func(who) bool, at time.Time) map[who]Finding {
	window := v.earlyWindow(r)
	if r.Early == 0 || window >= v.windows(r).Short || at.Sub(v.opts.Started) < window {
		return nil
	}
	found, _, err := v.run(ctx, r, &Pass{From: at.Add(-window), To: at, early: true, settled: settled})
	if err != nil {
		return nil
	}
	now, young := v.reading(at), at.Sub(v.opts.Started) < ownYouth
	maps.DeleteFunc(found, func(_ who, f Finding) bool {
		if f.Severity == Info || f.Life != "" && !f.isOfProcess() || young && slices.Contains(ownPrograms, f.Local()) {
			return true
		}
		l := now.lifeOf(ctx, f) // the window of a younger process holds what one before it did
		return l.known && !l.lives || !l.started.IsZero() && at.Sub(l.started) < window
	})
	return found
}

// Settled reports whether a subject, or a unit of it, needs no answer: in a pass over the early window, one with a finding
// whose short window holds. The unit is "" for all processes of the subject.
func (p *Pass) Settled(on query.Machine, subject, unit string) bool {
	return p.settled != nil && p.settled(who{on, subject, unit})
}

// settled returns which subjects of a rule the early window has nothing to add to: those with an open finding whose
// short window holds. One whose short window has stopped to hold would close after a pause that is shorter than it, and
// open again.
func (b *book) settled(r *Rule) func(who) bool {
	known := map[who]bool{}
	for k := range b.open {
		if k.rule == r.Name {
			_, known[k.who] = b.began[k]
		}
	}
	return func(w who) bool { return known[w] }
}

// openEarly opens early findings that have held since a time, brings open ones up to date, and returns those that it
// opened. A finding that is early no more stays so, with the severity that was sent. i is the place of the rule.
func (b *book) openEarly(i int, r *Rule, early map[who]Finding, since, at time.Time) (opened []Record) {
	for _, w := range slices.SortedFunc(maps.Keys(early), who.compare) {
		k := key{r.Name, w}
		rec, isOpen := b.open[k]
		if isOpen && rec.LastSeen.Equal(at) {
			continue // the short window, which says more, is met
		}
		if !isOpen {
			rec = &Record{ID: id(k, at), State: Open, Since: since, Early: true}
			b.open[k] = rec
		}
		f := early[w]
		if !rec.Early {
			f.Severity = rec.Severity
		}
		b.refresh(k, rec, f, at)
		b.stats[i].Answer, b.stats[i].Reason = Fires, ""
		if !isOpen {
			opened = append(opened, b.marked(*rec))
		}
	}
	return opened
}

// lookEarly judges a rule over the early window at a reading, if it has an answer otherwise. It returns the findings
// that it opened, and whether it found any.
func (e *Engine) lookEarly(ctx context.Context, v *evaluation, i int, at time.Time) (opened []Record, found bool) {
	r := v.rules[i]
	if r.Early == 0 {
		return nil, false
	}
	b := e.book.Lock()
	checked, settled := b.stats[i].Answer != CannotTell, b.settled(r)
	e.book.Unlock()
	if !checked {
		return nil, false
	}
	early := v.findEarly(ctx, r, settled, at)
	if ctx.Err() != nil || len(early) == 0 {
		return nil, false
	}
	held := e.book.Lock()
	defer e.book.Unlock()
	return held.openEarly(i, r, early, v.earlySince(r, at), at), true
}
