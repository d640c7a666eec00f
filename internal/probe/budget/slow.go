package budget

// Background work of user space, such as the scan of all threads, runs less often if user space does not fit into the
// budget: half as often, then a quarter. This file decides how often; the readers and the rules follow.

import "math"

const (
	// ownPart is the part of the budget that user space keeps while programs in the kernel could use all of it.
	ownPart = 0.5
	// MostSlowed bounds how much less often work that can wait is done.
	MostSlowed = 4
)

// slowing decides how much less often work in user space is done that can wait: evaluations of rules, and walks over
// threads.
type slowing struct {
	mean  float64 // what user space uses of each core, smoothed over calm periods
	times int     // 1, 2 or 4; 0 before the first period
	// steps is the number of periods since times changed. patience is how many must pass before work
	// is done more often again; it doubles when that did not last.
	steps, patience int
}

// fit ends a period in which user space used rate of each core, and could have used room.
func (s *slowing) fit(rate, room float64) {
	if s.times == 0 {
		s.times, s.patience = 1, calm
	}
	s.mean += (rate - s.mean) / calm
	if s.steps++; s.steps < calm {
		return
	}
	switch {
	case s.mean > room && s.times < MostSlowed:
		if s.times == 1 && s.steps < 2*s.patience {
			s.patience = min(2*s.patience, 16*calm)
		}
		s.times, s.steps = 2*s.times, 0
	case s.mean < aim*room && s.times > 1 && s.steps >= s.patience:
		s.times, s.steps = s.times/2, 0
	}
}

// room is what user space may use of each core where the sources need that much of it: what they leave of the
// budget, and ownPart in any case. All of each core is no limit.
func (b Budget) room(sources float64) float64 {
	if b.Share >= 1 {
		return math.Inf(1)
	}
	return max(b.Share*ownPart, b.Share-sources)
}

// Slowed is how many times less often than usual work in user space is done that can wait, because user space does not fit
// into the budget, or 0 before a period has ended.
func (g *Governor) Slowed() int {
	held := g.books.Lock()
	defer g.books.Unlock()
	return held.slow.times
}
