// Package channel is an attested secure channel: messages between two peers over any
// connection, encrypted, in order, and bound to evidence of what the peers are.
//
// A side that proves what it is has an [Attester], a side that wants proof a [Verifier].
// They are the only door to TEEs: this package knows none. [Client] and [Server] make a
// session over a connection, [Conn.Send] and [Conn.Receive] carry messages, and a [Stream]
// carries bytes. A [Ticket] resumes a session without new evidence. [Mock] is evidence for
// tests.
//
// The channel consists of standard parts. Keys come from the Noise Protocol Framework
// (revision 34, pattern NN with X25519 and SHA-256, NNpsk0 for a resumed session); records
// are sealed with AES-256-GCM or ChaCha20-Poly1305 under the keys of its Split. NN itself
// authenticates nobody: each side proves what it is by evidence (a TEE's quote) over a
// binding of the handshake's hash, which commits to both ephemeral keys and everything
// negotiated. docs/channel.md has the wire format, the resulting properties and those that
// are not claimed; testdata/vectors.txt has test vectors.
//
// Versions follow those of the module. Until version 1 both the interface and the wire
// format may change; sides of different wire formats refuse each other.
package channel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynn/noise"
)

// Suite is the cipher of the records.
type Suite uint8

// The suites. The zero Suite is none.
const (
	AESGCM     Suite = 1 // AES-256-GCM
	ChaChaPoly Suite = 2 // ChaCha20-Poly1305
)

// String is the suite's usual name.
func (s Suite) String() string {
	switch s {
	case AESGCM:
		return "aes-256-gcm"
	case ChaChaPoly:
		return "chacha20-poly1305"
	default:
		return fmt.Sprintf("suite %d", uint8(s))
	}
}

// cipher is the suite's cipher in the framework, or nil.
func (s Suite) cipher() noise.CipherFunc {
	switch s {
	case AESGCM:
		return noise.CipherAESGCM
	case ChaChaPoly:
		return noise.CipherChaChaPoly
	default:
		return nil
	}
}

// Faults of the peer or the connection. Each ends the session: the connection is closed, and
// the fault is counted.
var (
	// ErrEvidence: the peer's evidence is missing or was not accepted.
	ErrEvidence = errors.New("the peer's evidence was refused")
	// ErrForged: a record was changed, replayed, omitted or moved.
	ErrForged = errors.New("a record does not authenticate: it was changed, replayed or out of order")
	// ErrTruncated: the connection ended without the peer's closing frame.
	ErrTruncated = errors.New("the connection was cut: the peer did not close the session")
	// ErrTooLarge: a message exceeds this side's limit.
	ErrTooLarge = errors.New("the message is too large")
	// ErrMalformed: the peer does not follow this protocol.
	ErrMalformed = errors.New("not a frame of this protocol")
	// ErrMismatch: the sides have different versions, suites or services.
	ErrMismatch = errors.New("the sides do not fit")
	// ErrTimeout: a handshake or a message took too long.
	ErrTimeout = errors.New("the time limit has passed")
	// ErrRefused: the peer ended the session because of a fault it detected.
	ErrRefused = errors.New("the peer refused")
)

// Attester makes evidence of what this side is: a quote of a TEE, say. It serves any number
// of sessions at once.
type Attester interface {
	// Attest returns evidence that contains the binding, as its report data. It is at most
	// MostEvidence bytes, and may not be empty.
	Attest(ctx context.Context, binding [64]byte) (evidence []byte, err error)
}

// Verifier judges what the peer is. It serves any number of sessions at once.
type Verifier interface {
	// Verify returns nil if the evidence is genuine, of a peer that this side accepts, and
	// contains the binding. It gets what the peer sent, which may be anything.
	Verify(ctx context.Context, evidence []byte, binding [64]byte) error
}

// AttesterFunc is a function as an Attester.
type AttesterFunc func(ctx context.Context, binding [64]byte) ([]byte, error)

// Attest calls f.
func (f AttesterFunc) Attest(ctx context.Context, binding [64]byte) ([]byte, error) {
	return f(ctx, binding)
}

// VerifierFunc is a function as a Verifier.
type VerifierFunc func(ctx context.Context, evidence []byte, binding [64]byte) error

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, evidence []byte, binding [64]byte) error {
	return f(ctx, evidence, binding)
}

// Config configures a side. Suite, and Verifier for a client, are required; the rest may
// be zero.
type Config struct {
	// Suite is the cipher; both sides must have the same.
	Suite Suite
	// Service names what the session is for, in at most 255 bytes; both sides must have the
	// same. Programs that offer several services under one measurement name each: evidence
	// alone does not tell them apart. It is sent in the clear.
	Service string
	// Attester makes this side's evidence; nil gives none.
	Attester Attester
	// Verifier judges the peer's evidence. A server without one takes any client; a client
	// without one must say Unverified.
	Verifier   Verifier
	Unverified bool
	// MaxMessage is the maximum size of a message in bytes, in both directions; 0 is 32
	// MiB.
	MaxMessage int
	// HandshakeTimeout limits the handshake with its evidence; 0 is 30 s.
	// MessageTimeout limits each Send and each Receive, waiting included; 0 is none.
	HandshakeTimeout, MessageTimeout time.Duration
	// RekeyAfter is the number of records after which a direction takes a new key;
	// 0 is 2^20, which is 48 GiB of large records. A session of AES-GCM under one
	// key stays far below the 2^24.5 records of RFC 8446, section 5.5.
	RekeyAfter uint64
	// Sessions holds what a server needs to resume sessions; nil resumes none. Servers may
	// share one only if their Verifiers accept the same.
	Sessions *Sessions
	// Resume is a ticket of an earlier session with the same server, whose evidence this
	// Verifier would accept. A server that no longer knows it makes a fresh handshake.
	Resume *Ticket
	// ResumeFor is how long verified evidence counts for further sessions; 0 is ten minutes.
	ResumeFor time.Duration
	// Counters counts sessions and faults; nil counts nothing. Sides may share one.
	Counters *Counters
	// Now is the clock of tickets; nil is the system's.
	Now func() time.Time

	random io.Reader // of keys and shares; nil is the system's. Test vectors set it.
}

// Counters count sessions, and faults by kind.
type Counters struct {
	Handshakes, Resumed, Rekeys atomic.Uint64
	// Faults that this side detected. Refused are those that the peer reported.
	Evidence, Forged, Truncated, TooLarge, Malformed, Mismatched, Timeouts, Refused atomic.Uint64
}

// count adds an error to its kind.
func (c *Counters) count(err error) {
	for _, k := range []struct {
		err error
		n   *atomic.Uint64
	}{
		{ErrTimeout, &c.Timeouts}, {ErrEvidence, &c.Evidence}, {ErrForged, &c.Forged}, {ErrTruncated, &c.Truncated},
		{ErrTooLarge, &c.TooLarge}, {ErrMalformed, &c.Malformed}, {ErrMismatch, &c.Mismatched}, {ErrRefused, &c.Refused},
	} {
		if errors.Is(err, k.err) {
			k.n.Add(1)
			return
		}
	}
}

// completed fills in zero fields and refuses invalid ones.
func (c Config) completed(client bool) (Config, error) {
	if c.Suite.cipher() == nil {
		return c, fmt.Errorf("channel: no %v; there are %v and %v", c.Suite, AESGCM, ChaChaPoly)
	}
	if client && c.Verifier == nil && !c.Unverified {
		return c, errors.New("channel: a client without Verifier trusts anyone; set Unverified if that is intended")
	}
	if len(c.Service) > mostService {
		return c, fmt.Errorf("channel: a service's name of %d bytes, limit %d", len(c.Service), mostService)
	}
	if c.MaxMessage < 0 || c.HandshakeTimeout < 0 || c.MessageTimeout < 0 || c.ResumeFor < 0 {
		return c, errors.New("channel: a limit below 0")
	}
	if c.HandshakeTimeout == 0 {
		c.HandshakeTimeout = 30 * time.Second
	}
	return c.limited(), nil
}

// limited fills in the fields that a session needs after its handshake.
func (c Config) limited() Config {
	if c.MaxMessage == 0 {
		c.MaxMessage = 32 << 20
	}
	if c.RekeyAfter == 0 {
		c.RekeyAfter = 1 << 20
	}
	if c.Counters == nil {
		c.Counters = &Counters{}
	}
	if c.ResumeFor == 0 {
		c.ResumeFor = 10 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.random == nil {
		c.random = rand.Reader
	}
	return c
}

// Conn is a session. One goroutine may send while another receives; Close may be called
// at any time. After an error nothing more is sent or received, with two exceptions of Send:
// of a message larger than MaxMessage nothing was sent; and where the connection was cut,
// Receive returns what came before, which may be the peer's reason.
type Conn struct {
	transport io.ReadWriteCloser
	config    Config
	out       sender
	in        receiver

	sending, receiving sync.Mutex
	unsent             error // the connection was cut while this side sent
	fault              atomic.Pointer[error]
	late               atomic.Bool

	peer    []byte
	resumed bool
	earlier []byte // the body of a hello that the server could not answer
	next    *next  // nil for a server
}

// Unprotected is a connection that carries the same messages in the same frames without
// a handshake and without any protection: the baseline of the channel's measurements.
// Only the limits of the configuration apply.
func Unprotected(t io.ReadWriteCloser, c Config) *Conn { return newConn(t, c.limited()) }

func newConn(t io.ReadWriteCloser, c Config) *Conn {
	return &Conn{transport: t, config: c, out: sender{w: t}, in: receiver{r: t}}
}

// Evidence is the peer's evidence in this session, or in the one that it resumes; empty
// if it gave none. It was verified only if Verifier was set.
func (c *Conn) Evidence() []byte { return c.peer }

// Resumed reports whether the session continues an earlier one.
func (c *Conn) Resumed() bool { return c.resumed }

// Ticket resumes this session with the same server, once. Nil for a server.
func (c *Conn) Ticket() *Ticket {
	if c.next == nil {
		return nil
	}
	return c.next.ticket(c)
}

// Send sends one message: all parts, one after the other. Only the cipher copies data.
func (c *Conn) Send(parts ...[]byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.failed(); err != nil {
		return err
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if c.unsent != nil {
		return c.unsent
	}
	if size > c.config.MaxMessage {
		return fmt.Errorf("send a message of %d bytes, limit %d: %w", size, c.config.MaxMessage, ErrTooLarge)
	}
	defer c.limit()()
	if c.out.state != nil && c.out.records >= c.config.RekeyAfter {
		if err := c.out.rekey(); err != nil {
			return c.fail("rekey", err)
		}
		c.config.Counters.Rekeys.Add(1)
	}
	if err := c.out.message(parts); err != nil {
		if !errors.Is(err, ErrTruncated) || c.late.Load() {
			return c.fail("send", err)
		}
		c.unsent = fmt.Errorf("send: %w", err)
	}
	return c.unsent
}

// Receive reads the next message into buf, which grows if needed, and returns it.
// io.EOF means that the peer closed the session.
func (c *Conn) Receive(buf []byte) ([]byte, error) {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	if err := c.failed(); err != nil {
		return nil, err
	}
	defer c.limit()()
	msg, err := c.receive(buf[:0])
	switch {
	case errors.Is(err, errClosed):
		err = io.EOF
		c.fault.CompareAndSwap(nil, &err)
		return nil, io.EOF
	case err != nil:
		return nil, c.fail("receive", err)
	}
	return msg, nil
}

// errClosed: the peer closed the session in order.
var errClosed = errors.New("the peer closed the session")

func (c *Conn) receive(msg []byte) ([]byte, error) {
	for {
		k, size, err := c.in.header()
		if err != nil {
			return nil, err
		}
		switch k {
		case kindPart, kindLast:
			before := len(msg)
			if before+size-c.in.overhead() > c.config.MaxMessage {
				return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, c.config.MaxMessage)
			}
			if msg, err = c.in.body(msg, k, size); err != nil {
				return nil, err
			}
			if k == kindLast {
				return msg, nil
			}
			if len(msg) == before {
				return nil, fmt.Errorf("%w: an empty piece of a message", ErrMalformed)
			}
		case kindRekey:
			if err := c.in.rekey(size); err != nil {
				return nil, err
			}
		case kindClose:
			if rest, err := c.in.body(nil, k, size); err != nil || len(rest) > 0 {
				return nil, cause(err, ErrMalformed)
			}
			if len(msg) > 0 {
				return nil, fmt.Errorf("%w: a message has no end", ErrTruncated)
			}
			return nil, errClosed
		case kindRefuse:
			why, err := c.in.body(nil, k, size)
			if err != nil {
				return nil, err
			}
			return nil, refusal(why)
		default:
			return nil, fmt.Errorf("%w: kind %d in a session", ErrMalformed, k)
		}
	}
}

// cause is err, or other where there is none.
func cause(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Close tells the peer that the session ends here and closes the connection.
func (c *Conn) Close() error {
	closed := error(io.ErrClosedPipe)
	if !c.fault.CompareAndSwap(nil, &closed) {
		if errors.Is(*c.fault.Load(), io.EOF) {
			return c.transport.Close()
		}
		return nil // fail has closed it, or Close
	}
	c.writeLastFrame(kindClose, nil)
	return c.transport.Close()
}

// writeLastFrame writes a last frame, unless a Send is in progress, which the close ends. A peer
// that does not read must not block this side.
func (c *Conn) writeLastFrame(k kind, body []byte) {
	if !c.sending.TryLock() {
		return
	}
	defer c.sending.Unlock()
	hang := time.AfterFunc(time.Second, func() { _ = c.transport.Close() })
	defer hang.Stop()
	_ = c.out.control(k, body)
}

// limit starts the time limit of a message; what it returns ends it.
func (c *Conn) limit() func() {
	if c.config.MessageTimeout == 0 {
		return func() {}
	}
	t := time.AfterFunc(c.config.MessageTimeout, func() {
		c.late.Store(true)
		_ = c.transport.Close()
	})
	return func() { t.Stop() }
}

func (c *Conn) failed() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// fail ends the session because of err, counts it, and reports it to the peer if that
// helps. The first fault is kept.
func (c *Conn) fail(doing string, err error) error {
	if c.late.Load() {
		err = &interrupted{ErrTimeout, err}
	}
	err = fmt.Errorf("%s: %w", doing, err)
	if !c.fault.CompareAndSwap(nil, &err) {
		return *c.fault.Load()
	}
	c.config.Counters.count(err)
	if code := code(err); code != 0 {
		c.writeLastFrame(kindRefuse, []byte{code})
	}
	_ = c.transport.Close()
	return err
}
