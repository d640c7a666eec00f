package channel

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/flynn/noise"
)

// A frame is a header, its kind in one byte and the length of its body in three,
// big-endian, and the body. In a session a body is a Noise transport message: the
// ciphertext and its tag, with the header as associated data and the number of the
// record as nonce. A message is one record or more, all but the last of kind part; a
// record that is repeated, lost, moved or changed does not authenticate.
const (
	headerSize = 4
	tagSize    = 16
	// recordSize is the plaintext of a full record: large enough that the overhead of
	// system calls and cipher calls is negligible, and small enough that it stays in a
	// core's cache and that the receiver opens one record while the next is sealed.
	recordSize = 48 << 10
	// maxBody is the largest body of a frame in a session (Noise, section 3).
	maxBody = noise.MaxMsgLen
	// maxPlain is the largest unprotected body, limited by the three bytes of its
	// length.
	maxPlain = 1<<24 - 1
	// together is how much of an unprotected message is copied behind its header, so a
	// small message takes one system call.
	together = 16 << 10
)

type kind uint8

const (
	kindHello  kind = 1 + iota // client to server, in the clear
	kindAccept                 // server to client, in the clear
	kindAgain                  // server to client, in the clear: the ticket is not known
	kindProof                  // evidence, and a share of the next session's key
	kindPart                   // a part of a message, with more to come
	kindLast                   // the last piece of a message
	kindRekey                  // the sender's next record has a new key
	kindClose                  // the sender has closed the session
	kindRefuse                 // the sender detected a fault; one byte says which
)

// codes of kindRefuse.
var codes = []error{1: ErrEvidence, 2: ErrForged, 3: ErrTooLarge, 4: ErrMalformed, 5: ErrTimeout, 6: errSuite, 7: errService}

var (
	errSuite   = fmt.Errorf("%w: they have no suite or version in common", ErrMismatch)
	errService = fmt.Errorf("%w: they are of different services", ErrMismatch)
)

// code is the fault code sent to the peer, 0 for none. What failed because the time limit
// passed is a timeout, as for Counters.
func code(err error) byte {
	if errors.Is(err, ErrTimeout) {
		return byte(slices.Index(codes, ErrTimeout))
	}
	for i, k := range codes {
		if k != nil && errors.Is(err, k) {
			return byte(i)
		}
	}
	return 0
}

// refusal is the error that a code stands for.
func refusal(why []byte) error {
	if len(why) != 1 || int(why[0]) >= len(codes) || why[0] == 0 {
		return fmt.Errorf("%w: a refusal without a reason", ErrMalformed)
	}
	return fmt.Errorf("%w: %s", ErrRefused, codes[why[0]].Error()) // the peer counts this fault
}

// sender makes frames.
type sender struct {
	w       io.Writer
	state   *noise.CipherState // nil: no protection
	out     []byte             // frames not written yet
	records uint64             // under the present key
}

// frame appends a frame to out.
func (s *sender) frame(k kind, body []byte) (err error) {
	size := len(body)
	if s.state != nil {
		size += tagSize
	}
	s.out = slices.Grow(s.out, headerSize+size)
	s.out = append(s.out, byte(k), byte(size>>16), byte(size>>8), byte(size))
	if s.state == nil {
		s.out = append(s.out, body...)
		return nil
	}
	s.records++
	s.out, err = s.state.Encrypt(s.out, s.out[len(s.out)-headerSize:], body)
	return err
}

func (s *sender) flush() error {
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	return cut(err)
}

// control writes a control frame.
func (s *sender) control(k kind, body []byte) error {
	if err := s.frame(k, body); err != nil {
		return err
	}
	return s.flush()
}

func (s *sender) rekey() error {
	if err := s.control(kindRekey, nil); err != nil {
		return err
	}
	s.state.Rekey()
	s.records = 0
	return nil
}

// message writes a message; each full record is written as soon as it is sealed.
func (s *sender) message(parts [][]byte) error {
	for len(parts) > 1 && len(parts[len(parts)-1]) == 0 {
		parts = parts[:len(parts)-1]
	}
	for i, p := range parts {
		for last := i == len(parts)-1; len(p) > 0 || last; {
			n, k := min(len(p), recordSize), kindPart
			if s.state == nil {
				n = min(len(p), maxPlain)
			}
			if last && n == len(p) {
				k, last = kindLast, false
			}
			var err error
			if s.state == nil {
				err = s.plain(k, p[:n])
			} else {
				err = s.frame(k, p[:n])
			}
			if err != nil {
				return err
			}
			if len(s.out) >= recordSize {
				if err := s.flush(); err != nil {
					return err
				}
			}
			p = p[n:]
		}
	}
	if len(parts) == 0 {
		return s.control(kindLast, nil)
	}
	if len(s.out) == 0 {
		return nil
	}
	return s.flush()
}

// plain writes the start of a large body together with the header, and the rest in
// place, since no cipher copies it.
func (s *sender) plain(k kind, body []byte) error {
	head := min(len(body), together-headerSize)
	if err := s.frame(k, body[:head]); err != nil {
		return err
	}
	if head == len(body) {
		return nil
	}
	at := len(s.out) - head - headerSize
	s.out[at+1], s.out[at+2], s.out[at+3] = byte(len(body)>>16), byte(len(body)>>8), byte(len(body))
	if err := s.flush(); err != nil {
		return err
	}
	_, err := s.w.Write(body[head:])
	return cut(err)
}

// receiver reads frames.
type receiver struct {
	r        io.Reader
	state    *noise.CipherState // nil: no protection
	buf      []byte             // buf[from:to] was read but not used yet
	from, to int
}

// Buffer sizes: enough for a handshake; and two frames of the largest kind, from the
// first large one on.
const (
	littleRoom = 2 << 10
	room       = 2 * (headerSize + maxBody)
)

// fill reads until n bytes are in the buffer.
func (r *receiver) fill(n int) error {
	if r.to-r.from >= n {
		return nil
	}
	old := r.buf
	if len(old) < n {
		size := littleRoom
		if n > size {
			size = room
		}
		r.buf = make([]byte, size)
	}
	if len(old) < n || r.from == r.to || len(r.buf)-r.from < n {
		r.from, r.to = 0, copy(r.buf, old[r.from:r.to])
	}
	m, err := io.ReadAtLeast(r.r, r.buf[r.to:], n-(r.to-r.from))
	r.to += m
	return cut(err)
}

// cut is the meaning of an error of the connection: whatever ended it, the peer did not
// announce it.
func cut(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	default:
		return fmt.Errorf("%w: %w", ErrTruncated, err)
	}
}

// overhead is the size of a body besides the plaintext.
func (r *receiver) overhead() int {
	if r.state == nil {
		return 0
	}
	return tagSize
}

// header reads the header of the next frame and checks its length.
func (r *receiver) header() (kind, int, error) {
	if err := r.fill(headerSize); err != nil {
		return 0, 0, err
	}
	h := r.buf[r.from:]
	k, size := kind(h[0]), int(h[1])<<16|int(h[2])<<8|int(h[3])
	if r.state != nil && (size < tagSize || size > maxBody) {
		return 0, 0, fmt.Errorf("%w: a record of %d bytes", ErrMalformed, size)
	}
	return k, size, nil
}

// body appends the plaintext of the frame whose header was read to dst.
func (r *receiver) body(dst []byte, k kind, size int) ([]byte, error) {
	if r.state == nil {
		return r.plainBody(dst, k, size)
	}
	if err := r.fill(headerSize + size); err != nil {
		return nil, err
	}
	frame := r.buf[r.from : r.from+headerSize+size]
	r.from += len(frame)
	out, err := r.state.Decrypt(grown(dst, size-tagSize), frame[:headerSize], frame[headerSize:])
	if err != nil {
		return nil, ErrForged
	}
	return out, nil
}

// grown makes room for n bytes behind dst. It adds a record at a time, or doubles the
// size: a peer cannot make this side hold more memory than it sends.
func grown(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	return append(make([]byte, 0, max(2*cap(dst), len(dst)+n)), dst...)
}

// plainBody reads directly into the message, past the buffer.
func (r *receiver) plainBody(dst []byte, k kind, size int) ([]byte, error) {
	if k != kindPart && k != kindLast && size > maxBody {
		return nil, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, size)
	}
	r.from += headerSize
	for size > 0 {
		piece := min(size, max(cap(dst)-len(dst), maxBody))
		dst = grown(dst, piece)
		into := dst[len(dst) : len(dst)+piece]
		n := copy(into, r.buf[r.from:r.to])
		r.from += n
		if _, err := io.ReadFull(r.r, into[n:]); err != nil {
			return nil, cut(err)
		}
		dst, size = dst[:len(dst)+piece], size-piece
	}
	return dst, nil
}

func (r *receiver) rekey(size int) error {
	if r.state == nil {
		return fmt.Errorf("%w: a new key where there is none", ErrMalformed)
	}
	if rest, err := r.body(nil, kindRekey, size); err != nil || len(rest) > 0 {
		return cause(err, ErrMalformed)
	}
	r.state.Rekey()
	return nil
}
