//go:build linux

package load

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// stretch is an uninterrupted part of the load: it starts with nothing in flight, and
// ends when every request is answered. Times are nanoseconds from its start.
type stretch struct {
	from, to int64 // the measured time; no request is sent after it
	width    int64 // of a window
	// tickets are the requests that may still be sent, where their number ends the load; nil where the time does. The
	// width of a window then grows with the time.
	tickets *atomic.Int64
}

// counted is a stretch of a number of requests.
func counted(requests uint64) stretch {
	s := stretch{to: int64(longestLoad), width: int64(time.Millisecond), tickets: new(atomic.Int64)}
	s.tickets.Store(int64(min(requests, math.MaxInt64)))
	return s
}

// allow takes up to n tickets, and returns how many requests may be sent.
func (s *stretch) allow(n int) int {
	if s.tickets == nil {
		return n
	}
	left := s.tickets.Add(-int64(n)) + int64(n)
	return int(max(0, min(left, int64(n))))
}

// spent reports whether no more requests may be sent because of their number.
func (s *stretch) spent() bool { return s.tickets != nil && s.tickets.Load() <= 0 }

// course is the load from its first request to its last: the warm-up, a pause in which
// counters are read, the measured time with a short lead, and another pause.
//
// Without the pauses, counts of what requests cause would be wrong: reading counters
// uses some of the measured time, most of it on a busy machine, and requests in flight
// during the reading belong to neither side.
type course struct {
	o      *Options
	r      *Report
	before map[string]float64 // the server's first statistics; nil until then
}

// lead is how long the load runs after a pause before the measurement. The pause has
// emptied the server's queue; in a closed loop it takes about as long to fill again as
// the end of the warm-up took to be answered.
func (o *Options) lead(drained time.Duration) time.Duration {
	if o.Rate > 0 { // at a fixed rate the queue has the same length before and after
		drained = 0
	}
	return max(drained, o.window())
}

// run makes both stretches of the load with a function that returns the number of
// correct answers in one. It lets watch observe the measured time.
func (c *course) run(ctx context.Context, load func(s stretch, watch func(base time.Time) error) (uint64, error)) error {
	o, r := c.o, c.r
	warmed, lead := uint64(0), o.lead(0)
	if o.Warm > 0 {
		var err error
		end, began := int64(o.Warm), time.Now()
		if warmed, err = load(stretch{from: end, to: end, width: end}, func(time.Time) error { return nil }); err != nil {
			return err
		}
		lead = o.lead(time.Since(began) - o.Warm)
	}
	if err := c.pause(ctx, true); err != nil {
		return err
	}
	from, to := lead, lead+o.Measure
	var err error
	if o.Requests > 0 { // whose time is known at the end
		used := cpuSeconds()
		r.Counted, err = load(counted(o.Requests), func(time.Time) error { return nil })
		r.CPUSeconds = cpuSeconds() - used
		return c.finish(ctx, warmed, err)
	}
	r.Counted, err = load(stretch{from: int64(from), to: int64(to), width: int64(o.window())}, func(base time.Time) error {
		if err := until(ctx, base.Add(from)); err != nil {
			return err
		}
		used := cpuSeconds()
		err := until(ctx, base.Add(to))
		r.CPUSeconds = cpuSeconds() - used
		return err
	})
	return c.finish(ctx, warmed, err)
}

// finish makes the second pause.
func (c *course) finish(ctx context.Context, warmed uint64, err error) error {
	if err != nil {
		return err
	}
	if c.o.Statistics != nil {
		if c.r.Expected = c.r.Counted; c.o.Statistics.Late {
			c.r.Expected += warmed
		}
	}
	return c.pause(ctx, false)
}

// pause has counters read. Asking the server, twice in total, is counted too: it must
// be as close to the requests as possible, because servers also report times.
func (c *course) pause(ctx context.Context, begins bool) error {
	asks := c.o.Statistics != nil && !c.o.Statistics.Late
	if asks && !begins {
		if err := c.readStatistics(ctx); err != nil {
			return err
		}
	}
	if c.o.Counting != nil {
		if err := c.o.Counting(ctx, begins); err != nil {
			return err
		}
	}
	if asks && begins {
		return c.readStatistics(ctx)
	}
	return nil
}

// askLate asks a server that counts late.
func (c *course) askLate(ctx context.Context) error {
	if c.o.Statistics == nil || !c.o.Statistics.Late {
		return nil
	}
	return c.readStatistics(ctx)
}

// readStatistics asks the server for its statistics: the values the first time, the changes since
// then afterwards.
func (c *course) readStatistics(ctx context.Context) error {
	s := c.o.Statistics
	said, versions, err := s.Read(ctx, c.o)
	if err != nil {
		return fmt.Errorf("ask the server for its statistics: %w", err)
	}
	if c.before == nil {
		c.before, c.r.Versions = said, versions
		return nil
	}
	c.r.Server = s.difference(c.before, said)
	return nil
}

// until waits for a moment.
func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
