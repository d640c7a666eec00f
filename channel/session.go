package channel

import (
	"container/list"
	"sync"
	"time"
)

// Ticket resumes a session once, without new evidence. It is a secret.
type Ticket struct {
	suite    Suite
	service  string
	id       [idSize]byte
	key      [32]byte
	peer     []byte    // the peer's evidence
	verified time.Time // when the peer's evidence was verified, or would have been
	trusted  bool      // it was verified, not only accepted
}

// usable is the ticket, or nil if the handshake must be fresh: a session without
// verification, of another suite or service, or too long ago cannot replace evidence.
func (t *Ticket) usable(c Config) *Ticket {
	if t == nil || t.suite != c.Suite || t.service != c.Service || !t.trusted && c.Verifier != nil || t.old(c.Now(), c.ResumeFor) {
		return nil
	}
	return t
}

// old reports whether the evidence was verified longer ago than it counts.
func (t *Ticket) old(now time.Time, counts time.Duration) bool { return now.Sub(t.verified) > counts }

// Sessions are a server's resumable sessions: the newest ones, each until its client's
// evidence no longer counts (Config.ResumeFor), each usable once. A nil Sessions keeps
// nothing. It serves any number of connections.
type Sessions struct {
	most  int
	mu    sync.Mutex
	byID  map[[idSize]byte]*list.Element
	order list.List // of *Ticket, oldest first
}

// NewSessions keeps at most the given number of sessions.
func NewSessions(most int) *Sessions {
	return &Sessions{most: most, byID: map[[idSize]byte]*list.Element{}}
}

// addTicket stores a ticket, and drops those that are too old or too many.
func (s *Sessions) addTicket(t *Ticket, now time.Time, counts time.Duration) {
	if s == nil || t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[t.id]; e != nil {
		s.order.Remove(e)
	}
	s.byID[t.id] = s.order.PushBack(t)
	for e := s.order.Front(); e != nil && (s.order.Len() > s.most || e.Value.(*Ticket).old(now, counts)); e = s.order.Front() {
		delete(s.byID, s.order.Remove(e).(*Ticket).id)
	}
}

// removeTicket removes and returns the ticket with that name, nil if there is none.
func (s *Sessions) removeTicket(id [idSize]byte) *Ticket {
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
	return s.order.Remove(e).(*Ticket)
}

// Len is the number of sessions that are kept.
func (s *Sessions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}
