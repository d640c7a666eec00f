package budget

import (
	"math"
	"testing"
	"time"
)

// TestSlowingDoesNotFlap: work that alone makes the difference is done more often again ever more rarely.
func TestSlowingDoesNotFlap(t *testing.T) {
	const room = 0.005
	var s slowing
	changes := []int{0, 0} // in each hour
	was := 0
	for i := range 2 * 3600 {
		rate := 0.001 + 0.005/float64(max(1, s.times))
		if s.fit(rate, room); s.times != was {
			was = s.times
			changes[i/3600]++
		}
	}
	if changes[0] < 4 || changes[1] >= changes[0] || changes[1] > 16 {
		t.Errorf("changed %v times in two hours", changes)
	}
}

// TestRoom: user space may use what the sources leave, and half in any case.
func TestRoom(t *testing.T) {
	for _, c := range []struct{ share, sources, want float64 }{
		{0.01, 0, 0.01}, {0.01, 0.002, 0.008}, {0.01, 0.3, 0.005}, {0, 0.1, 0}, {1, 3, math.Inf(1)},
	} {
		if got := (Budget{Share: c.share}).room(c.sources); got != c.want {
			t.Errorf("of %g, beside %g: %g, want %g", c.share, c.sources, got, c.want)
		}
	}
}

// slowToRead is a load of a constant rate whose count takes a while to read, on a clock of its own.
type slowToRead struct {
	at, since time.Time
	rate      float64
}

func (s *slowToRead) Attach() error                { s.since = s.at; return nil }
func (s *slowToRead) Detach() error                { return nil }
func (s *slowToRead) Limit([]float64, func()) bool { return false }
func (s *slowToRead) Spent() (float64, []float64) {
	s.at = s.at.Add(time.Millisecond / 2)
	defer func() { s.at = s.at.Add(time.Millisecond / 2) }()
	return s.rate * s.at.Sub(s.since).Seconds(), nil
}

// TestSlowToRead: reading the count at the begin and at the end of a window takes time, which does not enter the rate.
func TestSlowToRead(t *testing.T) {
	s := &slowToRead{at: time.Unix(100, 0), rate: 1e6}
	w := Throttle{reader: s}
	now := func() time.Time { return s.at }
	w.set(true, now)
	s.at = s.at.Add(5 * time.Millisecond)
	w.set(false, now)
	if got := w.within / w.open.Seconds(); math.Abs(got/s.rate-1) > 1e-9 {
		t.Errorf("a rate of %g, want %g", got, s.rate)
	}
}
