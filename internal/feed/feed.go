// Package feed answers the queries that open pages repeat. Each is evaluated once,
// however many pages ask it, and then only for the steps that are new. It keeps what it
// evaluated for a while, in bounded memory; it knows nothing of HTTP or of PromQL.
package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
)

// Query asks an expression at every step from From to To, both included, or only at To
// if Step is 0.
type Query struct {
	Expr     string
	From, To time.Time
	Step     time.Duration
	// Since is the first step whose values are wanted; before From, or zero, it is From.
	Since time.Time
	// Top keeps the lines with the largest sums over the whole window and adds up the
	// others; 0 keeps all.
	Top int
	// Known is the Set of the answer that the values before Since are from: with another set
	// at the top, all values are wanted.
	Known string
}

// Answer is what a query gives.
type Answer struct {
	// Since is the time of the first value of each line.
	Since time.Time
	Lines []metric.Line
	// Rest is the sum of the Folded lines that are not among the top; nil without any.
	Rest   *metric.Line
	Folded int
	// Set names the lines that are at the top, whatever their order.
	Set string
	// Warnings say what was not counted in the window.
	Warnings []string
}

// Options are what a feed needs of the store.
type Options struct {
	// Evaluate returns an expression's lines at every step, and warnings about them.
	Evaluate func(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error)
	// Notes returns what sources did not count of an expression's data in a span of time.
	Notes func(ctx context.Context, expr string, from, to time.Time) []string
	// Meter runs a function and adds its CPU time to that of pages; nil only runs it.
	Meter func(func())
	// Reserve reserves memory in bytes for an answer until it is delivered; nil reserves nothing.
	Reserve func(bytes int64) (release func(), err error)
	Now     func() time.Time
}

const (
	// settles is how long after its time a step may still change, because a sample came
	// late or a recording rule was evaluated later.
	settles = 15 * time.Second
	// fresh is how long steps that may change are served again.
	fresh = 6 * time.Second
	// remembered is how long notes and unused lines are kept.
	remembered = 30 * time.Second
	unused     = 3 * time.Minute
	// atOnce bounds the evaluations that run at a time: pages leave CPUs to the workload.
	atOnce = 2
	// MaxSteps is the most steps of a query, Prometheus' own limit.
	MaxSteps = 11_000
	// keptSteps bounds the length of kept lines: twice a page's longest chart. maxValues
	// bounds all values that are kept, at 8 bytes; maxKept the number of queries.
	keptSteps = 730
	maxValues = 1 << 20
	maxKept   = 1000
)

// Feed keeps lines and extends them. Its methods may be called from several goroutines.
type Feed struct {
	o     Options
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup
	books locked.Value[books]
}

// books are what is kept, and what has to be evaluated.
type books struct {
	kept    map[key]*kept
	queue   []job
	workers int
}

// job is an evaluation for a query.
type job struct {
	k *kept
	q Query
}

// New returns a feed; Close ends it.
func New(o Options) *Feed {
	if o.Meter == nil {
		o.Meter = func(f func()) { f() }
	}
	if o.Reserve == nil {
		o.Reserve = func(int64) (func(), error) { return func() {}, nil }
	}
	f := &Feed{o: o, books: locked.New(books{kept: map[key]*kept{}})}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Close ends running evaluations and waits for them.
func (f *Feed) Close() {
	f.stop()
	f.done.Wait()
}

// key names lines that can be extended by one another.
type key struct {
	expr  string
	step  time.Duration
	phase int64 // of the steps, in ns; the time itself where there is one
}

func (q Query) key() key {
	if q.Step == 0 {
		return key{q.Expr, 0, q.To.UnixNano()}
	}
	return key{q.Expr, q.Step, q.From.UnixNano() % int64(q.Step)}
}

// steps is the number of steps between two times that are a multiple of step apart.
func steps(from, to time.Time, step time.Duration) int {
	if step == 0 {
		return 0
	}
	return int(to.Sub(from) / step)
}

// last is the last step of q.
func (q Query) last() time.Time {
	if q.Step == 0 {
		return q.To
	}
	return q.From.Add(time.Duration(steps(q.From, q.To, q.Step)) * q.Step)
}

// kept is what is known of an expression on one grid. Its fields are reached through the
// lock of the books, except by the one evaluation that is under way.
type kept struct {
	expr     string
	step     time.Duration
	from, to time.Time // the first and the last step, zero before the first evaluation
	settled  time.Time // steps up to this one will not change
	made     time.Time // when the newest steps were evaluated
	used     time.Time
	lines    []metric.Line
	names    []string       // of the lines, by their labels
	at       map[string]int // index of a line by its name
	warnings map[string]bool
	notes    map[time.Duration]note // by length of the window

	busy    bool // an evaluation is under way
	waiting []chan<- struct{}
	failed  failure
}

type note struct {
	to   time.Time
	made time.Time
	text []string
}

// failure is the last evaluation that failed.
type failure struct {
	from, to time.Time
	at       time.Time
	err      error
}

// AnswerQueries answers queries in the order in which answers are ready, and calls waiting when
// none is. Evaluations go on when ctx ends, for the next page that asks; Ask then returns
// its error.
func (f *Feed) AnswerQueries(ctx context.Context, queries []Query, deliver func(i int, a Answer, err error), waiting func()) error {
	began := f.o.Now()
	wake := make(chan struct{}, 1)
	pending := make([]int, len(queries))
	for i := range pending {
		pending[i] = i
	}
	for {
		left := pending[:0]
		for _, i := range pending {
			a, release, err, ok := f.try(queries[i], began, wake)
			if !ok {
				left = append(left, i)
				continue
			}
			func() {
				defer release()
				deliver(i, a, err)
			}()
			if ctx.Err() != nil { // the client left
				return ctx.Err()
			}
		}
		if pending = left; len(pending) == 0 {
			return nil
		}
		waiting()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-f.ctx.Done():
			return errors.New("the monitor is stopping")
		}
	}
}

// try answers a query from what is kept; otherwise it starts an evaluation, or joins the one that runs, and is woken when
// it ends. The caller calls release once it has delivered the answer.
func (f *Feed) try(q Query, began time.Time, wake chan<- struct{}) (a Answer, release func(), err error, done bool) {
	b := f.books.Lock()
	defer f.books.Unlock()
	release = func() {}
	now := f.o.Now()
	name := q.key()
	k := b.kept[name]
	if k == nil || now.Round(0).Before(k.made.Round(0)) && !k.busy { // or the clock went back: what is kept is of another time
		b.evict(now, nil)
		k = &kept{expr: q.Expr, step: q.Step, at: map[string]int{}, warnings: map[string]bool{}, notes: map[time.Duration]note{}}
		b.kept[name] = k
	}
	k.used = now
	if k.failed.err != nil && !k.failed.at.Before(began) && k.failed.from.Equal(q.From) && k.failed.to.Equal(q.last()) {
		return a, release, k.failed.err, true
	}
	if k.covers(q, now) && k.noted(q, now) {
		a, release, err = f.reserved(k, q)
		return a, release, err, true
	}
	k.waiting = append(k.waiting, wake)
	if !k.busy {
		k.busy = true
		b.queue = append(b.queue, job{k, q})
		if b.workers < atOnce {
			b.workers++
			f.done.Go(func() { f.o.Meter(f.work) })
		}
	}
	return a, release, nil, false
}

// reserved is the answer of k, with its memory reserved until release.
func (f *Feed) reserved(k *kept, q Query) (a Answer, release func(), err error) {
	release, err = f.o.Reserve(k.answerBytes(q))
	if err != nil {
		return a, func() {}, fmt.Errorf("the answer has %d lines: %w; a longer step, a shorter range or fewer lines need less", len(k.lines), err)
	}
	made := false
	defer func() {
		if !made { // it panics
			release()
		}
	}()
	a = k.answer(q)
	made = true
	return a, release, nil
}

const (
	// valueBytes is a value of an answer, whose text is made as it is sent; lineBytes is a line's labels and text.
	valueBytes = 8
	lineBytes  = 1 << 10
)

// answerBytes is what an answer takes until it is sent, at most.
func (k *kept) answerBytes(q Query) int64 {
	lines := len(k.lines)
	if q.Top > 0 {
		lines = min(lines, q.Top+2) // with one that is not folded alone, or the sum of the others
	}
	n := int64(lines) * (int64(steps(q.From, q.last(), q.Step)+1)*valueBytes + lineBytes)
	for _, name := range k.names {
		n += 2 * int64(excessBytes(name))
	}
	return n
}

// excessBytes is how much longer a line's labels are than lineBytes allows for.
func excessBytes(name string) int { return max(0, len(name)-lineBytes/2) }

// covers reports whether the lines hold all steps of q, and none that has grown stale.
func (k *kept) covers(q Query, now time.Time) bool {
	if k.made.IsZero() || q.From.Before(k.from) || q.last().After(k.to) {
		return false
	}
	return !q.last().After(k.settled) || now.Sub(k.made) < fresh
}

func (k *kept) noted(q Query, now time.Time) bool {
	n, ok := k.notes[q.To.Sub(q.From)]
	return ok && (n.to.Equal(q.To) || now.Sub(n.made) < remembered && n.to.Sub(q.To).Abs() < remembered)
}

// work evaluates until nothing is left to.
func (f *Feed) work() {
	for {
		b := f.books.Lock()
		if len(b.queue) == 0 {
			b.workers--
			f.books.Unlock()
			return
		}
		next := b.queue[0]
		b.queue[0] = job{} // the array lives on; its lines must not
		b.queue = b.queue[1:]
		f.books.Unlock()
		f.extend(next.k, next.q)
	}
}

// extend evaluates what lacks for q and wakes those who wait.
func (f *Feed) extend(k *kept, q Query) {
	f.books.Lock()
	now := f.o.Now()
	from, to, all := k.lacks(q)
	covered, noted := k.covers(q, now), k.noted(q, now)
	f.books.Unlock()
	var lines []metric.Line
	var warnings, notes []string
	var err error
	if !covered {
		err = contain.Call("evaluating a chart's query", func() (err error) {
			lines, warnings, err = f.o.Evaluate(f.ctx, k.expr, from, to, k.step)
			return err
		})
	}
	if err == nil && !noted && f.o.Notes != nil {
		notes = f.o.Notes(f.ctx, k.expr, q.From, q.To)
	}
	b := f.books.Lock()
	defer f.books.Unlock()
	if err != nil {
		k.failed = failure{q.From, q.last(), f.o.Now(), err}
	} else {
		if !covered {
			k.merge(lines, warnings, from, to, all, q.From)
			k.made = now
			k.settled = now.Add(-settles - k.step)
		}
		if !noted {
			k.note(q, now, notes)
		}
	}
	k.busy = false
	b.evict(f.o.Now(), k)
	for _, w := range k.waiting {
		select {
		case w <- struct{}{}:
		default: // it is awake already
		}
	}
	k.waiting = nil
}

// lacks is the span that has to be evaluated for q, and whether it replaces all lines.
func (k *kept) lacks(q Query) (from, to time.Time, all bool) {
	last := q.last()
	if k.made.IsZero() || q.From.Before(k.from) || q.From.After(k.to.Add(k.step)) || k.step == 0 {
		if !k.made.IsZero() && !k.from.Before(q.From) && k.to.After(last) && steps(q.From, k.to, k.step) < keptSteps {
			last = k.to
		}
		return q.From, last, true
	}
	from = k.to.Add(k.step)
	if k.settled.Before(k.to) {
		from = k.from.Add(time.Duration(max(0, steps(k.from, k.settled, k.step)+1)) * k.step)
	}
	if k.settled.Before(k.from) {
		from = k.from
	}
	if last.Before(k.to) {
		last = k.to
	}
	return from, last, false
}

// merge puts evaluated lines in place of the steps from one time on.
func (k *kept) merge(lines []metric.Line, warnings []string, from, to time.Time, all bool, wanted time.Time) {
	if all {
		k.from, k.lines, k.names = from, nil, nil
		clear(k.at)
		clear(k.warnings)
	}
	k.to = to
	for _, w := range warnings {
		k.warnings[w] = true
	}
	first, n := steps(k.from, from, k.step), steps(k.from, to, k.step)+1
	for i := range k.lines { // what is evaluated again
		v := &k.lines[i].Values
		*v = (*v)[:min(len(*v), max(0, first-k.lines[i].Skip))]
	}
	for _, l := range lines {
		name := labelKey(l.Labels)
		l.Skip += first
		i, known := k.at[name]
		if !known {
			k.at[name] = len(k.lines)
			k.lines = append(k.lines, l)
			k.names = append(k.names, name)
			continue
		}
		switch was := &k.lines[i]; {
		case len(l.Values) == 0:
		case len(was.Values) == 0:
			was.Skip, was.Values = l.Skip, l.Values
		default:
			was.Values = append(pad(was.Values, l.Skip-was.Skip), l.Values...)
		}
	}
	if n > keptSteps {
		k.trim(steps(k.from, wanted, k.step))
	}
}

// trim forgets the first steps, and lines that have no value after them.
func (k *kept) trim(first int) {
	if first <= 0 {
		return
	}
	k.from = k.from.Add(time.Duration(first) * k.step)
	lines, names := k.lines[:0], k.names[:0]
	clear(k.at)
	for i, l := range k.lines {
		l.Values = slices.Clone(l.Values[min(max(0, first-l.Skip), len(l.Values)):])
		l.Skip = max(0, l.Skip-first)
		if slices.ContainsFunc(l.Values, isNumber) {
			k.at[k.names[i]] = len(lines)
			lines, names = append(lines, l), append(names, k.names[i])
		}
	}
	clear(k.lines[len(lines):])
	k.lines, k.names = lines, names
}

func pad(values []float64, n int) []float64 {
	values = slices.Grow(values, max(0, n-len(values)))
	for len(values) < n {
		values = append(values, math.NaN())
	}
	return values
}

func isNumber(v float64) bool { return !math.IsNaN(v) }

func (k *kept) note(q Query, now time.Time, text []string) {
	if len(k.notes) > 8 {
		clear(k.notes)
	}
	k.notes[q.To.Sub(q.From)] = note{q.To, now, text}
}

// answer cuts q's part out of the lines.
func (k *kept) answer(q Query) Answer {
	since := q.From
	if q.Step > 0 && q.Since.After(q.From) {
		since = q.From.Add(time.Duration(steps(q.From, q.Since, q.Step)) * q.Step)
	}
	first, from, end := steps(k.from, q.From, k.step), steps(k.from, since, k.step), steps(k.from, q.last(), k.step)+1
	a := Answer{Since: since, Warnings: slices.Sorted(maps.Keys(k.warnings))}
	for _, w := range k.notes[q.To.Sub(q.From)].text {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
	cut := func(l metric.Line) metric.Line {
		values := make([]float64, end-from)
		for i := range values {
			values[i] = l.At(from + i)
		}
		return metric.Line{Labels: l.Labels, Values: values}
	}
	if q.Top == 0 {
		for _, l := range k.lines {
			if k.step == 0 || slices.ContainsFunc(valuesBetween(l, from, end), isNumber) {
				a.Lines = append(a.Lines, cut(l))
			}
		}
		return a
	}
	top, others := k.rank(q.Top, first, end)
	if a.Set = k.set(top); a.Set != q.Known {
		a.Since, from = q.From, first
	}
	for _, i := range top {
		a.Lines = append(a.Lines, cut(k.lines[i]))
	}
	if a.Folded = len(others); a.Folded > 0 {
		rest := pad(nil, end-from)
		for _, i := range others {
			for j := range rest {
				v := k.lines[i].At(from + j)
				switch {
				case !isNumber(v):
				case isNumber(rest[j]):
					rest[j] += v
				default:
					rest[j] = v
				}
			}
		}
		a.Rest = &metric.Line{Values: rest}
	}
	return a
}

// valuesBetween returns those of a line's values that are at steps from one to before another.
func valuesBetween(l metric.Line, from, end int) []float64 {
	n := len(l.Values)
	from, end = min(n, max(0, from-l.Skip)), min(n, max(0, end-l.Skip))
	return l.Values[from:max(from, end)]
}

// rank divides the lines with a sum above zero into the largest and the others. One line
// alone needs no sum of others.
func (k *kept) rank(most, first, end int) (top, others []int) {
	sums := make([]float64, len(k.lines))
	var order []int
	for i, l := range k.lines {
		for _, v := range valuesBetween(l, first, end) {
			if isNumber(v) && !math.IsInf(v, 0) {
				sums[i] += v
			}
		}
		if sums[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(k.names[a], k.names[b]))
	})
	if len(order) <= most+1 {
		return order, nil
	}
	return order[:most], order[most:]
}

// set names lines, whatever their order.
func (k *kept) set(lines []int) string {
	var sum uint64
	for _, i := range lines {
		h := fnv.New64a()
		_, _ = h.Write([]byte(k.names[i]))
		sum += h.Sum64()
	}
	return strconv.FormatUint(sum, 36)
}

// evict forgets what no page asks for any more and, if that is not enough, what was asked
// for longest ago: beyond twice the bound also what was asked for just now, but not keep.
func (b *books) evict(now time.Time, keep *kept) {
	size := 0
	for name, k := range b.kept {
		if !k.busy && now.Sub(k.used) > unused {
			delete(b.kept, name)
			continue
		}
		size += k.size()
	}
	if size <= maxValues && len(b.kept) < maxKept {
		return
	}
	names := slices.SortedFunc(maps.Keys(b.kept), func(x, y key) int { return b.kept[x].used.Compare(b.kept[y].used) })
	for _, name := range names {
		if size <= maxValues/2 && len(b.kept) < maxKept/2 {
			return
		}
		if k := b.kept[name]; k != keep && !k.busy && (now.Sub(k.used) > fresh || size > 2*maxValues) {
			size -= k.size()
			delete(b.kept, name)
		}
	}
}

// size is the number of values that are kept, with a line's labels as so many more.
func (k *kept) size() (n int) {
	for i, l := range k.lines {
		n += len(l.Values) + (lineBytes+2*excessBytes(k.names[i]))/8
	}
	return n
}

// labelKey is a text that only equal labels share.
func labelKey(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(strconv.Quote(name))
		b.WriteString(strconv.Quote(labels[name]))
	}
	return b.String()
}
