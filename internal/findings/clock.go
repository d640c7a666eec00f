package findings

import (
	"maps"
	"time"
)

// A clock that was ahead leaves times from the future. Compared with the right time they would keep findings open,
// rules young and silences in force until the clock gets there again, so they become the present.

// earlier compares by the wall clock. Times of one process also have a reading of the monotonic clock, by which no time
// is from the future.
func earlier(a, b time.Time) bool { return a.Round(0).Before(b.Round(0)) }

// noLater returns t, or at if that is earlier.
func noLater(t, at time.Time) time.Time {
	if earlier(at, t) {
		return at
	}
	return t
}

// NoLater returns the record without times after at.
func (r Record) NoLater(at time.Time) Record {
	r.Since, r.LastSeen = noLater(r.Since, at), noLater(r.LastSeen, at)
	if r.Until != nil {
		until := noLater(*r.Until, at)
		r.Until = &until
	}
	if r.Ended != nil {
		ended := noLater(*r.Ended, at)
		r.Ended = &ended
	}
	return r
}

// gap reports whether too much time passed for a finding to be the same one.
func gap(from, to time.Time) bool { return to.Round(0).Sub(from.Round(0)) > longestGap }

// rewind prepares an evaluation for a clock that was set. After a gap no finding continues.
func (v *evaluation) rewind(b *book, at time.Time) {
	if !v.last.IsZero() && gap(v.last, at) {
		v.settled = false
		clear(b.began)
	}
	b.rewind(at)
	v.last = at
	v.opts.Started, v.first = noLater(v.opts.Started, at), noLater(v.first, at)
}

// rewind removes times after at.
func (b *book) rewind(at time.Time) {
	for _, r := range b.open {
		*r = r.NoLater(at)
	}
	for k, t := range maps.All(b.began) {
		b.began[k] = noLater(t, at)
	}
	for i, r := range b.closed {
		b.closed[i] = r.NoLater(at)
	}
	b.forgot = noLater(b.forgot, at)
}
