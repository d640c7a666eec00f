package analysis

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/tee"
)

// Windows are the two sliding windows of a rule. The long one asks whether the
// cause weighs enough to speak of, the short one whether it is there now; the
// method is that of multi-window alerts
// (https://sre.google/workbook/alerting-on-slos/, number 5).
type Windows struct{ Long, Short time.Duration }

// Options configure an Engine.
type Options struct {
	// Now and Started are the clock and the time at which observation began;
	// both are needed. While less than the long window has passed since
	// Started, the short window decides alone.
	Now     func() time.Time
	Started time.Time
	Facts   []tee.Facts
	Windows Windows
	// PerRule replaces Windows for the rules it names.
	PerRule map[string]Windows
	// Every is the time between two evaluations.
	Every time.Duration
	// CloseAfter is how long a cause must not have been seen for its finding to close.
	CloseAfter time.Duration
	// History is how many closed findings are remembered.
	History int
	// Absent says why a metric has no series; "" when it does not know. May be nil.
	Absent func(metric string) string
	// Observe is told of every finding that opens or closes. May be nil.
	Observe func(Record)
}

// DefaultOptions are all options that have a default.
func DefaultOptions() Options {
	return Options{
		Windows:    Windows{Long: 5 * time.Minute, Short: time.Minute},
		Every:      15 * time.Second,
		CloseAfter: time.Minute,
		History:    200,
	}
}

// Engine evaluates rules and keeps the findings. Its methods may be called at
// once from several goroutines.
type Engine struct {
	rules []*Rule
	q     Querier
	opts  Options

	running sync.Mutex // held during an evaluation

	mu     sync.Mutex // guards what follows
	open   map[key]*Record
	began  map[key]time.Time // since when the short window has held without a break
	closed []Record          // newest last
	stats  []RuleStat
}

// key identifies a finding among the open ones.
type key struct{ rule, subject string }

// New returns an engine that has not evaluated anything yet.
func New(rules []*Rule, q Querier, opts Options) *Engine {
	e := &Engine{rules: rules, q: q, opts: opts, open: map[key]*Record{}, began: map[key]time.Time{}}
	for _, r := range rules {
		w := e.windows(r)
		e.stats = append(e.stats, RuleStat{
			Name: r.Name, Title: r.Title, Doc: r.Doc,
			Answer: CannotTell, Reason: "not evaluated yet",
			Windows: [2]float64{w.Long.Seconds(), w.Short.Seconds()},
		})
	}
	return e
}

func (e *Engine) windows(r *Rule) Windows {
	if w, ok := e.opts.PerRule[r.Name]; ok {
		return w
	}
	return e.opts.Windows
}

// Run evaluates all rules at every tick until the context ends, and returns
// the context's error.
func (e *Engine) Run(ctx context.Context) error {
	tick := time.NewTicker(e.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			e.Evaluate(ctx)
		}
	}
}

// Evaluate runs every rule once, at the time of the clock. A call during
// another evaluation does nothing.
func (e *Engine) Evaluate(ctx context.Context) {
	if !e.running.TryLock() {
		return
	}
	defer e.running.Unlock()
	at := e.opts.Now()
	needs := readings{engine: e, at: at, seen: map[reading]string{}}
	for i, r := range e.rules {
		v := e.judge(ctx, r, needs, at)
		if ctx.Err() != nil {
			return // an evaluation cut short says nothing
		}
		for _, rec := range e.settle(i, v, at) {
			if e.opts.Observe != nil {
				e.opts.Observe(rec)
			}
		}
	}
}

// verdict is what one evaluation of a rule saw.
type verdict struct {
	unknown string // why it could not tell; "" when it could
	short   map[string]Finding
	long    map[string]Finding // nil while the monitor is young
}

func (e *Engine) judge(ctx context.Context, r *Rule, needs readings, at time.Time) verdict {
	w := e.windows(r)
	for _, name := range r.Needs {
		if why := needs.missing(ctx, name, w.Short); why != "" {
			return verdict{unknown: why}
		}
	}
	var v verdict
	var err error
	if v.short, err = e.pass(ctx, r, at.Add(-w.Short), at); err != nil {
		return verdict{unknown: err.Error()}
	}
	if at.Sub(e.opts.Started) < w.Long || len(v.short) == 0 {
		return v
	}
	if v.long, err = e.pass(ctx, r, at.Add(-w.Long), at); err != nil {
		return verdict{unknown: err.Error()}
	}
	return v
}

// pass runs a rule on one window and returns its findings by subject.
func (e *Engine) pass(ctx context.Context, r *Rule, from, to time.Time) (map[string]Finding, error) {
	found := map[string]Finding{}
	p := &Pass{Querier: e.q, Rule: r, From: from, To: to, Facts: e.opts.Facts, Report: func(f Finding) {
		f.Rule = r.Name
		f.Remedy = cmp.Or(f.Remedy, r.Remedy)
		f.Reference = cmp.Or(f.Reference, r.Reference)
		found[f.Subject] = f
	}}
	if err := r.Run(ctx, p); err != nil {
		return nil, err
	}
	return found, nil
}

// settle brings the findings of rule i up to date and returns those that
// opened or closed.
func (e *Engine) settle(i int, v verdict, at time.Time) (changed []Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rules[i]
	young := at.Sub(e.opts.Started) < e.windows(r).Long
	stat := &e.stats[i]
	stat.At, stat.Answer, stat.Reason = at, Silent, ""

	for _, subject := range slices.Sorted(maps.Keys(v.short)) {
		k := key{r.Name, subject}
		if _, ok := e.began[k]; !ok {
			e.began[k] = at
		}
		rec, isOpen := e.open[k]
		long, both := v.long[subject]
		if !isOpen && !both && !young {
			continue
		}
		stat.Answer = Fires
		f := v.short[subject]
		f.Evidence = join(f.Evidence, long.Evidence)
		if !isOpen {
			rec = &Record{ID: id(k, at), State: Open, Since: e.began[k]}
			e.open[k] = rec
		}
		rec.Finding, rec.LastSeen = f, at
		if !isOpen {
			changed = append(changed, *rec)
		}
	}
	for k := range e.began {
		if _, holds := v.short[k.subject]; k.rule == r.Name && !holds {
			delete(e.began, k)
		}
	}
	if v.unknown != "" {
		stat.Answer, stat.Reason = CannotTell, v.unknown
	}
	return append(changed, e.close(r, at)...)
}

// close ends the findings of a rule that were not seen for the closing delay,
// be it that the cause is gone or that nothing can be told any more.
func (e *Engine) close(r *Rule, at time.Time) (ended []Record) {
	for k, rec := range e.open {
		if k.rule != r.Name || at.Sub(rec.LastSeen) < e.opts.CloseAfter {
			continue
		}
		rec.State, rec.Until = Closed, &at
		delete(e.open, k)
		ended = append(ended, *rec)
	}
	slices.SortFunc(ended, func(a, b Record) int { return strings.Compare(a.Subject, b.Subject) })
	e.closed = append(e.closed, ended...)
	if n := len(e.closed) - e.opts.History; n > 0 {
		e.closed = slices.Delete(e.closed, 0, n)
	}
	return ended
}

// Records returns the findings: the open ones, most severe and then newest
// first, and after them the closed ones, newest first.
func (e *Engine) Records() []Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Record, 0, len(e.open)+len(e.closed))
	for _, r := range e.open {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(b.Severity.rank(), a.Severity.rank()), b.Since.Compare(a.Since), strings.Compare(a.ID, b.ID))
	})
	for _, r := range slices.Backward(e.closed) {
		out = append(out, r)
	}
	return out
}

// Rules returns each rule with the outcome of its last evaluation, in the
// order of the list.
func (e *Engine) Rules() []RuleStat {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.stats)
}

// readings finds out whether metrics have readings, once for each metric and
// window of an evaluation.
type readings struct {
	engine *Engine
	at     time.Time
	seen   map[reading]string
}

type reading struct {
	metric string
	window time.Duration
}

// missing says why a rule cannot be run on a metric; "" when it can. One reading
// is not enough: a rate needs two.
func (r readings) missing(ctx context.Context, metric string, window time.Duration) string {
	k := reading{metric, window}
	if why, ok := r.seen[k]; ok {
		return why
	}
	why := r.ask(ctx, metric, window)
	r.seen[k] = why
	return why
}

func (r readings) ask(ctx context.Context, metric string, window time.Duration) string {
	points, err := r.engine.q.Query(ctx, fmt.Sprintf("max(count_over_time(%s[%s]))", metric, PromDuration(window)), r.at)
	switch {
	case err != nil:
		return err.Error()
	case len(points) > 0 && points[0].Value >= 2:
		return ""
	case len(points) > 0:
		return fmt.Sprintf("%s has only one reading in the last %s", metric, PromDuration(window))
	}
	why := fmt.Sprintf("%s has no reading in the last %s", metric, PromDuration(window))
	if r.engine.opts.Absent != nil {
		if reason := r.engine.opts.Absent(metric); reason != "" {
			why += ": " + reason
		}
	}
	return why
}

// PromDuration writes a duration as PromQL does ("5m", "90s", "1500ms").
func PromDuration(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Minute, "m"}, {time.Second, "s"}} {
		if d%u.size == 0 {
			return fmt.Sprintf("%d%s", d/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
}

// join appends to the evidence of the short window what only the long one has.
func join(short, long []Evidence) []Evidence {
	out := slices.Clone(short)
	for _, ev := range long {
		if !slices.ContainsFunc(out, func(o Evidence) bool { return o.Expr == ev.Expr }) {
			out = append(out, ev)
		}
	}
	return out
}

func id(k key, at time.Time) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d", k.rule, k.subject, at.UnixNano())
	return fmt.Sprintf("%016x", h.Sum64())
}

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{Info, Warning, Critical}, s) }
