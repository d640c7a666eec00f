package channel

import (
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/flynn/noise"
)

// The handshake:
//
//	client  hello    version, suite, resume, service, [ticket id], Noise message 1 (e, or psk, e)
//	server  accept   Noise message 2 (e, ee)
//	server  proof    share, evidence     the first record of the session
//	client  proof    share, evidence     its first record
//
// The client may send with its proof, after one round trip; the server waits for the
// proof. What stands in the hello before message 1 is in the prologue, so a change of
// it breaks the handshake; so is a first hello that the server answered with "again",
// because it does not know the ticket. In a resumed session the proofs have no evidence:
// who knows the ticket's key was verified before. The shares make the next ticket's key.

const (
	version  = 1
	prologue = "teescope channel 1"
	// idSize and shareSize are the sizes in bytes of a ticket's name and of each side's
	// part of its key.
	idSize    = 16
	shareSize = 32
	// mostService is the longest name of a service, whose length is one byte.
	mostService = 255
	// MostEvidence is the maximum size of evidence in bytes: a proof is one record.
	MostEvidence = maxBody - tagSize - shareSize
)

// side is the side that makes evidence; it is part of the binding, so evidence cannot
// be reflected to its maker.
type side string

const (
	clientSide side = "client"
	serverSide side = "server"
)

// binding is what a side's evidence must contain (the report data of a quote): a hash
// of the handshake's hash, which commits to both ephemeral keys and the prologue.
func binding(s side, handshake []byte) [64]byte {
	return sha512.Sum512(fmt.Appendf(nil, "%s evidence of the %s\x00%s", prologue, s, handshake))
}

// Client makes a session with the server at the other end of t. It owns t from then on;
// after an error t is closed.
func Client(ctx context.Context, t io.ReadWriteCloser, cfg Config) (*Conn, error) {
	return open(ctx, t, cfg, true, (*Conn).connect)
}

// Server makes a session with the client at the other end of t. It owns t from then
// on; after an error t is closed.
func Server(ctx context.Context, t io.ReadWriteCloser, cfg Config) (*Conn, error) {
	return open(ctx, t, cfg, false, (*Conn).accept)
}

// open runs a side's handshake within its time limit.
func open(ctx context.Context, t io.ReadWriteCloser, cfg Config, client bool, run func(*Conn, context.Context) error) (*Conn, error) {
	cfg, err := cfg.completed(client)
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = t.Close() })
	c := newConn(t, cfg)
	err = run(c, ctx)
	if !stop() || err != nil {
		return nil, c.fail("handshake", handshakeError(err, context.Cause(ctx)))
	}
	if c.resumed {
		cfg.Counters.Resumed.Add(1)
	} else {
		cfg.Counters.Handshakes.Add(1)
	}
	return c, nil
}

// handshakeError is why a handshake has ended. err is what its last step returned, nil if it had
// just succeeded; cause is why its context has ended, nil if that still runs.
//
// When a context ends, a step that waits for it returns at the same time as the connection
// is closed, so either may come first: what the step returned does not decide. A deadline is
// ErrTimeout, whichever it was: the handshake's, the caller's, or one of an Attester or a
// Verifier of its own. Else the caller's cause comes first. Both stay in the chain.
func handshakeError(err, cause error) error {
	switch {
	case isDeadline(cause), cause == nil && isDeadline(err):
		return &interrupted{ErrTimeout, err}
	case cause != nil:
		return &interrupted{cause, err}
	default:
		return err
	}
}

// interrupted is the error of a step that something else ended.
type interrupted struct{ by, step error }

// Error leaves out that the connection was cut: this side did that.
func (e *interrupted) Error() string {
	if e.step == nil || errors.Is(e.step, ErrTruncated) {
		return e.by.Error()
	}
	return e.by.Error() + ": " + e.step.Error()
}

// Unwrap gives errors.Is both.
func (e *interrupted) Unwrap() []error {
	if e.step == nil {
		return []error{e.by}
	}
	return []error{e.by, e.step}
}

// isDeadline reports whether a time limit has passed.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// noise begins a Noise handshake whose prologue is everything sent in the clear: the hello
// before message 1, and the digest of a hello that the server could not answer.
func (c *Conn) noise(initiator bool, said, psk []byte) (*noise.HandshakeState, error) {
	before := []byte(prologue)
	if c.earlier != nil {
		sum := sha256.Sum256(c.earlier)
		before = append(append(before, " again"...), sum[:]...)
	}
	return noise.NewHandshakeState(noise.Config{CipherSuite: noise.NewCipherSuite(&x25519{}, c.config.Suite.cipher(), noise.HashSHA256), Random: c.config.random,
		Pattern: noise.HandshakeNN, Initiator: initiator, Prologue: append(before, said...), PresharedKey: psk})
}

// x25519 is the framework's function 25519 for one handshake, using crypto/ecdh. It
// keeps the ephemeral key: deriving it from its bytes again, as noise.DH25519 must,
// takes as long as the key exchange itself.
type x25519 struct{ key *ecdh.PrivateKey }

// GenerateKeypair makes the handshake's only key.
func (x *x25519) GenerateKeypair(random io.Reader) (noise.DHKey, error) {
	private := make([]byte, 32)
	_, err := io.ReadFull(random, private)
	if err == nil {
		x.key, err = ecdh.X25519().NewPrivateKey(private)
	}
	if err != nil {
		return noise.DHKey{}, err
	}
	return noise.DHKey{Private: private, Public: x.key.PublicKey().Bytes()}, nil
}

// DH refuses a public key of low order (RFC 7748, section 6.1).
func (x *x25519) DH(_, public []byte) ([]byte, error) {
	peer, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	return x.key.ECDH(peer)
}

// DHLen and DHName are those of the specification, section 12.1.
func (x *x25519) DHLen() int     { return 32 }
func (x *x25519) DHName() string { return "25519" }

func (c *Conn) connect(ctx context.Context) error {
	ticket := c.config.Resume.usable(c.config)
	for {
		hello := append([]byte{version, byte(c.config.Suite), 0, byte(len(c.config.Service))}, c.config.Service...)
		var psk []byte
		if ticket != nil {
			hello[2], psk = 1, ticket.key[:]
			hello = append(hello, ticket.id[:]...)
		}
		hs, err := c.noise(true, hello, psk)
		if err != nil {
			return err
		}
		message, _, _, err := hs.WriteMessage(hello, nil)
		if err != nil {
			return err
		}
		if err := c.out.control(kindHello, message); err != nil {
			return err
		}
		k, body, err := c.clear()
		switch {
		case err != nil:
			return err
		case k == kindAgain && ticket != nil && len(body) == 0:
			ticket, c.earlier = nil, message
			continue
		case k == kindRefuse:
			return refusal(body)
		case k != kindAccept:
			return fmt.Errorf("%w: kind %d for an answer", ErrMalformed, k)
		}
		rest, out, in, err := hs.ReadMessage(nil, body)
		if err != nil || out == nil || len(rest) > 0 {
			return fmt.Errorf("%w: the server's key", ErrForged)
		}
		c.out.state, c.in.state = out, in
		h := hs.ChannelBinding()
		theirs, err := c.verify(ctx, serverSide, h, ticket)
		if err != nil {
			return err
		}
		own, err := c.prove(ctx, clientSide, h)
		if err != nil {
			return err
		}
		c.next = &next{client: own, server: theirs, handshake: h, verified: c.verified(ticket), trusted: c.trusted(ticket)}
		return c.out.flush()
	}
}

func (c *Conn) accept(ctx context.Context) error {
	hs, ticket, err := c.hello()
	if err != nil {
		return err
	}
	message, in, out, err := hs.WriteMessage(nil, nil)
	if err != nil {
		return err
	}
	if err := c.out.frame(kindAccept, message); err != nil {
		return err
	}
	c.out.state, c.in.state, c.resumed = out, in, ticket != nil
	h := hs.ChannelBinding()
	own, err := c.prove(ctx, serverSide, h)
	if err != nil {
		return err
	}
	if err := c.out.flush(); err != nil {
		return err
	}
	theirs, err := c.verify(ctx, clientSide, h, ticket)
	if err != nil {
		return err
	}
	if c.config.Sessions != nil {
		n := next{client: theirs, server: own, handshake: h, verified: c.verified(ticket), trusted: c.trusted(ticket)}
		c.config.Sessions.addTicket(n.ticket(c), c.config.Now(), c.config.ResumeFor)
	}
	return nil
}

// hello reads at most two hellos, until one can be answered: a client whose ticket is
// unknown starts again.
func (c *Conn) hello() (*noise.HandshakeState, *Ticket, error) {
	for {
		k, body, err := c.clear()
		if err != nil {
			return nil, nil, err
		}
		h, err := parseHello(k, body)
		switch {
		case err != nil:
			return nil, nil, err
		case h.version != version || h.suite != c.config.Suite:
			return nil, nil, fmt.Errorf("%w: the client has version %d and %v, this side %d and %v", errSuite, h.version, h.suite, version, c.config.Suite)
		case h.service != c.config.Service:
			return nil, nil, fmt.Errorf("%w: the client wants %q, this side is %q", errService, h.service, c.config.Service)
		case h.resume && c.earlier != nil:
			return nil, nil, fmt.Errorf("%w: a second unknown ticket", ErrMalformed)
		}
		var ticket *Ticket
		var psk []byte
		if h.resume {
			if ticket = c.config.Sessions.removeTicket(h.ticket).usable(c.config); ticket == nil {
				if err := c.out.control(kindAgain, nil); err != nil {
					return nil, nil, err
				}
				c.earlier = body
				continue
			}
			psk = ticket.key[:]
		}
		hs, err := c.noise(false, h.said, psk)
		if err != nil {
			return nil, nil, err
		}
		if rest, _, _, err := hs.ReadMessage(nil, h.message); err != nil || len(rest) > 0 {
			// A client that does not know the key must not use up another client's
			// ticket.
			c.config.Sessions.addTicket(ticket, c.config.Now(), c.config.ResumeFor)
			return nil, nil, fmt.Errorf("%w: the client's hello", ErrForged)
		}
		return hs, ticket, nil
	}
}

// hello is the content of a client's first frame.
type hello struct {
	version byte
	suite   Suite
	resume  bool
	service string
	ticket  [idSize]byte
	said    []byte // all before the Noise message
	message []byte
}

// parseHello reads a hello of any version.
func parseHello(k kind, body []byte) (hello, error) {
	malformed := fmt.Errorf("%w: not a hello", ErrMalformed)
	if k != kindHello || len(body) < 2 {
		return hello{}, malformed
	}
	h := hello{version: body[0], suite: Suite(body[1])}
	if h.version != version {
		return h, nil // the rest is unknown
	}
	if len(body) < 4 || body[2] > 1 {
		return hello{}, malformed
	}
	h.resume = body[2] == 1
	end := 4 + int(body[3])
	named := end
	if h.resume {
		end += idSize
	}
	if len(body) < end {
		return hello{}, malformed
	}
	h.service, h.said, h.message = string(body[4:named]), body[:end], body[end:]
	copy(h.ticket[:], body[named:end])
	return h, nil
}

// clear reads a frame of the handshake, which is not protected yet.
func (c *Conn) clear() (kind, []byte, error) {
	k, size, err := c.in.header()
	if err != nil {
		return 0, nil, err
	}
	if size > 4096 {
		return 0, nil, fmt.Errorf("%w: %d bytes in a handshake", ErrMalformed, size)
	}
	if err := c.in.fill(headerSize + size); err != nil {
		return 0, nil, err
	}
	body := append([]byte(nil), c.in.buf[c.in.from+headerSize:c.in.from+headerSize+size]...)
	c.in.from += headerSize + size
	return k, body, nil
}

// prove appends this side's proof to the output and returns its share.
func (c *Conn) prove(ctx context.Context, s side, handshake []byte) ([]byte, error) {
	proof := make([]byte, shareSize, shareSize+1024)
	if _, err := io.ReadFull(c.config.random, proof); err != nil {
		return nil, err
	}
	if c.config.Attester != nil && !c.resumed {
		evidence, err := c.config.Attester.Attest(ctx, binding(s, handshake))
		if err != nil {
			return nil, fmt.Errorf("make this side's evidence: %w", err)
		}
		if len(evidence) > MostEvidence {
			return nil, fmt.Errorf("make this side's evidence: %d bytes, limit %d", len(evidence), MostEvidence)
		}
		proof = append(proof, evidence...)
	}
	return proof[:shareSize], c.out.frame(kindProof, proof)
}

// verify reads the peer's proof and returns its share.
func (c *Conn) verify(ctx context.Context, s side, handshake []byte, ticket *Ticket) ([]byte, error) {
	k, size, err := c.in.header()
	if err != nil {
		return nil, err
	}
	proof, err := c.in.body(nil, k, size)
	switch {
	case err != nil:
		return nil, err
	case k == kindRefuse:
		return nil, refusal(proof)
	case k != kindProof || len(proof) < shareSize:
		return nil, fmt.Errorf("%w: kind %d for a proof", ErrMalformed, k)
	}
	evidence := proof[shareSize:]
	switch {
	case ticket != nil:
		if len(evidence) > 0 {
			return nil, fmt.Errorf("%w: evidence in a resumed session", ErrMalformed)
		}
		c.peer, c.resumed = ticket.peer, true
	case c.config.Verifier == nil:
		c.peer = evidence
	case len(evidence) == 0:
		return nil, fmt.Errorf("%w: it gave none", ErrEvidence)
	default:
		if err := c.config.Verifier.Verify(ctx, evidence, binding(s, handshake)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEvidence, err)
		}
		c.peer = evidence
	}
	return proof[:shareSize], nil
}

// next is the secret of the next session's ticket.
type next struct {
	client, server, handshake []byte
	verified                  time.Time
	trusted                   bool
}

// verified is when the peer's evidence was verified: resuming does not make it younger.
func (c *Conn) verified(resumed *Ticket) time.Time {
	if resumed != nil {
		return resumed.verified
	}
	return c.config.Now()
}

// trusted reports whether the peer's evidence was verified, in this session or the one
// it resumes.
func (c *Conn) trusted(resumed *Ticket) bool {
	if resumed != nil {
		return resumed.trusted
	}
	return c.config.Verifier != nil
}

// ticket derives the ticket's name and key from both shares, which only the two sides
// know (HKDF, RFC 5869).
func (n *next) ticket(c *Conn) *Ticket {
	secret := append(append([]byte(nil), n.client...), n.server...)
	key, err := hkdf.Key(sha256.New, secret, n.handshake, prologue+" resume", 32+idSize)
	if err != nil {
		return nil // the next session is a fresh one
	}
	return &Ticket{suite: c.config.Suite, service: c.config.Service, key: [32]byte(key[:32]), id: [idSize]byte(key[32:]), peer: c.peer, verified: n.verified, trusted: n.trusted}
}
