package channel

import (
	"container/list"
	"time"

	"github.com/teescope/teescope/internal/locked"
)

// Ticket resumes a session once, without new evidence. It is a secret.
type Ticket struct {
	suite    Suite
	id       [idSize]byte
	key      [32]byte
	peer     []byte    // the peer's evidence
	verified time.Time // when the peer's evidence was verified, or would have been
	trusted  bool      // it was verified, not only accepted
}

// resumable is how long verified evidence is valid for further sessions.
const resumable = 10 * time.Minute

// usable is the ticket, or nil if the handshake must be fresh.
func (t *Ticket) usable(c Config) *Ticket {
	if t == nil || !t.suits(c) || c.Now().Sub(t.verified) > resumable {
		return nil
	}
	return t
}

// suits reports whether a side with this configuration may resume the ticket's session:
// a session without verification cannot replace one with it.
func (t *Ticket) suits(c Config) bool { return t.suite == c.Suite && (t.trusted || c.Verify == nil) }

// Sessions are a server's resumable sessions: the newest ones, each for ten minutes
// after its client's evidence was verified, each usable once. A nil Sessions keeps
// nothing. It serves any number of connections.
type Sessions struct {
	most    int
	tickets locked.Value[tickets]
}

// tickets are what can be resumed.
type tickets struct {
	byID  map[[idSize]byte]*list.Element
	order list.List // of *Ticket, oldest first
}

// NewSessions keeps at most the given number of sessions.
func NewSessions(most int) *Sessions {
	return &Sessions{most: most, tickets: locked.New(tickets{byID: map[[idSize]byte]*list.Element{}})}
}

// put stores a ticket, and drops those that are too old or too many.
func (s *Sessions) put(t *Ticket, now time.Time) {
	if s == nil || t == nil {
		return
	}
	kept := s.tickets.Lock()
	defer s.tickets.Unlock()
	if e := kept.byID[t.id]; e != nil {
		kept.order.Remove(e)
	}
	kept.byID[t.id] = kept.order.PushBack(t)
	for e := kept.order.Front(); e != nil && (kept.order.Len() > s.most || now.Sub(e.Value.(*Ticket).verified) > resumable); e = kept.order.Front() {
		delete(kept.byID, kept.order.Remove(e).(*Ticket).id)
	}
}

// take removes and returns the ticket with that name, nil if there is none.
func (s *Sessions) take(id [idSize]byte, now time.Time) *Ticket {
	if s == nil {
		return nil
	}
	kept := s.tickets.Lock()
	defer s.tickets.Unlock()
	e := kept.byID[id]
	if e == nil {
		return nil
	}
	delete(kept.byID, id)
	t := kept.order.Remove(e).(*Ticket)
	if now.Sub(t.verified) > resumable {
		return nil
	}
	return t
}

// Len is the number of sessions that could be resumed.
func (s *Sessions) Len() int {
	defer s.tickets.Unlock()
	return s.tickets.Lock().order.Len()
}
