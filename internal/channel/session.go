package channel

import (
	"container/list"
	"sync"
	"time"
)

// Ticket resumes a session once, without new evidence. It is a secret.
type Ticket struct {
	suite    Suite
	id       [idSize]byte
	key      [32]byte
	peer     []byte    // the peer's evidence
	verified time.Time // when the peer's evidence was, or would have been
	trusted  bool      // it was verified, and not just taken
}

// resumable is how long evidence that was verified stands for further sessions.
const resumable = 10 * time.Minute

// usable is the ticket, or nil where the handshake has to be fresh.
func (t *Ticket) usable(c Config) *Ticket {
	if t == nil || !t.suits(c) || c.Now().Sub(t.verified) > resumable {
		return nil
	}
	return t
}

// suits reports whether a side that is so configured may resume the ticket's session: one
// in which nothing was verified stands for nothing.
func (t *Ticket) suits(c Config) bool { return t.suite == c.Suite && (t.trusted || c.Verify == nil) }

// Sessions are what a server keeps to resume sessions: the newest ones, each for
// ten minutes after its client's evidence was verified, each for one use. A nil
// Sessions keeps nothing. It serves any number of connections.
type Sessions struct {
	mu    sync.Mutex
	most  int
	byID  map[[idSize]byte]*list.Element
	order list.List // of *Ticket, oldest first
}

// NewSessions keeps at most the given number of sessions.
func NewSessions(most int) *Sessions {
	return &Sessions{most: most, byID: map[[idSize]byte]*list.Element{}}
}

// put keeps a ticket, and forgets those that are too old or too many.
func (s *Sessions) put(t *Ticket, now time.Time) {
	if s == nil || t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[t.id]; e != nil {
		s.order.Remove(e)
	}
	s.byID[t.id] = s.order.PushBack(t)
	for e := s.order.Front(); e != nil && (s.order.Len() > s.most || now.Sub(e.Value.(*Ticket).verified) > resumable); e = s.order.Front() {
		delete(s.byID, s.order.Remove(e).(*Ticket).id)
	}
}

// take removes and returns the ticket of that name, nil where there is none.
func (s *Sessions) take(id [idSize]byte, now time.Time) *Ticket {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return nil
	}
	delete(s.byID, id)
	t := s.order.Remove(e).(*Ticket)
	if now.Sub(t.verified) > resumable {
		return nil
	}
	return t
}

// Len is the number of sessions that could be resumed.
func (s *Sessions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}
