//go:build linux

package load

import (
	"math"
	"math/rand/v2"
)

// schedule gives the moments at which requests are due, in nanoseconds from the start
// of the load. It does not depend on answers, which makes a loop open.
type schedule struct {
	gap     float64 // mean, nanoseconds
	next    float64
	poisson *rand.Rand // nil if the gaps are equal
}

// newSchedule returns the schedule of thread i of n: with equal gaps the threads take turns, and
// independent Poisson streams add up to one.
func newSchedule(rate float64, poisson bool, seed uint64, i, n int) *schedule {
	s := &schedule{gap: 1e9 * float64(n) / rate}
	if poisson {
		s.poisson = rand.New(rand.NewPCG(seed, uint64(i)))
		s.next = s.wait()
	} else {
		s.next = s.gap * float64(i) / float64(n)
	}
	return s
}

// wait is an exponentially distributed gap.
func (s *schedule) wait() float64 { return s.gap * -math.Log(1-s.poisson.Float64()) }

// due is the moment of the next request.
func (s *schedule) due() int64 { return int64(s.next) }

// advance moves on to the next request.
func (s *schedule) advance() {
	if s.poisson != nil {
		s.next += s.wait()
	} else {
		s.next += s.gap
	}
}
