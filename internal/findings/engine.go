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
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
	"github.com/teescope/teescope/internal/tee"
)

// Windows are the two sliding windows of a rule. The long one shows whether the cause matters,
// the short one whether it is present now; the method is that of multi-window alerts
// (https://sre.google/workbook/alerting-on-slos/, number 5).
type Windows struct{ Long, Short time.Duration }

// Options configure an Engine.
type Options struct {
	// Now is the clock, Started the beginning of observation; both are needed. Until the
	// long window has passed since Started, the short window decides alone, and until that
	// has passed, the time since Started does, from four readings on.
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
	// LeastObserved is the shortest window of a young monitor; 0 is 20 s, which holds four readings at the default
	// interval.
	LeastObserved time.Duration
	// Every is the time between two evaluations.
	Every time.Duration
	// Slowed is how many times less often to evaluate patient rules now. It is followed as far as each still
	// runs once in its short window. May be nil.
	Slowed func() int
	// Source returns the source of a metric, "" when unknown. Without it no subject is known to have ended. May be nil.
	Source func(metric string) string
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
	// Failure returns the error of a target's last scrape, "" without one. May be nil.
	Failure func(job, instance string) string
	// Own is the machine of this monitor, and Refusing says why its samples are not stored now; nil while they are. May be nil.
	Own      query.Machine
	Refusing func() error
	// Places returns where a machine's processes may run now, by name; nil when unknown. May be nil.
	Places func(query.Machine) map[string]rivals.Place
	// Observe receives every finding that opens or closes. May be nil.
	Observe func(Record)
	// Evaluated receives, after each evaluation, the findings that it opened and closed,
	// and all open ones. May be nil.
	Evaluated func(changed, open []Record)
}

// ownYouth is the time after the monitor's start in which only critical findings about itself open: a start costs more
// than running does.
const ownYouth = 2 * time.Minute

// ownPrograms are the names of the processes that are teescope.
var ownPrograms = []string{"teescope", "teescope-agent"}

// longestGap is the longest gap in observation across which an open finding keeps its
// id; a longer gap splits it in two.
const longestGap = time.Hour

// leastObserved is the shortest window of a young monitor: it holds four readings at the default interval.
const leastObserved = 20 * time.Second

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
	pace chan time.Duration // the time between two evaluations has changed
	read chan struct{}      // a reading has been stored
	// running is locked during an evaluation, and before book.
	running locked.Value[evaluation]
	book    locked.Value[book]
}

// evaluation is what an evaluation needs, and what it keeps for the next one.
type evaluation struct {
	q       query.Querier
	rules   []*Rule
	opts    Options
	witness map[string]string // metric -> a series that had readings
	first   time.Time         // of the first evaluation
	last    time.Time         // of the last one
	settled bool              // findings of rules that are gone have ended
	skipped time.Duration     // the time before an evaluation of patient rules in which others were left out
}

// book holds the findings, and the last answer of each rule.
type book struct {
	open  map[key]*Record
	past  map[key]bool      // open ones of earlier runs that have not reappeared yet
	began map[key]time.Time // since when the short window has held without a break
	// lived are open findings whose subject was in a reading of this run, missing in how many readings in a row a
	// subject was not.
	lived   map[key]bool
	missing map[key]int
	closed  []Record       // newest last
	most    int            // limit of closed
	forgot  time.Time      // end of the newest forgotten finding
	stats   []RuleStat     // in the order of the rules
	took    *time.Duration // by the last evaluation; nil before
	// silences mark findings. May be nil.
	silences *Silences
	now      func() time.Time
	fresh    time.Duration // the age up to which a value is of now
}

// key identifies a finding among the open ones.
type key struct {
	rule string
	who
}

// who identifies a finding among those of its rule.
type who struct {
	query.Machine
	subject string
	unit    string
}

func whoOf(f Finding) who { return who{f.Machine, f.Subject, f.Unit} }

func keyOf(f Finding) key { return key{f.Rule, whoOf(f)} }

func (w who) compare(o who) int {
	return cmp.Or(strings.Compare(w.subject, o.subject), strings.Compare(w.unit, o.unit), strings.Compare(w.Instance, o.Instance), strings.Compare(w.Job, o.Job))
}

// New returns an engine that has not evaluated yet. It knows the findings of Options.Past.
func New(rules []*Rule, q query.Querier, opts Options) *Engine {
	v := evaluation{q: q, rules: rules, opts: opts, witness: map[string]string{}}
	b := book{open: map[key]*Record{}, past: map[key]bool{}, began: map[key]time.Time{},
		lived: map[key]bool{}, missing: map[key]int{},
		most: opts.History, stats: v.unanswered(), silences: opts.Silences, now: opts.Now, fresh: opts.fresh()}
	for _, r := range opts.Past {
		if i := slices.IndexFunc(rules, func(known *Rule) bool { return known.Name == r.Rule }); i >= 0 {
			rules[i].classify(&r.Finding) // an earlier version kept no roles
		}
		switch k := keyOf(r.Finding); {
		case r.State == Open:
			b.open[k], b.past[k] = &r, true
		case r.Until != nil:
			b.closed = append(b.closed, r)
		}
	}
	b.forget()
	return &Engine{pace: make(chan time.Duration, 1), read: make(chan struct{}, 1), running: locked.New(v), book: locked.New(b)}
}

// unanswered returns the stats of rules that have not been evaluated yet.
func (v *evaluation) unanswered() []RuleStat {
	var out []RuleStat
	for _, r := range v.rules {
		w := v.windows(r)
		out = append(out, RuleStat{
			Name: r.Name, Title: r.Title, Doc: r.Doc, Needs: r.Needs,
			Answer: CannotTell, Reason: "not evaluated yet",
			Windows: [2]float64{w.Long.Seconds(), w.Short.Seconds()},
		})
	}
	return out
}

// Reconfigure replaces the rules, and the interval, windows, limits, Every and CloseAfter of the options, after the running
// evaluation. An open finding keeps its id while its rule exists and holds. If its rule is gone, it ends with the
// next evaluation.
func (e *Engine) Reconfigure(rules []*Rule, o Options) {
	v := e.running.Lock()
	defer e.running.Unlock()
	b := e.book.Lock()
	defer e.book.Unlock()
	if o.Every != v.opts.Every {
		select {
		case <-e.pace: // an older one that Run has not read
		default:
		}
		e.pace <- o.Every
	}
	v.rules, v.settled = rules, false
	v.opts.Interval, v.opts.Windows, v.opts.PerRule = o.Interval, o.Windows, o.PerRule
	v.opts.Limits, v.opts.Every, v.opts.CloseAfter = o.Limits, o.Every, o.CloseAfter
	b.fresh = o.fresh()
	next := v.unanswered()
	for i, s := range next {
		if j := slices.IndexFunc(b.stats, func(old RuleStat) bool { return old.Name == s.Name }); j >= 0 {
			next[i].Answer, next[i].Reason, next[i].At = b.stats[j].Answer, b.stats[j].Reason, b.stats[j].At
		}
	}
	b.stats = next
	maps.DeleteFunc(b.began, func(k key, _ time.Time) bool { return !v.hasRule(k.rule) })
}

func (v *evaluation) hasRule(rule string) bool {
	return slices.ContainsFunc(v.rules, func(r *Rule) bool { return r.Name == rule })
}

func (v *evaluation) windows(r *Rule) Windows {
	w, ok := v.opts.PerRule[r.Name]
	if !ok {
		w = v.opts.Windows
	}
	// A rule also queries half of its window, and a rate needs two readings.
	if least := 4 * v.opts.Interval; w.Short < least {
		return Windows{Long: time.Duration(float64(w.Long) * (least.Seconds() / w.Short.Seconds())), Short: least}
	}
	return w
}

// Run evaluates all rules at every tick, patient ones less often while the budget is short, and looks at each reading,
// until the context ends. It returns the context's error. Readings start at the same time with the same period, so ticks
// follow a quarter of an interval later: an evaluation never sees a half-written
// reading, and its queries give the same numbers again.
func (e *Engine) Run(ctx context.Context) error {
	v := e.running.Lock()
	every, after := v.opts.Every, min(v.opts.Every, v.opts.Interval)/4
	e.running.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for skipped := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case every := <-e.pace:
			tick.Reset(every)
		case <-e.read:
			e.CheckSubjects(ctx)
		case <-tick.C:
			if ctx.Err() != nil { // both cases may be ready
				return ctx.Err()
			}
			all := false
			if skipped++; skipped >= e.times() {
				skipped, all = 0, true
			}
			e.evaluate(ctx, all)
		}
	}
}

// times is how many times less often than Every to evaluate patient rules.
func (e *Engine) times() int {
	v := e.running.TryLock()
	if v == nil {
		return 1 // an evaluation is under way, and another does nothing
	}
	defer e.running.Unlock()
	n := 1
	if v.opts.Slowed != nil {
		n = v.opts.Slowed()
		for _, r := range v.rules {
			if r.Patient {
				n = min(n, int(v.windows(r).Short/v.opts.Every))
			}
		}
		n = max(1, n)
	}
	v.skipped = time.Duration(n-1) * v.opts.Every
	return n
}

// Evaluate runs every rule once, at the time of the clock. A call during
// another evaluation does nothing.
func (e *Engine) Evaluate(ctx context.Context) { e.evaluate(ctx, true) }

// evaluate is Evaluate, of all rules or of those that are not patient.
func (e *Engine) evaluate(ctx context.Context, all bool) {
	v := e.running.TryLock()
	if v == nil {
		return
	}
	defer e.running.Unlock()
	at := v.opts.Now()
	var changed []Record
	if v.first.IsZero() {
		v.first = at
	}
	v.rewind(e.book.Lock(), at)
	e.book.Unlock()
	if !v.settled {
		changed, v.settled = e.book.Lock().disown(v, at), true
		e.book.Unlock()
	}
	for i, r := range v.rules {
		if r.Patient && !all {
			continue
		}
		settled := e.book.Lock().settled(r)
		e.book.Unlock()
		answer := v.judge(ctx, r, at)
		if answer.unknown == "" {
			answer.early = v.findEarly(ctx, r, settled, at)
		}
		if ctx.Err() != nil {
			break // a rule that was cut short has no answer
		}
		changed = append(changed, e.book.Lock().settle(v, i, answer, at)...)
		e.book.Unlock()
	}
	took := max(0, v.opts.Now().Sub(at))
	e.book.Lock().took = &took
	e.book.Unlock()
	e.publishChanges(v, changed)
}

// publishChanges passes on what an evaluation or a look has changed.
func (e *Engine) publishChanges(v *evaluation, changed []Record) {
	if v.opts.Observe != nil {
		for _, rec := range changed {
			v.opts.Observe(rec)
		}
	}
	if v.opts.Evaluated != nil {
		open := e.book.Lock().stillOpen()
		e.book.Unlock()
		v.opts.Evaluated(changed, open)
	}
}

// verdict is the outcome of one evaluation of a rule.
type verdict struct {
	unknown string // why it was not checked; "" when it was
	near    []Near // by the short window
	short   map[who]Finding
	long    map[who]Finding // nil while the monitor is young
	early   map[who]Finding // over the early window, where the others are not met
	// started is when the subjects started, where that is known.
	started map[who]time.Time
}

func (v *evaluation) judge(ctx context.Context, r *Rule, at time.Time) verdict {
	w := v.windows(r)
	for _, name := range r.Needs {
		if why := v.missing(ctx, name, w.Short, at); why != "" {
			return verdict{unknown: why}
		}
	}
	var out verdict
	var err error
	short := w.Short
	if age := at.Sub(v.opts.Started); age >= max(4*v.opts.Interval, cmp.Or(v.opts.LeastObserved, leastObserved)) {
		short = min(short, age.Truncate(time.Second)) // a rate over time before the first reading is too low
	}
	if out.short, out.near, err = v.pass(ctx, r, at.Add(-short), at); err != nil {
		return verdict{unknown: err.Error()}
	}
	if err := v.byOwnLife(ctx, r, &out, short, at); err != nil {
		return verdict{unknown: err.Error()}
	}
	if at.Sub(v.opts.Started) < w.Long || len(out.short) == 0 {
		return out
	}
	if out.long, _, err = v.pass(ctx, r, at.Add(-w.Long), at); err != nil {
		return verdict{unknown: err.Error()}
	}
	return out
}

// pass runs a rule on one window and returns its findings, and what is near one.
func (v *evaluation) pass(ctx context.Context, r *Rule, from, to time.Time) (map[who]Finding, []Near, error) {
	return v.run(ctx, r, &Pass{From: from, To: to})
}

// run completes a pass and runs a rule on it.
func (v *evaluation) run(ctx context.Context, r *Rule, p *Pass) (map[who]Finding, []Near, error) {
	found := map[who]Finding{}
	p.own, p.refuse = v.opts.Own, v.opts.Refusing
	p.Querier, p.Rule, p.Interval, p.Facts, p.limits, p.failure, p.places = v.q, r, v.opts.Interval, v.opts.Facts, v.opts.Limits, v.opts.Failure, v.opts.Places
	p.Report = func(f Finding) {
		f.Rule = r.Name
		f.Confidence = cmp.Or(f.Confidence, High)
		f.Remedy = cmp.Or(f.Remedy, r.Remedy)
		f.Reference = cmp.Or(f.Reference, r.Reference)
		r.classify(&f)
		if f.Share == nil {
			f.ShareOf = ""
		} else if f.ShareOf == "" {
			f.ShareOf = timeInUse
		}
		if f.byHarm = harmful(f); f.byHarm {
			f.Severity = severityOfHarm(*f.Share, f.Confidence, "")
		}
		if f.Unit != "" {
			f.RunsIn = []string{f.Unit}
		} else if v.opts.Places != nil && f.Severity != Info && f.isOfProcess() { // of a process; what is information is often always open, and a look at all processes is not free
			f.RunsIn = v.opts.Places(f.Machine)[ProcessOf(f)].Homes
		}
		f.Evidence = slices.DeleteFunc(f.Evidence, func(ev query.Evidence) bool { return math.IsNaN(ev.Value) || math.IsInf(ev.Value, 0) }) // JSON has no NaN and no infinity
		v.bound(ctx, p, &f)
		found[whoOf(f)] = f
	}
	if err := contain.Call("rule "+r.Name, func() error { return r.Run(ctx, p) }); err != nil {
		return nil, nil, err
	}
	return found, p.near, nil
}

// isOfProcess reports whether a finding is about a process.
func (f Finding) isOfProcess() bool { return strings.HasPrefix(f.Life, query.StartTime+"{") }

// settle updates the findings of rule i from its answer and returns those that opened or closed.
func (b *book) settle(v *evaluation, i int, answer verdict, at time.Time) (changed []Record) {
	r := v.rules[i]
	young := at.Sub(v.opts.Started) < v.windows(r).Long
	stat := &b.stats[i]
	stat.At, stat.Answer, stat.Reason, stat.Near = at, Silent, "", answer.near

	for _, w := range slices.SortedFunc(maps.Keys(answer.short), who.compare) {
		k := key{r.Name, w}
		if _, ok := b.began[k]; !ok {
			b.began[k] = at
		}
		rec, isOpen := b.open[k]
		long, both := answer.long[w]
		started, known := answer.started[w]
		f := answer.short[w]
		// How teescope's process is starved while it starts pages nobody. Later it is a process like others: anybody may give a process this name.
		own := slices.Contains(ownPrograms, f.Local())
		if r.Role == RoleMonitor {
			own = f.Severity == Warning
		}
		if !isOpen && own && at.Sub(v.opts.Started) < ownYouth {
			continue
		}
		met := both || young || known && at.Sub(started) < v.windows(r).Long
		if !isOpen && !met {
			continue
		}
		stat.Answer = Fires
		f.Evidence = join(f.Evidence, long.Evidence)
		if isOpen && f.byHarm {
			f.Severity = severityOfHarm(*f.Share, f.Confidence, rec.Severity)
		}
		if !isOpen {
			rec = &Record{ID: id(k, at), State: Open, Since: b.began[k]}
			b.open[k] = rec
		}
		confirmed := rec.Early && met
		rec.Early = rec.Early && !met
		b.refresh(k, rec, f, at)
		if !isOpen || confirmed {
			changed = append(changed, b.marked(*rec))
		}
	}
	changed = append(changed, b.openEarly(i, r, answer.early, v.earlySince(r, at), at)...)
	for k := range b.began {
		if _, holds := answer.short[k.who]; k.rule == r.Name && !holds {
			delete(b.began, k)
		}
	}
	if answer.unknown != "" {
		stat.Answer, stat.Reason = CannotTell, answer.unknown
	}
	return append(changed, b.close(v, r, at)...)
}

// refresh brings an open finding up to date.
func (b *book) refresh(k key, rec *Record, f Finding, at time.Time) {
	rec.Finding, rec.LastSeen, rec.Ended = f, at, nil
	delete(b.missing, k)
	b.lived[k] = true
	delete(b.past, k)
}

// close ends the findings of a rule that have been absent for the closing delay: the cause is gone, or the rule is no
// longer checked. After they were last seen, they may have held in the evaluations that were skipped.
func (b *book) close(v *evaluation, r *Rule, at time.Time) []Record {
	return b.closeOpen(at, func(k key, rec *Record) bool {
		last := rec.LastSeen
		if b.past[k] {
			last = v.first // nobody watched before
		}
		skipped := v.skipped
		if !r.Patient {
			skipped = 0
		}
		return k.rule == r.Name && at.Sub(last) >= v.opts.CloseAfter+skipped
	})
}

// disown ends the findings that cannot continue: their rule is gone, or the gap in
// observation is too long.
func (b *book) disown(v *evaluation, at time.Time) []Record {
	return b.closeOpen(at, func(k key, rec *Record) bool {
		return !v.hasRule(k.rule) || gap(rec.LastSeen, at)
	})
}

// closeOpen closes the open findings that which selects.
func (b *book) closeOpen(at time.Time, which func(key, *Record) bool) (ended []Record) {
	for k, rec := range b.open {
		if !which(k, rec) {
			continue
		}
		until := at
		switch {
		case rec.Ended == nil && b.past[k] || gap(rec.LastSeen, at): // nobody watched since
			until = rec.LastSeen
		case rec.Ended != nil:
			until = *rec.Ended
		}
		out := *rec
		out.Silenced = b.silences.Covering(rec.Finding)
		out.State, out.Until = Closed, &until
		delete(b.open, k)
		delete(b.past, k)
		delete(b.lived, k)
		delete(b.missing, k)
		ended = append(ended, out.WithSentence(at, b.fresh))
	}
	slices.SortFunc(ended, func(a, b Record) int { return whoOf(a.Finding).compare(whoOf(b.Finding)) })
	b.closed = append(b.closed, ended...)
	b.forget()
	return ended
}

// forget drops the oldest closed findings beyond the limit.
func (b *book) forget() {
	slices.SortStableFunc(b.closed, func(x, y Record) int { return x.Until.Compare(*y.Until) })
	if n := len(b.closed) - b.most; n > 0 {
		b.forgot = *b.closed[n-1].Until
		b.closed = slices.Delete(b.closed, 0, n)
	}
}

// marked returns an open record with the silence that now covers it, and its sentence of now.
func (b *book) marked(r Record) Record {
	r.Silenced = b.silences.Covering(r.Finding)
	return r.WithSentence(b.now(), b.fresh)
}

// stillOpen returns the open findings, in Sort's order.
func (b *book) stillOpen() []Record {
	out := make([]Record, 0, len(b.open)+len(b.closed))
	for _, r := range b.open {
		out = append(out, b.marked(*r))
	}
	Sort(out)
	return out
}

// Records returns the findings, open and closed, in Sort's order.
func (e *Engine) Records() []Record {
	b := e.book.Lock()
	defer e.book.Unlock()
	out := b.stillOpen()
	for _, r := range b.closed {
		out = append(out, r.WithSentence(b.now(), b.fresh))
	}
	Sort(out)
	return out
}

// Complete reports whether Records has every finding that was open at from or later; the zero time means all findings
// ever.
func (e *Engine) Complete(from time.Time) bool {
	b := e.book.Lock()
	defer e.book.Unlock()
	return b.forgot.IsZero() || from.After(b.forgot)
}

// Rules returns each rule with the outcome of its last evaluation, in the
// order of the list.
func (e *Engine) Rules() []RuleStat {
	held := e.book.Lock()
	defer e.book.Unlock()
	return slices.Clone(held.stats)
}

// EvaluationTime returns how long the last evaluation of all rules took; ok is false before the first.
func (e *Engine) EvaluationTime() (d time.Duration, ok bool) {
	held := e.book.Lock()
	defer e.book.Unlock()
	if took := held.took; took != nil {
		return *took, true
	}
	return 0, false
}

// missing returns why a rule cannot run on a metric, "" when it can. A rate needs two readings, so one is not enough.
// One series is enough, so the check is cheap while the series that had readings last time still has some.
func (v *evaluation) missing(ctx context.Context, metric string, window time.Duration, at time.Time) string {
	w := query.PromDuration(window)
	if series, ok := v.witness[metric]; ok {
		points, err := v.q.Query(ctx, fmt.Sprintf("count_over_time(%s[%s]) >= 2", series, w), at)
		if err == nil && len(points) > 0 {
			return ""
		}
		delete(v.witness, metric)
	}
	points, err := v.q.Query(ctx, fmt.Sprintf("topk(1, count_over_time(%s[%s]))", metric, w), at)
	switch {
	case err != nil:
		return err.Error()
	case len(points) > 0 && points[0].Value >= 2:
		v.witness[metric] = query.Selector(metric, points[0].Labels)
		return ""
	case len(points) > 0:
		return fmt.Sprintf("the metric %s has only one reading in the last %s", metric, w)
	}
	why := fmt.Sprintf("the metric %s has no reading in the last %s", metric, w)
	if v.opts.Absent != nil {
		if reason := v.opts.Absent(metric); reason != "" {
			why += ": " + reason
		}
	}
	return why
}

// join appends the evidence that only the long window has.
func join(short, long []query.Evidence) []query.Evidence {
	out := slices.Clone(short)
	for _, ev := range long {
		if !slices.ContainsFunc(out, func(o query.Evidence) bool { return o.Expr == ev.Expr }) {
			out = append(out, ev)
		}
	}
	return out
}

func id(k key, at time.Time) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%d", k.rule, k.Job, k.Instance, k.subject, at.UnixNano())
	if k.unit != "" {
		fmt.Fprintf(h, "\x00%s", k.unit)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// AtLeast reports whether s is at least as severe as o.
func (s Severity) AtLeast(o Severity) bool { return s.rank() >= o.rank() }

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{Info, Warning, Critical}, s) }
