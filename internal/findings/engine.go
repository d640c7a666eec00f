package findings

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/tee"
)

// Windows are the two sliding windows of a rule. The long one shows whether the cause
// matters, the short one whether it is present now; the method is that of
// multi-window alerts
// (https://sre.google/workbook/alerting-on-slos/, number 5).
type Windows struct{ Long, Short time.Duration }

// Options configure an Engine.
type Options struct {
	// Now is the clock, Started the beginning of observation; both are needed. Until the
	// long window has passed since Started, the short window decides alone.
	Now     func() time.Time
	Started time.Time
	Facts   []tee.Facts
	Windows Windows
	// Interval is the longest time between two readings of the rules' metrics. Windows
	// that would hold fewer than four readings are lengthened until they do.
	Interval time.Duration
	// PerRule replaces Windows for the rules it names.
	PerRule map[string]Windows
	// Limits are the users' settings of thresholds.
	Limits []Limit
	// Every is the time between two evaluations.
	Every time.Duration
	// CloseAfter is how long a cause must be absent before its finding closes.
	CloseAfter time.Duration
	// History is the number of closed findings that are kept.
	History int
	// Past are the findings of earlier runs. An open one keeps its id when its rule
	// holds within the closing delay after the first evaluation; otherwise it closes at
	// the time it was last seen.
	Past []Record
	// Silences mark findings. May be nil.
	Silences *Silences
	// Absent returns why a metric has no series, "" when unknown. May be nil.
	Absent func(metric string) string
	// Observe receives every finding that opens or closes. May be nil.
	Observe func(Record)
	// Evaluated receives, after each evaluation, the findings that it opened and closed,
	// and all open ones. May be nil.
	Evaluated func(changed, open []Record)
}

// longestGap is the longest gap in observation across which an open finding keeps its
// id; a longer gap splits it in two.
const longestGap = time.Hour

// DefaultOptions are all options that have a default.
func DefaultOptions() Options {
	return Options{
		Windows:    Windows{Long: 5 * time.Minute, Short: time.Minute},
		Every:      15 * time.Second,
		CloseAfter: time.Minute,
		History:    200,
	}
}

// Engine evaluates rules and keeps the findings. Its methods may be called from
// several goroutines.
type Engine struct {
	q     Querier
	pace  chan time.Duration // the time between two evaluations has changed
	rules []*Rule            // changed with both locks held, as is the part of opts that Use changes
	opts  Options

	running sync.Mutex        // held during an evaluation
	witness map[string]string // metric -> a series that had readings; only touched by an evaluation
	first   time.Time         // of the first evaluation; only touched by an evaluation
	settled bool              // findings of rules that are gone have ended; guarded by running

	mu     sync.Mutex // guards what follows
	open   map[key]*Record
	past   map[key]bool      // open ones of earlier runs that were not seen yet
	began  map[key]time.Time // since when the short window has held without a break
	closed []Record          // newest last
	forgot time.Time         // end of the newest closed finding that is remembered no more
	stats  []RuleStat
}

// key identifies a finding among the open ones.
type key struct{ rule, subject string }

// New returns an engine that has not evaluated anything yet and knows the findings
// of Options.Past.
func New(rules []*Rule, q Querier, opts Options) *Engine {
	e := &Engine{q: q, pace: make(chan time.Duration, 1), rules: rules, opts: opts, witness: map[string]string{},
		open: map[key]*Record{}, past: map[key]bool{}, began: map[key]time.Time{}}
	e.stats = e.unanswered()
	for _, r := range opts.Past {
		switch k := (key{r.Rule, r.Subject}); {
		case r.State == Open:
			e.open[k], e.past[k] = &r, true
		case r.Until != nil:
			e.closed = append(e.closed, r)
		}
	}
	e.forget()
	return e
}

// unanswered are the stats of rules that were not evaluated yet.
func (e *Engine) unanswered() []RuleStat {
	var out []RuleStat
	for _, r := range e.rules {
		w := e.windows(r)
		out = append(out, RuleStat{
			Name: r.Name, Title: r.Title, Doc: r.Doc,
			Answer: CannotTell, Reason: "not evaluated yet",
			Windows: [2]float64{w.Long.Seconds(), w.Short.Seconds()},
		})
	}
	return out
}

// Use replaces the rules, and the interval, windows, limits, Every and CloseAfter of
// the options, after the running evaluation. An open finding keeps its id while its
// rule exists and holds; one whose rule is gone ends with the next evaluation.
func (e *Engine) Use(rules []*Rule, o Options) {
	e.running.Lock()
	defer e.running.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.Every != e.opts.Every {
		select {
		case <-e.pace: // an older one that Run has not read
		default:
		}
		e.pace <- o.Every
	}
	e.rules, e.settled = rules, false
	e.opts.Interval, e.opts.Windows, e.opts.PerRule = o.Interval, o.Windows, o.PerRule
	e.opts.Limits, e.opts.Every, e.opts.CloseAfter = o.Limits, o.Every, o.CloseAfter
	next := e.unanswered()
	for i, s := range next {
		if j := slices.IndexFunc(e.stats, func(old RuleStat) bool { return old.Name == s.Name }); j >= 0 {
			next[i].Answer, next[i].Reason, next[i].At = e.stats[j].Answer, e.stats[j].Reason, e.stats[j].At
		}
	}
	e.stats = next
	maps.DeleteFunc(e.began, func(k key, _ time.Time) bool { return !e.knows(k.rule) })
}

func (e *Engine) knows(rule string) bool {
	return slices.ContainsFunc(e.rules, func(r *Rule) bool { return r.Name == rule })
}

func (e *Engine) windows(r *Rule) Windows {
	w, ok := e.opts.PerRule[r.Name]
	if !ok {
		w = e.opts.Windows
	}
	// A rule also looks at a half of its window, and a rate takes two readings.
	if least := 4 * e.opts.Interval; w.Short < least {
		return Windows{Long: time.Duration(float64(w.Long) * (least.Seconds() / w.Short.Seconds())), Short: least}
	}
	return w
}

// Run evaluates all rules at every tick until the context ends, and returns the
// context's error. Readings start at the same time with the same period, so ticks
// follow a quarter of an interval later: an evaluation never sees a half-written
// reading, and its queries give the same numbers again.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	every, after := e.opts.Every, min(e.opts.Every, e.opts.Interval)/4
	e.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case every := <-e.pace:
			tick.Reset(every)
		case <-tick.C:
			if ctx.Err() == nil { // both cases may be ready
				e.Evaluate(ctx)
			}
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
	var changed []Record
	if e.first.IsZero() {
		e.first = at
	}
	if !e.settled {
		changed, e.settled = e.disown(at), true
	}
	for i, r := range e.rules {
		v := e.judge(ctx, r, at)
		if ctx.Err() != nil {
			break // a rule that was cut short has no answer
		}
		changed = append(changed, e.settle(i, v, at)...)
	}
	if e.opts.Observe != nil {
		for _, rec := range changed {
			e.opts.Observe(rec)
		}
	}
	if e.opts.Evaluated != nil {
		e.mu.Lock()
		open := e.stillOpen()
		e.mu.Unlock()
		e.opts.Evaluated(changed, open)
	}
}

// verdict is the outcome of one evaluation of a rule.
type verdict struct {
	unknown string // why it was not checked; "" when it was
	short   map[string]Finding
	long    map[string]Finding // nil while the monitor is young
}

func (e *Engine) judge(ctx context.Context, r *Rule, at time.Time) verdict {
	w := e.windows(r)
	for _, name := range r.Needs {
		if why := e.missing(ctx, name, w.Short, at); why != "" {
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
	p := &Pass{Querier: e.q, Rule: r, From: from, To: to, Interval: e.opts.Interval, Facts: e.opts.Facts, limits: e.opts.Limits, Report: func(f Finding) {
		f.Rule = r.Name
		f.Confidence = cmp.Or(f.Confidence, High)
		f.Remedy = cmp.Or(f.Remedy, r.Remedy)
		f.Reference = cmp.Or(f.Reference, r.Reference)
		f.Evidence = slices.DeleteFunc(f.Evidence, func(ev Evidence) bool { return math.IsNaN(ev.Value) || math.IsInf(ev.Value, 0) }) // no number
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
		delete(e.past, k)
		if !isOpen {
			changed = append(changed, e.marked(*rec))
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

// close ends the findings of a rule that were not seen for the closing delay, because
// the cause is gone or the rule is no longer checked.
func (e *Engine) close(r *Rule, at time.Time) []Record {
	return e.end(at, func(k key, rec *Record) bool {
		last := rec.LastSeen
		if e.past[k] {
			last = e.first // nobody watched before
		}
		return k.rule == r.Name && at.Sub(last) >= e.opts.CloseAfter
	})
}

// disown ends the findings that cannot continue: their rule is gone, or the gap in
// observation is too long.
func (e *Engine) disown(at time.Time) []Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.end(at, func(k key, rec *Record) bool {
		return !e.knows(k.rule) || at.Sub(rec.LastSeen) > longestGap
	})
}

// end closes the open findings that which selects; e.mu is held.
func (e *Engine) end(at time.Time, which func(key, *Record) bool) (ended []Record) {
	for k, rec := range e.open {
		if !which(k, rec) {
			continue
		}
		until := at
		if e.past[k] {
			until = rec.LastSeen
		}
		out := e.marked(*rec)
		out.State, out.Until = Closed, &until
		delete(e.open, k)
		delete(e.past, k)
		ended = append(ended, out)
	}
	slices.SortFunc(ended, func(a, b Record) int { return strings.Compare(a.Subject, b.Subject) })
	e.closed = append(e.closed, ended...)
	e.forget()
	return ended
}

// forget keeps the newest of the closed findings.
func (e *Engine) forget() {
	slices.SortStableFunc(e.closed, func(a, b Record) int { return a.Until.Compare(*b.Until) })
	if n := len(e.closed) - e.opts.History; n > 0 {
		e.forgot = *e.closed[n-1].Until
		e.closed = slices.Delete(e.closed, 0, n)
	}
}

// marked adds the silence that covers an open finding now.
func (e *Engine) marked(r Record) Record {
	r.Silenced = e.opts.Silences.Covering(r.Finding)
	return r
}

// stillOpen returns the open findings, in Sort's order; e.mu is held.
func (e *Engine) stillOpen() []Record {
	out := make([]Record, 0, len(e.open)+len(e.closed))
	for _, r := range e.open {
		out = append(out, e.marked(*r))
	}
	Sort(out)
	return out
}

// Records returns the findings, open and closed, in Sort's order.
func (e *Engine) Records() []Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := append(e.stillOpen(), e.closed...)
	Sort(out)
	return out
}

// Complete reports whether Records has every finding that was open at a time or
// later; the zero time is before all.
func (e *Engine) Complete(from time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.forgot.IsZero() || from.After(e.forgot)
}

// Rules returns each rule with the outcome of its last evaluation, in the
// order of the list.
func (e *Engine) Rules() []RuleStat {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.stats)
}

// missing returns why a rule cannot run on a metric, "" when it can. One reading is
// not enough, because a rate needs two. One series is enough, so the check is cheap
// while the series that had readings last time still has some.
func (e *Engine) missing(ctx context.Context, metric string, window time.Duration, at time.Time) string {
	w := PromDuration(window)
	if series, ok := e.witness[metric]; ok {
		points, err := e.q.Query(ctx, fmt.Sprintf("count_over_time(%s[%s]) >= 2", series, w), at)
		if err == nil && len(points) > 0 {
			return ""
		}
		delete(e.witness, metric)
	}
	points, err := e.q.Query(ctx, fmt.Sprintf("topk(1, count_over_time(%s[%s]))", metric, w), at)
	switch {
	case err != nil:
		return err.Error()
	case len(points) > 0 && points[0].Value >= 2:
		e.witness[metric] = Selector(metric, points[0].Labels)
		return ""
	case len(points) > 0:
		return fmt.Sprintf("needs %s: only one reading in the last %s", metric, w)
	}
	why := fmt.Sprintf("needs %s: no reading in the last %s", metric, w)
	if e.opts.Absent != nil {
		if reason := e.opts.Absent(metric); reason != "" {
			why += ": " + reason
		}
	}
	return why
}

// Selector writes metric{name="value",...} as PromQL does, ordered by name.
func Selector(metric string, labels map[string]string) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", name, labels[name])
	}
	return metric + "{" + b.String() + "}"
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

// AtLeast reports whether s is as severe as o or more.
func (s Severity) AtLeast(o Severity) bool { return s.rank() >= o.rank() }

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{Info, Warning, Critical}, s) }
