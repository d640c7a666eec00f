package worker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/teescope/teescope/channel"
	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/load"
)

// wanted is the near side's request to the far side: the first bytes of a connection.
type wanted struct{ protection, use, suite, evidence byte }

// Protections, and uses of the connection.
const (
	plainText   = 'p'
	channelKeys = 'c'
	tlsKeys     = 't' // every handshake is a full one
	tlsAgain    = 'T' // sessions are resumed

	useEcho      = 'e'
	useStream    = 's'
	useHandshake = 'h'

	noEvidence     = 'n'
	serverEvidence = 's'
	bothEvidence   = 'b'
)

// messenger is a session of a channel, or of a transport with the same messages.
type messenger interface {
	Send(parts ...[]byte) error
	Receive(buf []byte) ([]byte, error)
	Close() error
}

// far serves the near side's connections.
type far struct {
	proof    evidence
	threads  string
	sessions *channel.Sessions
	tls      func(resume bool) (*tls.Config, error)
}

func newFar(proof evidence, threads string) *far {
	var once [2]func() (*tls.Config, error)
	for i := range once {
		once[i] = sync.OnceValues(func() (*tls.Config, error) {
			cert, key, err := load.Certificate(load.BenchmarkSecret, tlsName)
			if err != nil {
				return nil, err
			}
			pair, err := tls.X509KeyPair(cert, key)
			c := benchmarkTLS()
			c.Certificates, c.SessionTicketsDisabled = []tls.Certificate{pair}, i == 0
			return c, err
		})
	}
	return &far{proof: proof, threads: threads, sessions: channel.NewSessions(1000), tls: func(resume bool) (*tls.Config, error) {
		if resume {
			return once[1]()
		}
		return once[0]()
	}}
}

// tlsName is the server's name in its certificate.
const tlsName = "channel.test"

// benchmarkTLS is TLS 1.3 at its fastest with the channel's key exchange: without Go's default
// hybrid one, and with full records from the first byte on. Go does not let a program choose the
// suite of TLS 1.3; with AES instructions it is AES-128-GCM, which needs less work than the
// channel's AES-256-GCM.
func benchmarkTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}, DynamicRecordSizingDisabled: true}
}

// clientTLS returns a configuration that trusts the far side's certificate.
func clientTLS(resume bool) (*tls.Config, error) {
	cert, _, err := load.Certificate(load.BenchmarkSecret, tlsName)
	if err != nil {
		return nil, err
	}
	c := benchmarkTLS()
	c.ServerName, c.RootCAs = tlsName, x509.NewCertPool()
	c.RootCAs.AppendCertsFromPEM(cert)
	if resume {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	return c, nil
}

// serve answers connections until accept fails. An error on a connection ends only that
// connection, and the near side reports it.
func (f *far) serve(ctx context.Context, accept func() (net.Conn, error)) error {
	for {
		c, err := accept()
		switch {
		case errors.Is(err, net.ErrClosed) || ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		go func() {
			_ = f.answer(ctx, c)
			_ = c.Close()
		}()
	}
}

func (f *far) answer(ctx context.Context, c net.Conn) error {
	var b [4]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	if _, err := c.Write(b[:1]); err != nil { // ready: the time of a handshake excludes connecting
		return err
	}
	w := wanted{b[0], b[1], b[2], b[3]}
	if f.threads == "cross" && w.use == useEcho {
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
	}
	s, err := f.session(ctx, c, w)
	if err != nil {
		return err
	}
	switch w.use {
	case useHandshake:
		if err := s.Send(nil); err != nil {
			return err
		}
		_, err := s.Receive(nil)
		return err
	case useEcho:
		var msg []byte
		for {
			if msg, err = s.Receive(msg); err != nil {
				return err
			}
			if err := s.Send(msg); err != nil {
				return err
			}
		}
	case useStream:
		return sink(s)
	default:
		return fmt.Errorf("unknown use %q", w.use)
	}
}

// sink receives messages and answers an empty one with the number of bytes before it, and the
// number of messages without their number at both ends.
func sink(s messenger) error {
	var msg []byte
	var bytes, wrong, seq uint64
	for {
		var err error
		if msg, err = s.Receive(msg); err != nil {
			return err
		}
		if len(msg) > 0 {
			if !numbered(msg, seq) {
				wrong++
			}
			bytes, seq = bytes+uint64(len(msg)), seq+1
			continue
		}
		answer, err := json.Marshal(sunk{bytes, wrong})
		if err != nil {
			return err
		}
		if err := s.Send(answer); err != nil {
			return err
		}
		bytes, wrong, seq = 0, 0, 0
	}
}

type sunk struct{ Bytes, Wrong uint64 }

// session makes the far side's end of the session that the near side wants.
func (f *far) session(ctx context.Context, c net.Conn, w wanted) (messenger, error) {
	switch w.protection {
	case plainText:
		return channel.Unprotected(c, channel.Config{}), nil
	case tlsKeys, tlsAgain:
		config, err := f.tls(w.protection == tlsAgain)
		if err != nil {
			return nil, err
		}
		t := tls.Server(c, config)
		return channel.Unprotected(t, channel.Config{}), t.HandshakeContext(ctx)
	case channelKeys:
		cfg := channel.Config{Suite: channel.Suite(w.suite), Sessions: f.sessions}
		if w.evidence != noEvidence {
			cfg.Attester = f.proof
		}
		if w.evidence == bothEvidence {
			cfg.Verifier = f.proof
		}
		return channel.Server(ctx, c, cfg)
	default:
		return nil, fmt.Errorf("unknown protection %q", w.protection)
	}
}

// evidence is how the sides attest.
type evidence struct {
	channel.Attester
	channel.Verifier
}

// newEvidence opens a provider. Everything in mock and simulated is public: they prove nothing.
func newEvidence(name string, delay time.Duration) (evidence, error) {
	if name == "mock" {
		m := channel.NewMock(load.BenchmarkSecret)
		return evidence{m, m}, nil
	}
	p, err := attest.Find(name)
	if err != nil {
		return evidence{}, err
	}
	q, service, err := p.Open(attest.Settings{Delay: delay, Parallel: 1})
	if err != nil {
		return evidence{}, fmt.Errorf("evidence %s: %w", name, err)
	}
	collateral := attest.Cached(service, 0)
	return evidence{
		channel.AttesterFunc(func(ctx context.Context, binding [64]byte) ([]byte, error) {
			e, err := q.Quote(ctx, binding)
			if err != nil {
				return nil, err
			}
			return e.Pack()
		}),
		channel.VerifierFunc(func(ctx context.Context, b []byte, binding [64]byte) error {
			e, err := attest.Unpack(b)
			if err != nil {
				return err
			}
			return attest.Verify(ctx, e, binding, collateral, monotonic())
		}),
	}, nil
}
