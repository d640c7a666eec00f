// Package budget keeps what counting costs within a share of each core: it decides which sources count all of the time, which in
// windows and with how much detail, and how often work in user space is done that can wait.
package budget

// The governor keeps the Governed sources within the budget. In each control period of a second it measures what every
// source cost, estimates the cost at full coverage, divides the budget, and opens one sampling window for each source
// that cannot count all the time. throttle.go has the state of one source; docs/budget.md draws a period.

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/locked"
)

// Budget is what counting may cost.
type Budget struct {
	// Share of each core, as a ratio.
	Share float64
	// Period is the control period: 1 s when it is 0.
	Period time.Duration
	// Userspace is the CPU time of this process until now in seconds.
	Userspace func() float64
	// CPUs is the number of cores that Userspace is spread over.
	CPUs int
	// Idle is the time until now that each CPU had nothing to do in seconds, or nil.
	Idle func() []float64
}

const (
	// leastOpen is the shortest window: below it, attaching and detaching cost more
	// than counting. If less fits into a period, only randomly drawn periods have a
	// window. A source with fewer than one window in mostSkipped periods is off.
	leastOpen   = 2 * time.Millisecond
	mostSkipped = 20
	// looks is how often an open window is checked for an exhausted share, where it may be exhausted, at least
	// leastLook apart. A reader that says so itself is not checked.
	looks     = 16
	leastLook = time.Millisecond
	// fullLooks is the same in a period of a source that counts everything, for
	// a load that begins. Each check wakes the process up.
	fullLooks = 8
	// saturated is the part of a period that a core may be idle for and still count as
	// busy all the time; the clock of its idle time has ticks of 10 ms.
	saturated = 0.03
	// leastForKernel is the part of the budget that programs in the kernel keep even
	// if user space uses it up, as a large query may.
	leastForKernel = 0.25
	// aim leaves a reserve for events that cost more than calibrated.
	aim = 0.75
	// fade is the weight that older windows keep in a source's mean cost at each new
	// window; doubt is what remains of the mean in a period without one. The mean
	// decides, not the peak: a bursty load that fits on average is left alone.
	fade, doubt = 0.8, 0.95
	// calm is the number of periods in which a source must fit well before its level
	// of detail rises. It doubles after each rise that did not last, up to sixteenfold.
	calm = 30
	// remembered is the number of windows that the standard error is taken from.
	remembered = 60
)

// Governor keeps the cost of sources within a budget. After each control
// period it estimates each source's cost at full coverage, and divides the budget: cheap
// sources count everything, expensive ones share the rest (max-min fairness). A source
// that does not fit loses detail; then it counts in windows, which start at a random time
// of each period so that a periodic load is not aliased; then it is off for a while.
type Governor struct {
	now   func() time.Time
	books locked.Value[books]
	added chan struct{} // holds one: a source was added
	spent chan struct{} // holds one: a source has spent what it may
}

// New returns a governor whose windows begin when the source of randomness says.
func New(now func() time.Time, random rand.Source) Governor {
	return Governor{now: now, books: locked.New(books{random: rand.New(random)}), added: make(chan struct{}, 1), spent: make(chan struct{}, 1)}
}

// books are the governed sources, and what they cost. A throttle in them, its reader
// apart, is reached only through them.
type books struct {
	budget  Budget
	random  *rand.Rand
	sources []*Throttle
	user    float64 // CPU seconds of user space at the end of the last period
	at      time.Time
	userNow float64 // user space in cores, smoothed
	slack   float64 // what no source was allotted of a core, that windows may use
	used    float64 // the most of a core that was used in a period since it was asked for
	opening int     // sources that are being opened, which takes CPU time that they do not cost later
	known   bool    // of the last period: user, and that nothing was opened in it
	slow    slowing
	idle    []float64 // of each CPU in seconds, at the end of the last period that had windows
}

// Add puts a source under the governor, attached.
func (g *Governor) Add(s Source) *Throttle {
	t := &Throttle{reader: s.Reader, steady: s.Steady, limit: s.Limit, level: s.Level, wanted: s.Level, adjust: s.Adjust}
	b := g.books.Lock()
	defer g.books.Unlock()
	now := g.now()
	t.share, t.patience = t.limit, calm
	t.attached, t.since, t.last.Share = true, now, t.limit
	t.at = now
	t.events, t.seconds = t.reader.Spent()
	t.from = t.events
	t.begin, t.end = now, now.Add(time.Hour)
	b.sources = append(b.sources, t)
	nudge(g.added)
	return t
}

// nudge puts something into a channel that holds one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Opening notes that n more sources are being opened.
func (g *Governor) Opening(n int) {
	b := g.books.Lock()
	defer g.books.Unlock()
	b.opening += n
	b.known = false
}

// Remove forgets a source. The governor does not touch it afterwards.
func (g *Governor) Remove(t *Throttle) {
	b := g.books.Lock()
	defer g.books.Unlock()
	b.sources = slices.DeleteFunc(b.sources, func(x *Throttle) bool { return x == t })
}

// Round ends a round for t and says what it saw.
func (g *Governor) Round(t *Throttle) Coverage {
	g.books.Lock()
	defer g.books.Unlock()
	c := Coverage{Share: t.last.Share, Off: t.share == 0, Refused: t.refused, Err: math.NaN()}
	switch {
	case t.periods > 0 && t.blind == t.periods:
		c.Share, c.Gone = 0, !c.Off
	case t.periods > 0 && t.estimated > 0:
		c.Share = min(1, t.counted/t.estimated)
	case t.periods > 0:
		c.Share = t.share
	default:
		c.Wait = t.share > 0 && t.share < 1
	}
	t.counted, t.estimated, t.blind, t.periods = 0, 0, 0, 0
	if t.share < 1 || c.Share < 1 {
		c.Err = relativeError(t.windows)
	}
	c.Limited = t.share < 1 || c.Share < 1 || t.level < t.wanted
	t.last = c
	return c
}

// Level is the level of detail that t works at.
func (g *Governor) Level(t *Throttle) int {
	g.books.Lock()
	defer g.books.Unlock()
	return t.level
}

// Change puts a user's settings into force.
func (g *Governor) Change(t *Throttle, limit float64, level int, adjust func(level int)) {
	g.books.Lock()
	defer g.books.Unlock()
	t.limit, t.level, t.wanted, t.adjust, t.patience = limit, level, level, adjust, calm
	t.share = min(t.share, limit)
}

// maxMin divides an allowance of cores among sources that would cost full. No
// source gets more than it needs; those that need more than an equal part share
// the rest equally (max-min fairness).
func maxMin(allowance float64, full []float64) []float64 {
	order := make([]int, len(full))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(full[a], full[b]) })
	out := make([]float64, len(full))
	for k, i := range order {
		out[i] = min(full[i], allowance/float64(len(order)-k))
		allowance -= out[i]
	}
	return out
}

// plan ends a control period and decides the shares of the next one.
func (g *Governor) plan(now time.Time) {
	b := g.books.Lock()
	defer g.books.Unlock()
	period, spent := b.meter(now)
	b.estimate(now, period, spent)
	b.decide(b.allot())
}

// spending is what one source cost in the period that ends.
type spending struct {
	events  float64   // since the source was opened
	seconds []float64 // the same, by core
	cores   []float64 // seconds of the period, by core
	most    float64   // the same on the busiest core
	busy    []bool    // by core: it was never idle; nil if that is not known
}

// meter reads what the period that ends has cost: its length in seconds and the
// spending of each source.
func (b *books) meter(now time.Time) (period float64, spent []spending) {
	period = now.Sub(b.at).Seconds()
	spent = make([]spending, len(b.sources))
	busy := b.saturated(period)
	var cores []float64
	for i, t := range b.sources {
		s := spending{busy: busy}
		s.events, s.seconds = t.reader.Spent()
		t.note(now, s.events)
		s.cores = slices.Clone(s.seconds)
		for cpu := range s.cores {
			if cpu < len(t.seconds) {
				s.cores[cpu] = max(0, s.cores[cpu]-t.seconds[cpu])
			}
			for len(cores) <= cpu {
				cores = append(cores, 0)
			}
			cores[cpu] += s.cores[cpu]
			s.most = max(s.most, s.cores[cpu])
		}
		spent[i] = s
	}
	user := b.budget.Userspace()
	if b.known && period > 0 {
		rate := max(0, (user-b.user)/period)
		b.userNow += (rate - b.userNow) / 10
		b.used = max(b.used, slices.Max(append(cores, 0))/period+rate/b.budget.cpus())
	}
	b.user, b.at, b.known = user, now, b.opening == 0
	return period, spent
}

// saturated reports for each CPU whether it was busy for all of the period that ends, or
// returns nil. It asks only while a source counts in windows.
func (b *books) saturated(period float64) []bool {
	if b.budget.Idle == nil || !slices.ContainsFunc(b.sources, func(t *Throttle) bool { return t.share < 1 || t.broken }) {
		b.idle = nil
		return nil
	}
	was := b.idle
	b.idle = b.budget.Idle()
	if len(was) != len(b.idle) {
		return nil
	}
	busy := make([]bool, len(was))
	for cpu := range busy {
		busy[cpu] = b.idle[cpu]-was[cpu] < saturated*period
	}
	return busy
}

// estimate updates what each source would cost if it counted every event, and the
// events that its windows stand for.
func (b *books) estimate(now time.Time, period float64, spent []spending) {
	spare := b.slack * period // core-seconds that no source was allotted
	for i, t := range b.sources {
		s := spent[i]
		if t.share < 1 || t.debt > 0 {
			over := s.most - t.may*period
			free := min(max(0, over), spare)
			spare -= free
			t.debt = min(max(0, t.debt+over-free), 10*b.budget.Share*period)
		}
		t.observe(now, s, b.budget.period())
	}
}

// grant is what one source may cost, in cores.
type grant struct {
	full float64 // what it would cost at full coverage; 0 if it is steady or must be off
	may  float64 // its part
	// tried is the part that it would get if it were switched on again.
	tried float64
}

// allot divides the budget among the sources. fair is an equal part of it.
func (b *books) allot() (grants []grant, fair float64) {
	full := make([]float64, len(b.sources))
	steady := 0.0 // what is set aside
	for i, t := range b.sources {
		if full[i] = t.full * t.limit; t.steady {
			steady += full[i]
			full[i] = 0
		}
	}
	share := b.budget.Share
	need := steady
	for _, cost := range full {
		need += cost
	}
	b.slow.fit(b.userNow/b.budget.cpus(), b.budget.room(need))
	allowance := aim * max(share-b.userNow/b.budget.cpus()-steady, share*leastForKernel)
	if share >= 1 { // all of each core is no limit, whatever the clocks of a starved machine say
		allowance = math.Inf(1)
	}
	tried := maxMin(allowance, full)
	for i, t := range b.sources {
		if t.tooLittle(full[i], tried[i], b.budget.leastShare()) {
			full[i] = 0 // its part goes to the others
		}
	}
	may := maxMin(allowance, full)
	for i := range full {
		grants = append(grants, grant{full[i], may[i], tried[i]})
	}
	return grants, allowance / float64(len(full))
}

// decide puts the grants into force for the next period. What nobody was granted
// is slack.
func (b *books) decide(grants []grant, fair float64) {
	b.slack = (1 + aim) / 2 * b.budget.Share
	for i, t := range b.sources {
		if t.steady {
			t.share, t.may = t.limit, 1
			continue
		}
		cost, may := grants[i].full, grants[i].may
		b.slack -= may
		if cost == 0 && t.full > 0 {
			cost, may = t.full*t.limit, grants[i].tried
		}
		t.decide(cost, may, fair, b.budget.leastShare(), b.budget.period().Seconds())
	}
	b.slack = max(0, b.slack)
}

// cpus is the number of cores, as a divisor.
func (b Budget) cpus() float64 { return float64(max(1, b.CPUs)) }

// leastShare is the smallest part of the time that is worth having.
func (b Budget) leastShare() float64 { return b.least() / mostSkipped }

// least is the part of a period that the shortest window takes.
func (b Budget) least() float64 { return min(1, leastOpen.Seconds()/b.period().Seconds()) }

func (b Budget) period() time.Duration { return cmp.Or(b.Period, time.Second) }

// start draws the windows of a period.
func (g *Governor) start(now time.Time) {
	b := g.books.Lock()
	defer g.books.Unlock()
	period := b.budget.period()
	for _, t := range b.sources {
		share := t.share
		if least := b.budget.least(); share < least {
			if b.random.Float64()*least > share {
				share = 0
			} else {
				share = least
			}
		}
		open := time.Duration(share * float64(period))
		t.begin = now
		if rest := period - open; rest > 0 {
			t.begin = now.Add(time.Duration(b.random.Int64N(int64(rest))))
		}
		t.end = t.begin.Add(open)
		if t.share == 1 {
			t.end = now.Add(time.Hour) // until the next plan says otherwise
		}
		t.look = earlier(t.look, now.Add(t.every(period))) // the plan may leave less than the last one
		t.told = false
	}
}

// step puts every source into its planned state, and returns when to look again.
func (g *Governor) step(now, until time.Time) time.Time {
	b := g.books.Lock()
	defer g.books.Unlock()
	next := until
	for _, t := range b.sources {
		on := !t.broken && !now.Before(t.begin) && now.Before(t.end)
		limited := !t.steady && b.budget.Share < 1
		if limited && !t.told && !t.broken && !b.checkWindow(t, now, on, func() { nudge(g.spent) }) {
			t.broken, on = true, false
		}
		t.set(on, g.now)
		if on && limited && !t.told {
			next = earlier(next, t.look)
		}
		switch {
		case t.broken || !now.Before(t.end) || t.share == 1:
		case now.Before(t.begin):
			next = earlier(next, t.begin)
		default:
			next = earlier(next, t.end)
		}
	}
	return next
}

// checkWindow checks an open window if it is time to, and reports whether it may stay open. A window is closed early only if the
// load has grown since it was planned: closing it by its own events biases the estimate upwards. Then checkWindow asks the reader
// to signal when the rest is spent. For a reader that cannot, it sets the time of the next check: no core can spend the rest
// before that time.
func (b *books) checkWindow(t *Throttle, now time.Time, on bool, reached func()) bool {
	period := b.budget.period()
	every := t.every(period)
	may := (t.may + b.slack) * period.Seconds()
	left := may
	if t.attached && on {
		due := t.look
		if t.share == 1 { // all of these are checked together, which saves wake-ups
			due = due.Add(-every / 2)
		}
		if now.Before(due) {
			return true
		}
		left -= t.overall()
	}
	if left < 0 {
		return false
	}
	if t.told = t.limitTo(may, reached); !t.told {
		t.look = now.Add(max(every, time.Duration(left*float64(time.Second))))
	}
	return true
}

// every is the shortest time that is planned between two checks of an open window.
func (t *Throttle) every(period time.Duration) time.Duration {
	if t.share == 1 {
		return period / fullLooks
	}
	return max(leastLook, t.end.Sub(t.begin)/looks)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// SetBudget sets the budget; its period is that of Run.
func (g *Governor) SetBudget(b Budget) {
	g.books.Lock().budget = b
	g.books.Unlock()
}

// Run governs until ctx ends, and leaves everything attached.
func (g *Governor) Run(ctx context.Context, b Budget) {
	g.SetBudget(b)
	timer := time.NewTimer(0)
	defer timer.Stop()
	until := g.now()
	for {
		now := g.now()
		g.plan(now)
		g.start(now)
		if until = until.Add(b.period()); !until.After(now) { // it overslept
			until = now.Add(b.period())
		}
		for ; now.Before(until); now = g.now() {
			next := g.step(now, until)
			timer.Reset(max(next.Sub(now), 100*time.Microsecond))
			select {
			case <-ctx.Done():
				g.release()
				return
			case <-timer.C:
			case <-g.added: // a load may be there already
			case <-g.spent:
				g.recheck()
			}
		}
	}
}

// recheck has the next step check every source.
func (g *Governor) recheck() {
	b := g.books.Lock()
	defer g.books.Unlock()
	for _, t := range b.sources {
		t.told = false
	}
}

// release attaches everything again, for good.
func (g *Governor) release() {
	b := g.books.Lock()
	defer g.books.Unlock()
	now := g.now()
	for _, t := range b.sources {
		t.share = 1
		t.set(true, g.now)
		t.begin, t.end = now, now.Add(time.Hour)
	}
}

// MostUsed returns the most of a core that was used in a period since the last call of
// busy, and whether a period has ended.
func (g *Governor) MostUsed() (float64, bool) {
	b := g.books.Lock()
	defer g.books.Unlock()
	return b.used, b.known && b.used > 0
}

// TakeMostUsed is mostUsed, and begins anew.
func (g *Governor) TakeMostUsed() (float64, bool) {
	b := g.books.Lock()
	defer g.books.Unlock()
	u, ok := b.used, b.known && b.used > 0
	b.used = 0
	return u, ok
}
