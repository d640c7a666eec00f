//go:build linux

package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// made is a connection ready for requests.
type made struct {
	conn    net.Conn
	polled  polled // below conn, nil where Go's poller has it
	session Session
	// took is the time to connect, handshake its TLS part, 0 without TLS.
	took, handshake time.Duration
	resumed         bool
}

// connect makes a connection; ours takes it out of Go's poller.
func (o *Options) connect(ctx context.Context, d Dialect, seed uint64, ours bool) (*made, error) {
	began := time.Now()
	conn, err := o.network().dial(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Address, err)
	}
	m := &made{conn: conn}
	if ours {
		if m.polled, err = o.network().adopt(conn); err != nil {
			return nil, err
		}
		m.conn = m.polled
	}
	below := m.conn
	_ = below.SetDeadline(began.Add(o.Timeout))
	// HandshakeContext would close it when ctx ends, while this goroutine uses it.
	stop := context.AfterFunc(ctx, func() { _ = below.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if o.TLS != nil {
		at := time.Now()
		t := tls.Client(m.conn, o.TLS)
		if err := t.Handshake(); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS with %s: %w", o.Address, err), m.conn.Close())
		}
		m.conn, m.handshake, m.resumed = t, time.Since(at), t.ConnectionState().DidResume
		if got := t.ConnectionState().NegotiatedProtocol; o.Protocol.ALPN == "h2" && got != "h2" {
			return nil, errors.Join(fmt.Errorf("TLS with %s: the server does not speak HTTP/2 (it chose %q)", o.Address, got), m.conn.Close())
		}
	}
	session, conn, err := d.Begin(ctx, m.conn, seed)
	if err != nil {
		return nil, errors.Join(err, m.conn.Close())
	}
	m.session, m.conn, m.took = session, conn, time.Since(began)
	if !stop() {
		return nil, errors.Join(ctx.Err(), m.conn.Close())
	}
	_ = m.conn.SetDeadline(time.Time{})
	return m, nil
}

// fault is an error with its own kind, and the server's message about it.
type fault struct{ kind, said string }

func (f fault) Error() string {
	if f.said == "" {
		return f.kind
	}
	return f.kind + ": " + f.said
}

// kindOf is the kind of an error, as counted in reports.
func kindOf(err error) string {
	var own fault
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &own):
		return own.kind
	case errors.As(err, &certificate), errors.As(err, &authority):
		return "certificate"
	case alerted(err), errors.As(err, &record):
		return "tls"
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "no local port"
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case errors.As(err, &network) && network.Timeout():
		return timedOut
	}
	return "protocol"
}

// alerted reports whether the other side ended TLS with an alert. crypto/tls has an
// unexported type for them, recognized only by the operation.
func alerted(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "remote error"
}

// hopeless reports whether retrying cannot help.
func hopeless(err error) bool { return kindOf(err) == "certificate" || alerted(err) }

// parting picks the error of a broken connection: the read error if TLS read an alert
// there or writing did not fail, else the write error, which only says that the other
// side hung up.
func parting(writing, reading error) error {
	if writing != nil && !alerted(reading) {
		return writing
	}
	return reading
}

// exchange sends the server one request on a connection, reads the answer, and returns how
// many bytes went each way. If the server took no request, it may still have said why.
func exchange(m *made, buf []byte) (a Answer, sent, received int, err error) {
	sent, unsent := m.conn.Write(m.session.Request(nil))
	var in []byte
	for {
		n, err := m.conn.Read(buf)
		received += n
		data := buf[:n]
		if len(in) > 0 {
			in = append(in, data...)
			data = in
		}
		used, a, aerr := feedSession(m.session, data)
		if aerr != nil || a.Ended {
			return a, sent, received, aerr
		}
		in = append(in[:0], data[used:]...)
		switch {
		case errors.Is(err, io.EOF) && unsent == nil:
			if a := m.session.LastAnswer(); a.Ended {
				return a, sent, received, nil
			}
			return Answer{}, sent, received, io.ErrUnexpectedEOF
		case err != nil:
			return Answer{}, sent, received, parting(unsent, err)
		case len(in) > MostBuffered:
			return Answer{}, sent, received, errTooLong
		}
	}
}

// feedSession gives b to the session, up to the end of one answer.
func feedSession(s Session, b []byte) (used int, a Answer, err error) {
	for {
		n, a, err := s.Answer(b[used:])
		used += n
		if err != nil || a.Ended || n == 0 {
			return used, a, err
		}
	}
}

// errTooLong is an answer beyond MostBuffered that the protocol needs in one piece.
var errTooLong = fmt.Errorf("an answer is longer than %d bytes", MostBuffered)

// ready waits until the server answers a request correctly.
func (o *Options) ready(ctx context.Context, d Dialect) error {
	const first, most = 2 * time.Millisecond, 100 * time.Millisecond
	w, pause := o.awaited(), first
	for {
		last := func() error {
			m, err := o.connect(ctx, d, 0, false)
			if err != nil {
				return err
			}
			defer func() { _ = m.conn.Close() }()
			_ = m.conn.SetDeadline(time.Now().Add(o.Timeout))
			a, _, _, err := exchange(m, make([]byte, 16<<10))
			if err == nil && a.Wrong != "" {
				err = fmt.Errorf("ask %s: the answer is wrong: %w", o.Address, fault{a.Wrong, a.Said})
			}
			return err
		}()
		if last == nil {
			return nil
		}
		if err := w.whyNotAgain(ctx, last); err != nil {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, most)
	}
}

// spareDescriptors are those besides the connections'.
const spareDescriptors = 64

// descriptors raises the limit for n connections.
func descriptors(n int) error {
	need := uint64(n + spareDescriptors)
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if l.Cur >= need {
		return nil
	}
	was := l.Cur
	l.Cur = need
	l.Max = max(l.Max, need)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("%d connections need %d open files, the limit is %d and cannot be raised (%w): run ulimit -n %d first, set LimitNOFILE= of the service, or use fewer connections",
			n, need, was, err, need)
	}
	return nil
}
