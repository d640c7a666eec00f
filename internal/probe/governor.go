package probe

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Budget is what the engine may cost.
type Budget struct {
	// Share of each core, as a ratio.
	Share float64
	// Period is the control period: 1 s when it is 0. A load that appears from
	// nothing is counted in full until the period in which it appeared ends.
	Period time.Duration
	// Userspace is the CPU time of this process until now in seconds.
	Userspace func() float64
	// CPUs is the number of cores that Userspace is spread over.
	CPUs int
}

const (
	// leastOpen is the shortest window: below it, attaching and detaching would
	// cost more than what is in between. Where less than that fits into a period,
	// only some periods, drawn at random, have a window; a source that could have
	// one in fewer than one of mostSkipped is off.
	leastOpen   = 2 * time.Millisecond
	mostSkipped = 20
	// An open window is checked this many times for having used its share up, but
	// not more often than every leastLook.
	looks     = 16
	leastLook = time.Millisecond
	// leastForKernel is the part of the budget that programs in the kernel keep
	// when user space alone uses it up, as it may while someone queries.
	leastForKernel = 0.25
	// aim leaves room for what an event costs more than calibrated.
	aim = 0.75
	// fade is what remains of older windows in the mean cost of a source, from one
	// window to the next; doubt what remains of that mean in a period without one.
	// Peaks do not count: a bursty load that fits on average is let be.
	fade, doubt = 0.8, 0.95
	// calm is the number of periods for which a source must have fitted well
	// before it gets a higher level of detail back; it doubles each time that was
	// in vain, up to sixteen times.
	calm = 30
	// remembered is the number of windows that the standard error is taken from.
	remembered = 60
)

// governor keeps the cost of the Governed sources within a budget. At the end of
// each control period it knows what each source would cost each core if it
// counted every event, and allots the budget so that the cheap are served in
// full and the dear share the rest (max-min fairness). A source that does not
// fit loses detail; then it counts in windows, attached for a part of each
// period that starts at a random time, so that a periodic load is not aliased;
// then it is off for a while.
type governor struct {
	budget Budget
	now    func() time.Time

	mu      sync.Mutex
	sources []*throttle
	user    float64 // CPU seconds of user space at the end of the last period
	at      time.Time
	userNow float64 // user space in cores, smoothed
	slack   float64 // what no source was allotted of a core, that windows may use
	used    float64 // the most of a core that was used in a period since it was asked for
	known   bool
}

// add puts a source under the governor, attached. The governor's lock is not held.
func (g *governor) add(t *throttle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	t.share, t.patience = t.limit, calm
	t.attached, t.since, t.last.share = true, now, t.limit
	t.at = now
	t.events, t.seconds = t.reader.Spent()
	t.begin, t.end = now, now.Add(time.Hour)
	g.sources = append(g.sources, t)
}

// remove forgets a source; it is not touched any more.
func (g *governor) remove(t *throttle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources = slices.DeleteFunc(g.sources, func(x *throttle) bool { return x == t })
}

// round ends a round for t and says what it saw.
func (g *governor) round(t *throttle) coverage {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := coverage{share: t.last.share, off: t.share == 0, limited: t.share < 1 || t.level < t.wanted, err: math.NaN()}
	switch {
	case t.periods > 0 && t.blind == t.periods:
		c.share = 0
	case t.periods > 0 && t.estimated > 0:
		c.share = min(1, t.counted/t.estimated)
	case t.periods > 0:
		c.share = t.share
	default:
		c.wait = t.share > 0 && t.share < 1
	}
	t.counted, t.estimated, t.blind, t.periods = 0, 0, 0, 0
	if t.share < 1 {
		c.err = relativeError(t.windows, t.share)
	}
	t.last = c
	return c
}

// level is the level of detail that t works at.
func (g *governor) level(t *throttle) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return t.level
}

// change puts a user's settings into force.
func (g *governor) change(t *throttle, limit float64, level int, scope Scope) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.limit, t.level, t.wanted, t.scope, t.patience = limit, level, level, scope, calm
	t.share = min(t.share, limit)
}

// allot divides an allowance of cores among sources that would cost full:
// what each may use, so that no one gets more than it needs and the rest is
// shared equally. An allowance that suffices for all leaves all at full.
func allot(allowance float64, full []float64) []float64 {
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

// plan ends a control period and decides the next one's shares.
func (g *governor) plan(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	period := now.Sub(g.at).Seconds()
	user := g.budget.Userspace()
	cpus, share := float64(max(1, g.budget.CPUs)), g.budget.Share
	if g.known && period > 0 {
		g.userNow += (max(0, (user-g.user)/period) - g.userNow) / 10
	} else {
		g.userNow = 0
	}
	spare := g.slack * period // core-seconds that were nobody's in the period that ends
	var busiest []float64
	steady := 0.0 // what is not divided, in cores
	full := make([]float64, len(g.sources))
	for i, t := range g.sources {
		t.note(now)
		events, seconds := t.reader.Spent()
		var most float64
		for cpu := range seconds {
			d := seconds[cpu]
			if cpu < len(t.seconds) {
				d = max(0, d-t.seconds[cpu])
			}
			for len(busiest) <= cpu {
				busiest = append(busiest, 0)
			}
			busiest[cpu] += d
			most = max(most, d)
		}
		if t.share < 1 || t.debt > 0 {
			over := most - t.may*period
			free := min(max(0, over), spare)
			spare -= free
			t.debt = min(max(0, t.debt+over-free), 10*share*period)
		}
		t.cost *= doubt
		if open := t.open.Seconds(); open > 0 {
			t.weigh(most, open)
			n := max(0, events-t.events)
			bias := slowed(most / open)
			if t.broken {
				bias += cut(open, min(t.end.Sub(t.begin), g.period()).Seconds()) // seen in full until a moment ago it had no end
			}
			t.remember(window{n / open, open, bias})
			t.counted += n
			t.estimated += n * max(1, now.Sub(t.at).Seconds()/open)
			t.periods++
			t.at = now
		} else if t.share == 0 {
			t.blind++
			t.periods++
			t.at = now
		}
		if t.time > 0 {
			t.full = t.cost / t.time
		}
		t.events, t.seconds, t.open, t.broken = events, seconds, 0, false
		full[i] = t.full * t.limit
		if t.steady {
			steady += full[i]
			full[i] = 0
		}
	}
	if g.known && period > 0 {
		most := 0.0
		if len(busiest) > 0 {
			most = slices.Max(busiest)
		}
		g.used = max(g.used, most/period+max(0, user-g.user)/period/cpus)
	}
	g.user, g.at, g.known = user, now, true

	allowance := aim * max(share-g.userNow/cpus-steady, share*leastForKernel)
	if share >= 1 { // all of each core is no limit, whatever the clocks of a starved machine say
		allowance = math.Inf(1)
	}
	least := g.least() / mostSkipped
	may := allot(allowance, full)
	// What has to be off leaves its part to the others.
	for i, t := range g.sources {
		if t.tooLittle(full[i], may[i], least) {
			full[i] = 0
		}
	}
	rest := allot(allowance, full)
	g.slack = (1 + aim) / 2 * share
	for i, t := range g.sources {
		if t.steady {
			t.share, t.may = t.limit, 1
			continue
		}
		cost, mine := full[i], rest[i]
		if cost == 0 && t.full > 0 {
			cost, mine = t.full*t.limit, may[i]
		}
		t.decide(cost, mine, allowance/float64(len(full)), least, g.period().Seconds())
		g.slack -= rest[i]
	}
	g.slack = max(0, g.slack)
}

// least is the part of a period that the shortest window takes.
func (g *governor) least() float64 { return min(1, leastOpen.Seconds()/g.period().Seconds()) }

func (g *governor) period() time.Duration { return cmp.Or(g.budget.Period, time.Second) }

// start draws the windows of a period.
func (g *governor) start(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	period := g.period()
	for _, t := range g.sources {
		share := t.share
		if least := g.least(); share < least {
			if rand.Float64()*least > share {
				share = 0
			} else {
				share = least
			}
		}
		open := time.Duration(share * float64(period))
		t.begin = now
		if rest := period - open; rest > 0 {
			t.begin = now.Add(rand.N(rest))
		}
		t.end = t.begin.Add(open)
		if t.share == 1 {
			t.end = now.Add(time.Hour) // until the next plan says otherwise
		}
	}
}

// step brings every source into the state that the plan has for now, and returns
// when to look again.
func (g *governor) step(now, until time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := until
	for _, t := range g.sources {
		on := !t.broken && !now.Before(t.begin) && now.Before(t.end)
		if on && t.attached && t.share < 1 && t.overdrawn((t.may+g.slack)*g.period().Seconds()) {
			t.broken, on = true, false
		}
		t.set(on, g.now)
		switch {
		case t.broken || !now.Before(t.end) || t.share == 1:
		case now.Before(t.begin):
			next = earlier(next, t.begin)
		default:
			next = earlier(next, earlier(t.end, now.Add(max(leastLook, t.end.Sub(t.begin)/looks))))
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// run governs until ctx ends, and leaves everything attached.
func (g *governor) run(ctx context.Context, b Budget) {
	g.mu.Lock()
	g.budget = b
	g.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	until := g.now()
	for {
		now := g.now()
		g.plan(now)
		g.start(now)
		if until = until.Add(g.period()); !until.After(now) { // it overslept
			until = now.Add(g.period())
		}
		for ; now.Before(until); now = g.now() {
			next := g.step(now, until)
			timer.Reset(max(next.Sub(now), 100*time.Microsecond))
			select {
			case <-ctx.Done():
				g.release()
				return
			case <-timer.C:
			}
		}
	}
}

// release attaches everything again, for good.
func (g *governor) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, t := range g.sources {
		t.share = 1
		t.set(true, g.now)
		t.begin, t.end = now, now.Add(time.Hour)
	}
}

// busy returns the most of a core that was used in a period since the last call,
// and whether a period has ended.
func (g *governor) busy() (float64, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u, ok := g.used, g.known && g.used > 0
	g.used = 0
	return u, ok
}
