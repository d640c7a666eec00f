package worker

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/teescope/teescope/channel"
)

// variants returns what the measurement compares.
func (m *measurement) variants(ctx context.Context) ([]*variant, error) {
	switch m.measure {
	case "handshake":
		return m.handshakes(ctx)
	case "codec":
		return m.codec(ctx, m.cycles)
	}
	config, err := clientTLS(false)
	if err != nil {
		return nil, err
	}
	var out []*variant
	for _, p := range []struct {
		name       string
		protection byte
	}{{"plain", plainText}, {"channel", channelKeys}, {"tls", tlsKeys}} {
		use := map[string]byte{"echo": useEcho, "stream": useStream}[m.measure]
		s, _, err := m.openSession(ctx, wanted{p.protection, use, byte(m.cipher), serverEvidence}, nil, config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		v := &variant{name: p.name + "_" + m.measure, window: m.stream(s), session: s}
		if m.measure == "echo" {
			v.window = m.echo(s)
		}
		out = append(out, v)
	}
	return out, nil
}

// openSession connects to the far side and makes a session. It returns the time to make the session,
// without that of the connection.
func (m *measurement) openSession(ctx context.Context, w wanted, ticket *channel.Ticket, config *tls.Config) (messenger, time.Duration, error) {
	c, err := m.wiring.dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	if t, ok := c.(*net.TCPConn); ok && w.use == useHandshake {
		_ = t.SetLinger(0) // otherwise thousands of connections would use up the ports
	}
	said := []byte{w.protection, w.use, w.suite, w.evidence}
	if _, err := c.Write(said); err != nil {
		return nil, 0, err
	}
	if _, err := io.ReadFull(c, said[:1]); err != nil {
		return nil, 0, fmt.Errorf("the far side: %w", err)
	}
	began := monotonic()
	var s messenger
	switch w.protection {
	case plainText:
		s = channel.Unprotected(c, channel.Config{})
	case tlsKeys, tlsAgain:
		t := tls.Client(c, config)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, 0, err
		}
		m.tls = tls.CipherSuiteName(t.ConnectionState().CipherSuite)
		s = channel.Unprotected(t, channel.Config{})
	default:
		cfg := channel.Config{Suite: channel.Suite(w.suite), Resume: ticket, Unverified: w.evidence == noEvidence}
		if w.evidence != noEvidence {
			cfg.Verifier = m.proof
		}
		if w.evidence == bothEvidence {
			cfg.Attester = m.proof
		}
		if s, err = channel.Client(ctx, c, cfg); err != nil {
			return nil, 0, err
		}
	}
	if w.use == useHandshake { // its arrival means that both sides are done
		if _, err := s.Receive(nil); err != nil {
			return nil, 0, err
		}
	}
	return s, monotonic().Sub(began), nil
}

// handshakes returns variants that make and close sessions.
func (m *measurement) handshakes(ctx context.Context) ([]*variant, error) {
	attested := byte(serverEvidence)
	if m.mutual {
		attested = bothEvidence
	}
	full, err := clientTLS(false)
	if err != nil {
		return nil, err
	}
	again, err := clientTLS(true)
	if err != nil {
		return nil, err
	}
	session := func(name string, w wanted, config *tls.Config, resume bool) *variant {
		var ticket *channel.Ticket
		one := func() (time.Duration, error) {
			s, took, err := m.openSession(ctx, w, ticket, config)
			if err != nil {
				return 0, err
			}
			if c, ok := s.(*channel.Conn); ok && resume {
				if ticket != nil && !c.Resumed() {
					m.wrong++
				}
				ticket = c.Ticket()
			}
			_ = s.Close() // the far side may have closed first
			return took, nil
		}
		timed := each(one)
		return &variant{name: name, window: func(d time.Duration, took func(time.Duration)) (uint64, time.Duration, error) {
			if resume { // an uncounted new session comes first: the other variants' sessions replace the ticket
				ticket = nil
				if _, err := one(); err != nil {
					return 0, 0, err
				}
			}
			return timed(d, took)
		}}
	}
	suite := byte(m.cipher)
	return []*variant{
		session("bare_handshake", wanted{channelKeys, useHandshake, suite, noEvidence}, nil, false),
		session("attested_handshake", wanted{channelKeys, useHandshake, suite, attested}, nil, false),
		session("resumed_handshake", wanted{channelKeys, useHandshake, suite, attested}, nil, true),
		session("tls_handshake", wanted{tlsKeys, useHandshake, 0, noEvidence}, full, false),
		session("tls_resumed_handshake", wanted{tlsAgain, useHandshake, 0, noEvidence}, again, true),
		{name: "x25519_handshake", window: each(exchange)},
	}, nil
}

// exchange times the X25519 operations of both sides: two keys, two shared secrets.
func exchange() (time.Duration, error) {
	began := monotonic()
	a, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return 0, err
	}
	b, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return 0, err
	}
	ab, err := a.ECDH(b.PublicKey())
	if err != nil {
		return 0, err
	}
	ba, err := b.ECDH(a.PublicKey())
	if err == nil && !bytes.Equal(ab, ba) {
		err = errors.New("the shared secrets differ")
	}
	return monotonic().Sub(began), err
}

// tensorWidth is the number of elements in a row of a tensor message: the hidden size of the
// original experiment's model.
const tensorWidth = 768

// parts returns a new message, and its data, to which number writes.
func (m *measurement) parts() (parts [][]byte, data []byte, err error) {
	data = make([]byte, m.size)
	if _, err := rand.Read(data); err != nil {
		return nil, nil, err
	}
	if m.message == "bytes" {
		return [][]byte{data}, data, nil
	}
	parts, err = channel.Tensor{Name: "hidden_states", DType: channel.F32,
		Shape: []uint32{uint32(m.size / 4 / tensorWidth), tensorWidth}, Data: data}.Parts()
	return parts, data, err
}

// number writes the message's number at both ends of its data.
func number(data []byte, seq uint64) {
	binary.LittleEndian.PutUint64(data, seq)
	binary.LittleEndian.PutUint64(data[len(data)-8:], seq)
}

// numbered reports whether a message has its number at both ends of its data.
func numbered(msg []byte, seq uint64) bool {
	if len(msg) < 16 || binary.LittleEndian.Uint64(msg[len(msg)-8:]) != seq {
		return false
	}
	if t, err := channel.ParseTensor(msg); err == nil {
		msg = t.Data
	}
	return binary.LittleEndian.Uint64(msg) == seq
}

// echo sends messages one at a time, each after the previous one has come back. The last message
// of a window is compared in full, outside the measured time.
func (m *measurement) echo(s messenger) func(time.Duration, func(time.Duration)) (uint64, time.Duration, error) {
	parts, data, err := m.parts()
	var back []byte
	seq := uint64(0)
	one := each(func() (time.Duration, error) {
		seq++
		number(data, seq)
		began := monotonic()
		if err := s.Send(parts...); err != nil {
			return 0, err
		}
		var err error
		if back, err = s.Receive(back); err != nil {
			return 0, err
		}
		took := monotonic().Sub(began)
		if !numbered(back, seq) {
			m.wrong++
		}
		return took, nil
	})
	return func(d time.Duration, took func(time.Duration)) (uint64, time.Duration, error) {
		if err != nil {
			return 0, 0, err
		}
		n, sum, err := one(d, took)
		if err == nil && !bytes.Equal(back, bytes.Join(parts, nil)) {
			m.wrong++
		}
		return n, sum, err
	}
}

// stream sends at least one message without waiting, then waits until the far side confirms that
// it received all of them.
func (m *measurement) stream(s messenger) func(time.Duration, func(time.Duration)) (uint64, time.Duration, error) {
	parts, data, err := m.parts()
	whole := uint64(0)
	for _, p := range parts {
		whole += uint64(len(p))
	}
	return func(d time.Duration, _ func(time.Duration)) (uint64, time.Duration, error) {
		if err != nil {
			return 0, 0, err
		}
		n := uint64(0)
		began := monotonic()
		for ; n == 0 || monotonic().Sub(began) < d; n++ {
			number(data, n)
			if err := s.Send(parts...); err != nil {
				return n, 0, err
			}
		}
		if err := s.Send(nil); err != nil {
			return n, 0, err
		}
		answer, err := s.Receive(nil)
		if err != nil {
			return n, 0, err
		}
		took := monotonic().Sub(began)
		var got sunk
		if err := json.Unmarshal(answer, &got); err != nil {
			return n, 0, fmt.Errorf("the far side's answer: %w", err)
		}
		if got.Bytes != n*whole || got.Wrong > 0 {
			m.wrong += 1 + got.Wrong
		}
		return n, took, nil
	}
}
