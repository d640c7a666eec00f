package bpf

// The cost of one program's events: body plus dispatch, in seconds, and what they have cost on each CPU until now.
// Dispatch is calibrated when a program is attached; the body is the mean of the runs that the program times under the
// real load.

import (
	"cmp"
	"time"
)

// assumed is the cost of an event in seconds until it is measured: more than a system call, a page fault or a page of
// the page cache cost on measured machines, so there the budget errs on the safe side. A block request, or an event at
// level latency, may cost more (docs/lab/performance.md).
const assumed = 150e-9

// cost is the cost of a program's events.
type cost struct {
	price
	// charged is the cost until the price last changed, and levels are the known costs at the
	// other levels.
	charged charged
	levels  []price
	// known are the timed runs that the price already contains, as of since.
	known timing
	since time.Time
}

// price is the cost of an event in seconds; 0 is unknown.
type price struct {
	// calibrated is the whole cost, measured when the hook was attached; 0 if that was impossible. If it was measured by a
	// loop of events, which keeps everything in the caches, loop is the program's body: the part that it timed itself.
	calibrated, loop float64
	// mean is the runs timed under the real load. Each look halves the weight of older ones.
	mean timing
}

// beside is the factor by which dispatch is slower under load than in a calibration loop, because the load displaces its
// code from the caches. It was measured by the CPU time of nginx's requests (decision 018).
const beside = 2.5

// charged is the cost on each CPU at some moment.
type charged struct {
	events  []uint64
	seconds []float64
}

// perEvent is the cost of an event of c in seconds: the program's body, which it times itself, and dispatch.
func (r *registry) perEvent(c *Counters) (body, dispatch float64) {
	p := r.ledgerOf(c).price
	body = p.mean.each()
	switch {
	case p.loop > 0:
		return cmp.Or(body, p.loop), beside * (p.calibrated - p.loop)
	case p.calibrated > 0:
		return body, max(0, p.calibrated-body)
	case body > 0:
		return body, beside * r.dispatch
	}
	return 0, assumed
}

// counted is how often c's programs ran, for a User as of the last reading.
func (r *registry) counted(c *Counters) counts {
	if polled := r.ledgerOf(c).polled; polled != nil {
		return counts{polled, 1}
	}
	return c.runs()
}

// events is the number of events in what c has counted.
func (r *registry) events(c *Counters) (n uint64) {
	for row := range r.counted(c).rows() {
		n += row.ran()
	}
	return n
}

// charge is the cost of c until now.
func (r *registry) charge(c *Counters) charged {
	body, dispatch := r.perEvent(c)
	before := r.ledgerOf(c).charged
	counted := r.counted(c)
	cpus := len(counted.bytes)/max(1, 8*counted.row) + 1
	now := charged{make([]uint64, 0, cpus), make([]float64, 0, cpus)}
	for row := range counted.rows() {
		i := len(now.events)
		n := row.ran()
		events, seconds := n, 0.0
		if i < len(before.events) {
			events, seconds = n-min(n, before.events[i]), before.seconds[i] // a User's map may lose keys
		}
		now.events = append(now.events, n)
		now.seconds = append(now.seconds, seconds+float64(events)*(body+dispatch))
	}
	return now
}

// calibrate sets the price that was measured when the hooks were attached. The runs timed until then belong to that measurement.
func (c *Counters) calibrate(p price) {
	held := c.kernel.Lock()
	defer c.kernel.Unlock()
	l := held.ledgerOf(c)
	l.price = p
	l.known, l.since = c.runs().timedRuns(), c.host.Now()
}

// loopTime is the minimum batch mean of a trigger loop, in seconds per run: the minimum, because disturbances only add.
// Every run is timed. It is 0 if none was.
func (c *Counters) loopTime(trigger func()) (least float64) {
	const batches, calls = 20, 50
	runs := c.runs()
	runs.timeEach(true)
	defer runs.timeEach(false)
	before := runs.timedRuns()
	for range batches {
		for range calls {
			trigger()
		}
		now := runs.timedRuns()
		if t := now.less(before).each(); t > 0 && (least == 0 || t < least) {
			least = t
		}
		before = now
	}
	return least
}

// calibratedCost is the cost set by calibrate, or 0.
func (c *Counters) calibratedCost() float64 {
	held := c.kernel.Lock()
	defer c.kernel.Unlock()
	return held.ledgerOf(c).calibrated
}

// Spent is the number of events counted since opening, and the seconds that
// each CPU has spent on counting them.
func (c *Counters) Spent() (events float64, seconds []float64) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	r.learn(c)
	return r.spent(c)
}

func (r *registry) spent(c *Counters) (events float64, seconds []float64) {
	now := r.charge(c)
	for _, n := range now.events {
		events += float64(n)
	}
	return events, now.seconds
}

// timing are runs of a program, and the seconds that they took.
type timing struct{ runs, seconds float64 }

func (t timing) less(u timing) timing { return timing{t.runs - u.runs, t.seconds - u.seconds} }

// each is what a run took, 0 if there was none.
func (t timing) each() float64 {
	if t.runs == 0 {
		return 0
	}
	return t.seconds / t.runs
}

const (
	// enough timed runs tell more of a program's price than the loop does, if they did not take longer than patience to come together. On an idle
	// machine a run takes microseconds, because nothing is in the caches: that is no price for a load that begins, and so few cost nothing that matters.
	enough   = 32
	patience = 5 * time.Second
)

// addRuns adds timed runs that came together within a time to the mean, and reports whether they are looked at with that.
func (p *price) addRuns(t timing, within time.Duration) bool {
	idle := t.runs < enough
	if idle && within < patience && (p.mean.runs > 0 || p.loop > 0 || t.runs == 0) {
		return false
	}
	if t.seconds > 0 && !(idle && p.loop > 0) { // no program is free: else the runs were not measured
		p.mean = timing{p.mean.runs/2 + t.runs, p.mean.seconds/2 + t.seconds}
	}
	return true
}

// learn takes over what c's runs took that were timed; what was counted until now stays charged at the price until now.
func (r *registry) learn(c *Counters) {
	if c.recorded {
		return
	}
	l := r.ledgerOf(c)
	timed, now := c.runs().timedRuns(), c.host.Now()
	p := l.price
	if !p.addRuns(timed.less(l.known), now.Sub(l.since)) {
		return
	}
	l.known, l.since = timed, now
	r.reprice(c, p)
}

// reprice sets the price; what was counted until now stays charged at the price until now.
func (r *registry) reprice(c *Counters, p price) {
	l := r.ledgerOf(c)
	l.charged = r.charge(c)
	l.price = p
}
