package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKinds: an error has the kind of what it wraps, however deep, and a time limit is one
// whoever had it.
func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		err  error
		kind string
	}{
		{fault{kind: "http 503"}, "http 503"},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, "certificate"},
		{x509.UnknownAuthorityError{}, "certificate"},
		{tls.RecordHeaderError{Msg: "x"}, "tls"},
		{&net.OpError{Op: "remote error", Err: errors.New("alert")}, "tls"},
		{unix.ECONNREFUSED, "refused"},
		{unix.EADDRNOTAVAIL, "no local port"},
		{unix.ECONNRESET, "reset"},
		{unix.EPIPE, "reset"},
		{io.EOF, "closed"},
		{io.ErrUnexpectedEOF, "closed"},
		{os.ErrDeadlineExceeded, timedOut},
		{context.DeadlineExceeded, timedOut},
		{unix.ETIMEDOUT, timedOut},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, timedOut},
		{errors.Join(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, &net.OpError{Op: "close", Err: net.ErrClosed}), timedOut}, // as connect joins them
		{errors.New("anything else"), "protocol"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			if got := kindOf(fmt.Errorf("outer: %w", errors.Join(fmt.Errorf("inner: %w", tc.err), nil))); got != tc.kind {
				t.Errorf("%v: %s, want %s", tc.err, got, tc.kind)
			}
		})
	}
}
