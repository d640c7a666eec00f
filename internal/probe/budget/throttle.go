package budget

// A throttle is the governor's state of one source: the source's cost in the last windows, its estimated cost at full
// coverage, and its share of this period. From the windows it also computes coverage and standard error, which go into
// the metrics about the source.

import (
	"math"
	"slices"
	"time"
)

// Source is what a governor keeps within the budget.
type Source struct {
	Reader Governed
	// Steady sources are never throttled, only limited by the user.
	Steady bool
	// Limit is the user's sampling rate: at most this part of the time.
	Limit float64
	// Level of detail that the user chose, and what puts one into force.
	Level  int
	Adjust func(level int)
}

// Governed works in the kernel on every event, and is cheap to detach and attach. Its methods may be called from any goroutine.
type Governed interface {
	Attach() error
	Detach() error
	// Spent returns the number of events counted since opening and the seconds that
	// counting them cost on each CPU, including the entry to the program.
	Spent() (events float64, seconds []float64)
	// Limit has reached called once, soon after the seconds that Spent returns have come up to most on some CPU. It may be
	// called earlier and again, from any goroutine, and must not block. A later limit replaces this one. It reports whether
	// the reader can do so; the governor asks the others for what they have spent, several times a period.
	Limit(most []float64, reached func()) bool
}

// Throttle is the state of one governed source.
type Throttle struct {
	reader Governed
	steady bool
	limit  float64
	// level of detail is the one in force, wanted the user's.
	level, wanted  int
	adjust         func(level int)
	calm, patience int

	// share is the part of the time for which the source is attached; 0 is off.
	share float64
	// full is the cost at full coverage on the busiest core, in cores: the mean
	// of the last windows, of which cost and time are the faded sums in seconds.
	full, cost, time float64
	// may is what it may use in this period, in cores. debt is its earlier overuse in
	// core-seconds, beyond may and slack, because a window was closed late.
	may, debt float64
	// attached and since: now, and since when, with the count then.
	attached bool
	since    time.Time
	from     float64
	// refused is why the last attempt to attach or to detach it failed; nil if it did not.
	refused error

	// Of the current period: when it began for t, the counts then, time attached and the events in it, the planned
	// window, and whether the window was closed early. Attaching and detaching take time, up to tens of
	// milliseconds, in which events are counted from or until a moment that nobody knows: open and within leave it out.
	at         time.Time
	events     float64
	seconds    []float64
	open       time.Duration
	within     float64
	begin, end time.Time
	broken     bool
	look       time.Time // when it is checked next for an exhausted share
	told       bool      // its reader says when the share is exhausted
	// Of the periods that ended since the last round: events counted, events
	// estimated, and how many periods saw nothing and all.
	counted, estimated float64
	blind, periods     int
	last               Coverage
	windows            []window // the last ones
}

// window holds what one attachment window tells: the event rate, the length in seconds of
// the period that it stands for and the part of it that it saw, and the relative error that it may
// have besides that of sampling.
type window struct{ rate, period, part, doubt float64 }

// Coverage is what a round saw of a source.
type Coverage struct {
	// Share is the estimated part of the round's events that was counted; 0 where the
	// source was off.
	Share float64
	// Wait: the events since the last round belong to an unfinished period, so their
	// scale is unknown yet.
	Wait bool
	// Off: the budget does not allow even the shortest window.
	Off bool
	// Refused is why its programs cannot be attached or detached. gone: they could not be attached, and nothing was seen.
	Refused error
	Gone    bool
	// Limited: below full coverage, or below the level that the user chose.
	Limited bool
	// Err is the relative standard error of the number of events plus the doubt of its
	// windows; NaN where it is unknown.
	Err float64
}

// note adds the time since the last note to t's attached time, and the events in it; events is the count now.
func (t *Throttle) note(now time.Time, events float64) {
	if t.attached {
		t.open += now.Sub(t.since)
		t.within += max(0, events-t.from)
		t.since, t.from = now, events
	}
}

// observe adds the ending period to the cost at full coverage and to the estimate of
// all events, and begins the next one. period is the planned length.
func (t *Throttle) observe(now time.Time, s spending, period time.Duration) {
	t.cost *= doubt
	t.seconds = s.seconds
	if open := t.open.Seconds(); t.open >= leastLook {
		n := max(0, s.events-t.events)
		if n > t.within { // the rest was counted while it was attached or detached
			s = s.part(t.within / n)
		}
		t.weigh(s.most, open)
		more, doubt := slowed(s, open)
		if t.broken { // it tells too much rather than too little
			doubt += more + cut(open, min(t.end.Sub(t.begin), period).Seconds()) // without a planned end if it was seen in full before
			more = 0
		}
		length := max(open, now.Sub(t.at).Seconds())
		all := max(n, t.within*(1+(length/open-1)*(1+more)))
		t.remember(window{all / length, length, open / length, doubt})
		t.counted += n
		t.estimated += all
		t.periods++
		t.at = now
	} else if t.share == 0 || !t.attached && t.refused != nil {
		t.blind++
		t.periods++
		t.at = now
	} else { // what was counted while it was attached or detached waits for the next window
		t.broken = false
		return
	}
	t.events, t.open, t.within, t.broken = s.events, 0, 0, false
	if t.time > 0 {
		t.full = t.cost / t.time
	}
}

// part is what a part of the events cost.
func (s spending) part(p float64) spending {
	s.cores = slices.Clone(s.cores)
	for cpu := range s.cores {
		s.cores[cpu] *= p
	}
	s.most *= p
	return s
}

// set attaches or detaches t. A reader that refuses keeps its state, and is asked again with each look. The call can be
// slow, so a window is as long as planned from its return on.
func (t *Throttle) set(on bool, now func() time.Time) {
	switch {
	case on == t.attached:
		return
	case on:
		asked := now()
		if t.refused = t.reader.Attach(); t.refused != nil {
			return
		}
		t.since = now() // before the count is read, as at the end of a window: the time that takes cancels out
		t.from, _ = t.reader.Spent()
		took := t.since.Sub(asked)
		t.begin, t.end = t.begin.Add(took), t.end.Add(took)
	default:
		at := now()
		events, _ := t.reader.Spent()
		if t.refused = t.reader.Detach(); t.refused != nil {
			return
		}
		t.note(at, events)
	}
	t.attached = on
}

// relativeError is the standard error of a number of events, relative to it, that was
// estimated from one window in each of several periods: a stratified sample with one unit
// in each stratum, whose variance neighbouring strata tell (the successive difference
// estimator; Wolter, Introduction to Variance Estimation, section 8.2), with finite
// population correction. On top of it comes the doubt of the windows, as a mean over the
// events. It is NaN for fewer than three windows or none with an event.
func relativeError(windows []window) float64 {
	if len(windows) < 3 {
		return math.NaN()
	}
	var events, variance, doubt float64
	for i, w := range windows {
		events += w.rate * w.period
		doubt += w.rate * w.period * w.doubt
		if i == 0 {
			continue
		}
		v := windows[i-1]
		d := w.rate - v.rate
		variance += d * d / 2 * v.period * w.period * (1 - (v.part+w.part)/2)
	}
	if events == 0 {
		return math.NaN()
	}
	n := float64(len(windows))
	return math.Sqrt(variance*n/(n-1))/events + doubt/events
}

// slowed is the relative amount by which the rate exceeds the one seen in a window of open
// seconds, and the error of that amount. A load that keeps a core busy makes
// 1/(1-b) times as many events when counting does not take the part b of that core. On a core that is idle at times, nothing is
// known but that the load is slowed by that much or less: it may wait for something else.
//
// A busy load also does other things in other proportions while it is slowed, since an event loop finds more events ready at each of its
// waits: Redis made 16 % fewer epoll_waits for each read where every call was counted (docs/lab/performance.md).
// Where counting takes half of a core, the load does little but what is counted, and the error is that of the price of an event.
func slowed(s spending, open float64) (more, doubt float64) {
	// No event takes less time than counting it does. If it appears to, the measurement is wrong.
	const price, proportions, dearest = 1. / 3, 3., 0.75
	var all float64
	for cpu, spent := range s.cores {
		b := min(spent/open, 0.9)
		most, part, known := b/(1-b), 0.5, 0.5
		switch {
		case b > dearest:
			part, known = 0, 1
		case len(s.busy) == len(s.cores) && s.busy[cpu]:
			part, known = 1, max(price, proportions*(1-2*b))
		}
		more += spent * most * part
		doubt += spent * most * known
		all += spent
	}
	if all == 0 {
		return 0, 0
	}
	more /= all
	return more, doubt / all / (1 + more)
}

// cut is the relative amount by which a rate may be too high when its events closed the
// window after open of the planned time: perhaps no event would have followed.
func cut(open, planned float64) float64 {
	if planned <= 0 {
		return 0
	}
	return max(0, 1-open/planned)
}

// tooLittle reports whether a source's grant does not suffice for a window. A source
// that is off needs twice as much to return, so it does not flap.
func (t *Throttle) tooLittle(full, may, least float64) bool {
	if full == 0 {
		return false
	}
	share := t.limit * may / full
	return share < least || t.share == 0 && share < 2*least
}

// weigh adds a period to the mean: it cost most seconds on the busiest core while the
// source was attached for open seconds. A period seen in full replaces the mean. A
// window counts for at least a sixth, or the long time at full coverage before a
// storm would outweigh it.
func (t *Throttle) weigh(most, open float64) {
	if t.share == 1 {
		t.cost, t.time = most, open
		return
	}
	older := min(fade, 5*open/max(t.time, open))
	t.cost, t.time = t.cost*older/doubt+most, t.time*older+open
}

// remember keeps a window for the standard error.
func (t *Throttle) remember(w window) {
	if t.share == 1 && !t.broken { // nothing has to be estimated
		t.windows = nil
		return
	}
	t.windows = append(t.windows, w)
	if n := len(t.windows) - remembered; n > 0 {
		t.windows = t.windows[n:]
	}
}

// decide sets the share of a source that would cost full cores and may cost less.
// fair is an equal part of the allowance, least the smallest useful share.
func (t *Throttle) decide(full, may, fair, least, period float64) {
	t.calm++
	fits := full == 0 || may >= full
	switch {
	case !fits && t.level > 0:
		if t.calm < calm*16 && t.level < t.wanted {
			t.patience = min(t.patience*2, calm*16)
		}
		t.calm = 0
		t.level--
		t.adjust(t.level)
	case !fits:
		t.calm = 0
	case t.level < t.wanted && full < fair*0.3 && t.calm > t.patience:
		t.calm = 0
		t.level++
		t.adjust(t.level)
	}
	share := t.limit
	switch {
	case t.tooLittle(full, may, least):
		share = 0
	case full > 0 && (!fits || t.debt > 0):
		left := max(0, may-t.debt/period)
		share = t.limit * max(least, min(1, left/full)) // least, so that something is seen
	}
	t.share, t.may = share, may
}

// limitTo asks the reader to signal once this period has cost may seconds on any core, and reports whether it can.
func (t *Throttle) limitTo(may float64, reached func()) bool {
	most := slices.Clone(t.seconds)
	for cpu := range most {
		most[cpu] += may
	}
	return t.reader.Limit(most, reached)
}

// overall is what the period has cost the busiest core until now, in seconds.
func (t *Throttle) overall() (most float64) {
	_, seconds := t.reader.Spent()
	for cpu, s := range seconds {
		if cpu < len(t.seconds) {
			most = max(most, s-t.seconds[cpu])
		}
	}
	return most
}

// Spent is that of the source.
func (t *Throttle) Spent() (events float64, seconds []float64) { return t.reader.Spent() }
