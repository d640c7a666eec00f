package channel

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Stream carries bytes over a session, as a TCP connection does: each direction ends by
// itself. A direction's bytes are messages of any size; an empty message is its end. Both
// sides of a session must use it as a stream. One goroutine may read while another writes.
type Stream struct {
	conn *Conn

	reading sync.Mutex
	buf     []byte // of the last message
	rest    []byte // what of it was not read yet
	ended   error

	writing sync.Mutex
	piece   int
	closed  bool
}

// NewStream makes a stream of a session. A message carries at most piece bytes; 0 is 48 KiB,
// a full record. The peer's pieces must not exceed MaxMessage.
func NewStream(c *Conn, piece int) *Stream {
	if piece <= 0 {
		piece = recordSize
	}
	return &Stream{conn: c, piece: min(piece, c.config.MaxMessage)}
}

// Conn is the session.
func (s *Stream) Conn() *Conn { return s.conn }

// receive makes sure that there is something to read. It returns io.EOF when the peer has
// ended its direction, and ErrTruncated when the session was closed before that.
func (s *Stream) receive() error {
	if s.ended == nil && len(s.rest) == 0 {
		msg, err := s.conn.Receive(s.buf)
		switch {
		case errors.Is(err, io.EOF):
			s.ended = fmt.Errorf("%w before the end of its stream", ErrTruncated)
		case err != nil:
			s.ended = err
		case len(msg) == 0:
			s.ended = io.EOF
		default:
			s.buf, s.rest = msg, msg
		}
	}
	if len(s.rest) > 0 {
		return nil
	}
	return s.ended
}

// Read is that of io.Reader. Bytes that were cut off are never followed by io.EOF.
func (s *Stream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.receive(); err != nil {
		return 0, err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// WriteTo is that of io.WriterTo: it writes each message as it comes.
func (s *Stream) WriteTo(w io.Writer) (n int64, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		if err := s.receive(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		m, err := w.Write(s.rest)
		n, s.rest = n+int64(m), s.rest[m:]
		if err != nil {
			return n, err
		}
	}
}

// Write is that of io.Writer.
func (s *Stream) Write(p []byte) (n int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	for n < len(p) {
		m := min(len(p)-n, s.piece)
		if err := s.conn.Send(p[n : n+m]); err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// CloseWrite ends this side's direction. The other one goes on.
func (s *Stream) CloseWrite() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.conn.Send()
}

// Close ends the session. A direction that has not ended was cut off, and the peer sees
// that.
func (s *Stream) Close() error { return s.conn.Close() }
