package load

import (
	"context"
	"fmt"
	"time"
)

// stretch is a part of the load that nothing interrupts: it starts when nothing is under
// way, and ends when all that was asked is answered. Times are nanoseconds from its start.
type stretch struct {
	from, to int64 // the measured time; no request is sent after it
	width    int64 // of a window
}

// course is the load from its first request to its last: the warm-up, a pause in which
// counters are read, the measured time with a little before it, and another pause.
//
// Without the pauses no count of what a request causes is right: to read counters takes
// some of the measured time, most of it on a busy machine, and what is under way when they
// are read belongs to neither side.
type course struct {
	o      *Options
	r      *Report
	before map[string]float64 // what the server said first; nil until then
}

// lead is how long the load goes on after a pause before it is measured. The pause has emptied
// the server's queue, which in a closed loop is again as long as it was after about the time
// that the end of the warm-up took to be answered.
func (o *Options) lead(drained time.Duration) time.Duration {
	if o.Rate > 0 { // whose queue is what it is at that rate
		drained = 0
	}
	return max(drained, o.window())
}

// run makes both stretches of the load by a function that returns how many requests were
// answered correctly in one. It lets watch observe the measured time.
func (c *course) run(ctx context.Context, load func(s stretch, watch func(base time.Time) error) (uint64, error)) error {
	o, r := c.o, c.r
	warmed, lead := uint64(0), o.lead(0)
	if o.Warm > 0 {
		var err error
		end, began := int64(o.Warm), time.Now()
		if warmed, err = load(stretch{end, end, end}, func(time.Time) error { return nil }); err != nil {
			return err
		}
		lead = o.lead(time.Since(began) - o.Warm)
	}
	if err := c.pause(ctx, true); err != nil {
		return err
	}
	from, to := lead, lead+o.Measure
	var err error
	r.Counted, err = load(stretch{int64(from), int64(to), int64(o.window())}, func(base time.Time) error {
		if err := until(ctx, base.Add(from)); err != nil {
			return err
		}
		used := cpuSeconds()
		err := until(ctx, base.Add(to))
		r.CPUSeconds = cpuSeconds() - used
		return err
	})
	if err != nil {
		return err
	}
	if o.Statistics != nil {
		if r.Expected = r.Counted; o.Statistics.Late {
			r.Expected += warmed
		}
	}
	return c.pause(ctx, false)
}

// pause has counters read. Asking the server, twice in all, is among what is counted: it
// must be as close to the requests as can be, as servers say times too.
func (c *course) pause(ctx context.Context, begins bool) error {
	asks := c.o.Statistics != nil && !c.o.Statistics.Late
	if asks && !begins {
		if err := c.ask(ctx); err != nil {
			return err
		}
	}
	if c.o.Counting != nil {
		if err := c.o.Counting(ctx, begins); err != nil {
			return err
		}
	}
	if asks && begins {
		return c.ask(ctx)
	}
	return nil
}

// askLate asks a server that counts late.
func (c *course) askLate(ctx context.Context) error {
	if c.o.Statistics == nil || !c.o.Statistics.Late {
		return nil
	}
	return c.ask(ctx)
}

// ask asks the server for its statistics: what it says the first time, and from then on
// by how much that has changed.
func (c *course) ask(ctx context.Context) error {
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
