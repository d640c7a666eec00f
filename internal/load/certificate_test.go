package load

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
)

func TestCertificate(t *testing.T) {
	cert, key, err := Certificate(BenchmarkSecret, "server.test", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	again, sameKey, err := Certificate(BenchmarkSecret, "server.test", "127.0.0.1")
	if err != nil || !bytes.Equal(cert, again) || !bytes.Equal(key, sameKey) {
		t.Errorf("a second certificate of the same secret differs, error %v", err)
	}
	if _, other, err := Certificate("", "server.test"); err != nil || bytes.Equal(key, other) {
		t.Errorf("a key without a secret is not a new one, error %v", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		t.Fatal("the certificate is not in PEM")
	}
	for _, name := range []string{"server.test", "127.0.0.1", "other.test"} {
		t.Run(name, func(t *testing.T) {
			var wrong x509.HostnameError
			switch err := handshake(t, pair, &tls.Config{RootCAs: roots, ServerName: name}); {
			case name == "other.test" && !errors.As(err, &wrong):
				t.Errorf("a client that wants %s: %v", name, err)
			case name != "other.test" && err != nil:
				t.Errorf("a client that wants %s: %v", name, err)
			}
		})
	}
}

// handshake connects a client to a server with the certificate and returns the client's error.
func handshake(t *testing.T, pair tls.Certificate, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return tls.Client(c, client).Handshake()
}
