package bpf

// assumed is the cost of an event in seconds until it is measured: more than a system call, a page fault or a page of
// the page cache cost on measured machines, so there the budget errs on the safe side. A block request, or an event at
// level latency, may cost more (docs/performance.md).
const assumed = 150e-9

// cost is the cost of a program's events.
type cost struct {
	price
	// charged is the cost until the price last changed, and levels are the known costs at the
	// other levels.
	charged charged
	levels  []price
}

// price is the cost of an event in seconds; 0 is unknown.
type price struct {
	// calibrated is dispatch plus body, and dispatch the way into a program at this hook, if they could be measured
	// when the hook was attached: in a loop, in which all of it stays in the caches. body is the part in the program, once a
	// Meter has measured it beside the load that there is.
	calibrated, dispatch, body float64
}

// loopBody is the part in the program in the loop, 0 if unknown.
func (p price) loopBody() float64 {
	if p.dispatch == 0 {
		return 0
	}
	return max(0, p.calibrated-p.dispatch)
}

// charged is the cost on each CPU at some moment.
type charged struct {
	events  []uint64
	seconds []float64
}

// perEvent is the cost of an event of c in seconds: the program and the way into it. Beside a load the program takes longer
// than in the loop, because the load pushes it out of the caches, and the way into it is taken to lose as much.
func (r *registry) perEvent(c *Counters) (body, dispatch float64) {
	switch l := r.of(c); {
	case l.calibrated > 0 && l.body > 0:
		dispatch = max(0, l.calibrated-l.body)
		if l.dispatch > 0 {
			dispatch = max(dispatch, l.dispatch+l.body-l.loopBody())
		}
		return l.body, dispatch
	case l.calibrated > 0:
		return 0, l.calibrated
	case l.body > 0:
		return l.body, r.dispatch
	}
	return 0, assumed
}

// counted is how often c's programs ran, for a User as of the last reading.
func (r *registry) counted(c *Counters) counts {
	if polled := r.of(c).polled; polled != nil {
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
	before := r.of(c).charged
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

// calibrate sets the cost of an event in seconds, dispatch and body, and that of the dispatch alone, 0 if unknown.
func (c *Counters) calibrate(seconds, dispatch float64) {
	defer c.kernel.Unlock()
	l := c.kernel.Lock().of(c)
	l.calibrated, l.dispatch = seconds, dispatch
}

// calibratedCost is the cost set by calibrate, or 0.
func (c *Counters) calibratedCost() float64 {
	defer c.kernel.Unlock()
	return c.kernel.Lock().of(c).calibrated
}

// Spent is the number of events counted since opening, and the seconds that
// each CPU has spent on counting them.
func (c *Counters) Spent() (events float64, seconds []float64) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
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

// add makes t a mean in which older windows count half as much with each new one.
func (t timing) add(window timing) timing {
	return timing{t.runs/2 + window.runs, t.seconds/2 + window.seconds}
}

// enough runs tell more of a program's price than the loop does. On an idle machine a run takes microseconds, because nothing is
// in the caches: that is no price for a load that begins, and so few cost nothing that matters.
const enough = 2000

// believes reports whether t is a better price than p has.
func (p price) believes(t timing) bool {
	return t.seconds > 0 && (t.runs >= enough || t.runs > 0 && p.loopBody() == 0)
}

// reprice sets what the program takes; what was counted until now stays charged at the price until now.
func (r *registry) reprice(c *Counters, body float64) {
	l := r.of(c)
	l.charged = r.charge(c)
	l.body = body
}
