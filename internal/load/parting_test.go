package load_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/teescope/teescope/internal/load"
)

// TestHungUp: the reason that a server gives before it hangs up is reported.
func TestHungUp(t *testing.T) {
	for _, c := range []struct{ protocol, ready, refusal, kind, words string }{
		{"http1", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "status 413", ""},
		{"resp", "$-1\r\n", "-ERR max number of clients reached\r\n", "error reply", "max number of clients reached"},
	} {
		for _, fresh := range []bool{false, true} {
			t.Run(c.protocol+map[bool]string{true: " fresh"}[fresh], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ready := atomic.Bool{}
					o := short(t, c.protocol, faulty(t, func(_ int64, conn net.Conn) {
						if !ready.Swap(true) {
							_, _ = conn.Read(make([]byte, 512))
							_, _ = io.WriteString(conn, c.ready)
							return
						}
						_, _ = conn.Read(make([]byte, 1))
						_, _ = io.WriteString(conn, c.refusal)
						reset(conn)
					}))
					o.Fresh = fresh
					o.Ask.Command = "EXISTS key:{key}"
					r := run(t, o)
					if r.Errors[c.kind] == 0 || !strings.Contains(r.Words[c.kind], c.words) || r.Requests > 0 {
						t.Errorf("%d requests, errors %v with the words %q; want %s: %s", r.Requests, r.Errors, r.Words, c.kind, c.words)
					}
				})
			})
		}
	}
}

// TestAlert: an alert that ends TLS is reported as an error of TLS, without waiting.
func TestAlert(t *testing.T) {
	cert, key, err := load.Certificate("", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	strict := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	accept(t, l, func(_ int64, c net.Conn) { _ = tls.Server(c, strict).Handshake() })
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		o := options(t, "http1", l.Addr().String())
		o.TLS = &tls.Config{InsecureSkipVerify: true, MaxVersion: version}
		if _, err := load.Run(t.Context(), o); err == nil || strings.Contains(err.Error(), "did not become ready") || !strings.Contains(err.Error(), "remote error") {
			t.Errorf("%s: error is %v, want the server's alert at once", tls.VersionName(version), err)
		}
	}
}

// counted counts the bytes that a server reads from all connections.
type counted struct {
	net.Listener
	read atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, l}, err
}

type countedConn struct {
	net.Conn
	of *counted
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.read.Add(int64(n))
	return n, err
}

// TestSentFresh: with a connection per request, the bytes counted as sent are those that the
// server read, including HTTP/2's greeting.
func TestSentFresh(t *testing.T) {
	for _, protocol := range []string{"http1", "http2"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := load.NewVirtual()
				l := &counted{Listener: v}
				serve(t, l, false, hello)
				o := short(t, protocol, v)
				o.Fresh = true
				r := run(t, o)
				connections := r.Answered + 1 // one checked whether the server was ready
				if r.Requests == 0 || len(r.Errors) > 0 || r.Sent*connections != uint64(l.read.Load())*r.Requests {
					t.Errorf("%s: %d bytes sent in %d requests, errors %v; the server read %d bytes on %d connections", protocol, r.Sent, r.Requests, r.Errors, l.read.Load(), connections)
				}
			})
		})
	}
}
