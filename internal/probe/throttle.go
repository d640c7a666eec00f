package probe

import (
	"math"
	"time"
)

// throttle is the state of one governed source.
type throttle struct {
	reader Governed
	// steady: it is never throttled, only limited as the user says.
	steady bool
	// limit is the user's sampling rate: at most this part of the time.
	limit float64
	// level of detail is the one in force, wanted the user's.
	level, wanted  int
	adjust         func(level int)
	scope          Scope // for adjust
	calm, patience int

	// share is the part of the time for which the source is attached; 0 is off.
	share float64
	// full is the cost at full coverage on the busiest core, in cores: the mean
	// of the last windows, of which cost and time are the faded sums in seconds.
	full, cost, time float64
	// may is what it may use in this period, in cores; debt is what it used before
	// in core-seconds, more than that and than what was nobody's, because a window
	// was closed late.
	may, debt float64
	// attached and since: now, and since when.
	attached bool
	since    time.Time

	// Of the current period: when it began for t, the counts then, time attached, the planned
	// window, and whether the window was closed early.
	at         time.Time
	events     float64
	seconds    []float64
	open       time.Duration
	begin, end time.Time
	broken     bool
	// Of the periods that ended since the last round: events counted, events
	// estimated, and how many periods saw nothing and all.
	counted, estimated float64
	blind, periods     int
	last               coverage
	windows            []window // the last ones
}

// window is what was seen in one: events a second, how long it was, and by how
// much of itself the rate may have been another unseen.
type window struct{ rate, seconds, bias float64 }

// coverage is what a round saw of a source.
type coverage struct {
	// share is the part of the events of the round that was counted, by the
	// estimate; 0 where the source was off and nothing can be said.
	share float64
	// wait: what was counted since the last round belongs to a period that has not
	// ended, so that it is not known yet what it stands for.
	wait bool
	// off: the budget has no room for it at all.
	off bool
	// limited: below full coverage, or below the level that the user chose.
	limited bool
	// err is the standard error relative to the number of events, and by how much the
	// way of counting may be wrong in each window; NaN where it is not known.
	err float64
}

// scale is what an event that was counted stands for.
func (c coverage) scale() float64 {
	switch {
	case c.wait:
		return hold
	case c.share == 0:
		return 0
	}
	return 1 / c.share
}

// note adds the time since the last note to what t was attached.
func (t *throttle) note(now time.Time) {
	if t.attached {
		t.open += now.Sub(t.since)
		t.since = now
	}
}

// set attaches or detaches t. A reader that refuses stays as it is; its next
// reading says so. The call itself can take long on a machine whose cores are all
// taken, so the clock is read when it has returned.
func (t *throttle) set(on bool, now func() time.Time) {
	if on == t.attached {
		return
	}
	if on {
		if t.reader.Attach() != nil {
			return
		}
		t.since = now()
	} else {
		if t.reader.Detach() != nil {
			return
		}
		t.note(now())
	}
	t.attached = on
}

// relativeError is the standard error of a rate estimated from windows that are
// a part f of the time, relative to the rate: that of a ratio estimator with the
// finite population correction (Cochran, Sampling Techniques, section 6.4); and
// on top of it the bias of the windows, as a mean over the events. It is NaN for
// fewer than three windows or none with an event.
func relativeError(windows []window, f float64) float64 {
	if len(windows) < 3 {
		return math.NaN()
	}
	var events, time, bias float64
	for _, w := range windows {
		events += w.rate * w.seconds
		time += w.seconds
		bias += w.rate * w.seconds * w.bias
	}
	if events == 0 || time == 0 {
		return math.NaN()
	}
	n := float64(len(windows))
	mean, each := events/time, time/n
	var ss float64
	for _, w := range windows {
		d := (w.rate - mean) * w.seconds
		ss += d * d
	}
	return math.Sqrt((1-f)*ss/(n-1)/n)/(mean*each) + bias/events
}

// slowed is by how much of itself a rate may have been higher than what was seen
// of it: a load that keeps a core busy does less while a part of that core, busy,
// goes to counting. A load that waits for something else is not slowed.
func slowed(busy float64) float64 {
	busy = min(busy, 0.9)
	return busy / (1 - busy)
}

// cut is by how much of itself a rate may be too high that was seen in a window which was
// closed after open of the planned time because of what was seen in it: perhaps nothing
// would have followed.
func cut(open, planned float64) float64 {
	if planned <= 0 {
		return 0
	}
	return max(0, 1-open/planned)
}

// tooLittle reports whether what a source may use does not suffice for a window.
// One that is off comes back with room to spare, so that it does not come and go.
func (t *throttle) tooLittle(full, may, least float64) bool {
	if full == 0 {
		return false
	}
	share := t.limit * may / full
	return share < least || t.share == 0 && share < 2*least
}

// weigh takes a period that cost most seconds on the busiest core while the source
// was attached for open seconds into the mean. A period that was seen in full
// needs no others beside it. A window always counts for a sixth at least, or the
// long time at full coverage before a storm would outweigh it.
func (t *throttle) weigh(most, open float64) {
	if t.share == 1 {
		t.cost, t.time = most, open
		return
	}
	older := min(fade, 5*open/max(t.time, open))
	t.cost, t.time = t.cost*older/doubt+most, t.time*older+open
}

// remember keeps what a window saw, for the standard error.
func (t *throttle) remember(w window) {
	if t.share == 1 { // nothing has to be estimated
		t.windows = nil
		return
	}
	t.windows = append(t.windows, w)
	if n := len(t.windows) - remembered; n > 0 {
		t.windows = t.windows[n:]
	}
}

// decide sets the share of a source that would cost full cores and may cost less.
// fair is an equal part of the allowance, least the smallest share worth having.
func (t *throttle) decide(full, may, fair, least, period float64) {
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

// overdrawn reports whether the period has cost some core more than so many
// seconds: the load grew since the window was planned. A window is not closed for
// less, because one that is closed by the events it sees tells too high a rate.
func (t *throttle) overdrawn(most float64) bool {
	_, seconds := t.reader.Spent()
	for cpu, s := range seconds {
		if cpu < len(t.seconds) && s-t.seconds[cpu] > most {
			return true
		}
	}
	return false
}
