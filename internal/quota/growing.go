package quota

// Growing is a reservation whose size is known only while it is used: of what is being read or unpacked. It is for one goroutine.
type Growing struct {
	share *Share
	total int64
}

// Growing returns a reservation of nothing yet.
func (s *Share) Growing() *Growing { return &Growing{share: s} }

// Add reserves n bytes more, or fails with Exceeded, which names what is wanted in all.
func (g *Growing) Add(n int64) error {
	s := g.share
	if s == nil || n <= 0 {
		return nil
	}
	if !s.free.TryAcquire(n) {
		s.refused.Add(1)
		return &Exceeded{s.Name, g.total + n, s.used.Load() - g.total, s.Limit}
	}
	s.used.Add(n)
	g.total += n
	return nil
}

// Release ends the reservation; later calls do nothing.
func (g *Growing) Release() {
	if g.total > 0 {
		g.share.used.Add(-g.total)
		g.share.free.Release(g.total)
		g.total = 0
	}
}
