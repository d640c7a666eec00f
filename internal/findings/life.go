package findings

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// Subjects end: a process, a container. Their counters do not, since they are kept by name, and a mean over a window
// tells of a process for as long as the window lasts. So each reading is asked which subjects it has.

// life is what the newest reading says of a subject.
type life struct {
	known bool // the reading was made, and would have the subject
	lives bool
	// started is when the subject started; the zero time where its series does not say.
	started time.Time
}

// reading asks about the lives of subjects in one reading, each once.
type reading struct {
	v    *evaluation
	at   time.Time
	seen map[string]life
}

func (v *evaluation) reading(at time.Time) *reading {
	return &reading{v: v, at: at, seen: map[string]life{}}
}

// lifeOf returns the life of a finding's subject. It is unknown without Finding.Life, and where the reading is old or its
// source did not work: then nothing says that the subject has ended.
func (r *reading) lifeOf(ctx context.Context, f Finding) life {
	if f.Life == "" || r.v.opts.Source == nil {
		return life{}
	}
	if l, ok := r.seen[f.Life]; ok {
		return l
	}
	l := r.queryLife(ctx, f)
	r.seen[f.Life] = l
	return l
}

func (r *reading) queryLife(ctx context.Context, f Finding) (l life) {
	metric, _, _ := strings.Cut(f.Life, "{")
	source := r.v.opts.Source(metric)
	if source == "" {
		return life{}
	}
	points, err := r.v.q.Query(ctx, r.fresh(f.Life), r.at)
	if err != nil {
		return life{}
	}
	if len(points) > 0 {
		l = life{known: true, lives: true}
		if metric == query.StartTime {
			l.started = time.UnixMilli(int64(points[0].Value * 1000))
		}
		return l
	}
	if metric == query.StartTime { // an agent of an earlier version has it of no process, although its source works
		others := query.Selector(query.StartTime, map[string]string{"job": f.Job, "instance": f.Instance})
		if points, err := r.v.q.Query(ctx, r.fresh(others), r.at); err != nil || len(points) == 0 {
			return life{}
		}
	}
	up := query.Selector("teescope_source_up", map[string]string{"job": f.Job, "instance": f.Instance, "source": source})
	points, err = r.v.q.Query(ctx, r.fresh(up)+" == 1", r.at)
	return life{known: err == nil && len(points) > 0}
}

// fresh returns the query for a selector's values of the last two readings. Without it the last values before a restart
// of the monitor would count for minutes.
func (r *reading) fresh(selector string) string {
	return fmt.Sprintf("(%s and timestamp(%[1]s) > time() - %g)", selector, max(2*r.v.opts.Interval, time.Second).Seconds())
}

// mostRestarts is how often a subject may start anew within a window to count as one service that was restarted. A name
// with more starts is that of many short processes, such as a compiler's, which are judged together.
const mostRestarts = 2

// restarts returns how often the oldest process of a name was another one than before, within a window.
func (r *reading) restarts(ctx context.Context, f Finding, window time.Duration) int {
	points, err := r.v.q.Query(ctx, fmt.Sprintf("changes(%s[%s])", f.Life, query.PromDuration(window)), r.at)
	if err != nil || len(points) == 0 {
		return 0
	}
	return int(points[0].Value)
}

// leastLife is how many readings a life must have had to be judged alone, as many as a window.
const leastLife = 4

// byOwnLife judges the subjects that are younger than the window by their own life. Of subjects that have ended nothing
// is said.
func (v *evaluation) byOwnLife(ctx context.Context, r *Rule, out *verdict, window time.Duration, at time.Time) error {
	now := v.reading(at)
	out.near = slices.DeleteFunc(out.near, func(n Near) bool {
		l := now.lifeOf(ctx, Finding{Machine: n.Machine, Subject: n.Subject, Life: n.Life})
		return l.known && !l.lives
	})
	out.started = map[who]time.Time{}
	for w, f := range out.short {
		l := now.lifeOf(ctx, f)
		if l.known && !l.lives {
			delete(out.short, w)
			continue
		}
		if l.started.IsZero() || earlier(at, l.started) {
			continue
		}
		age := at.Sub(l.started).Truncate(time.Second)
		if age >= window {
			out.started[w] = l.started
			continue
		}
		restarts := now.restarts(ctx, f, window)
		if restarts > mostRestarts {
			continue
		}
		out.started[w] = l.started
		switch {
		case age >= leastLife*v.opts.Interval && age > 0:
			own, _, err := v.pass(ctx, r, at.Add(-age), at)
			if err != nil {
				return err
			}
			if f, holds := own[w]; holds {
				out.short[w] = f
			} else {
				delete(out.short, w)
			}
		case restarts > 0: // too young, and the window has what its predecessor did
			delete(out.short, w)
		}
	}
	return nil
}

// Read tells Run that a reading has been stored. It does not wait.
func (e *Engine) Read() {
	select {
	case e.read <- struct{}{}:
	default: // Run has not looked at the reading before
	}
}

// looksToClose is in how many readings in a row a subject must be missing before its findings close.
const looksToClose = 2

// CheckSubjects marks open findings whose subject is not in the newest reading as ended, and closes them when the next reading
// lacks it too. While rules are not slowed, it also brings those with open findings up to date whose values would be
// older than two readings before their next evaluation.
func (e *Engine) CheckSubjects(ctx context.Context) {
	v := e.running.TryLock()
	if v == nil {
		return
	}
	defer e.running.Unlock()
	at := v.opts.Now()
	if v.first.IsZero() {
		return // findings of earlier runs come first
	}
	b := e.book.Lock()
	v.rewind(b, at)
	open := make(map[key]Finding, len(b.open))
	for k, r := range b.open {
		open[k] = r.Finding
	}
	e.book.Unlock()
	now, lives := v.reading(at), map[key]life{}
	for k, f := range open {
		lives[k] = now.lifeOf(ctx, f)
	}
	changed, marked := e.book.Lock().mark(lives, at)
	e.book.Unlock()
	for i, r := range v.rules {
		stale := e.book.Lock().stale(r, i, v, at)
		e.book.Unlock()
		if !stale {
			opened, any := e.lookEarly(ctx, v, i, at)
			changed, marked = append(changed, opened...), marked || any
			continue
		}
		answer := v.judge(ctx, r, at)
		if ctx.Err() != nil {
			break
		}
		changed, marked = append(changed, e.book.Lock().settle(v, i, answer, at)...), true
		e.book.Unlock()
	}
	if marked || len(changed) > 0 {
		e.publishChanges(v, changed)
	}
}

// mark notes which subjects have ended, closes the findings of those that stay away, and reports whether any mark
// changed.
func (b *book) mark(lives map[key]life, at time.Time) (closed []Record, marked bool) {
	for k, l := range lives {
		rec, ok := b.open[k]
		switch {
		case !ok || !l.known || !l.lives && b.past[k] && !b.lived[k]:
			// Of an earlier run's finding, a process that has done nothing since has no series either.
		case l.lives:
			b.lived[k] = true
			marked = marked || rec.Ended != nil
			rec.Ended = nil
			delete(b.missing, k)
		default:
			if rec.Ended == nil {
				ended := at
				rec.Ended, marked = &ended, true
			}
			b.missing[k]++
		}
	}
	return b.closeOpen(at, func(k key, _ *Record) bool { return b.missing[k] >= looksToClose }), marked
}

// stale reports whether a rule has an open finding about a living subject whose value will be too old before long.
func (b *book) stale(r *Rule, i int, v *evaluation, at time.Time) bool {
	if v.opts.Slowed != nil && v.opts.Slowed() > 1 || at.Sub(b.stats[i].At)*2 < 3*v.opts.Interval {
		return false
	}
	for k, rec := range b.open {
		if k.rule == r.Name && rec.Ended == nil {
			return true
		}
	}
	return false
}
