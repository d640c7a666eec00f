package swtpm_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/attest"
)

// TestNoTPM: something that listens, and ends each connection, has neither quotes nor an identity.
func TestNoTPM(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	device, err := attest.OpenTPM(attest.TPMSettings{Path: socket})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := device.Quote(t.Context(), [attest.Size]byte{}); err == nil {
		t.Error("nobody has made a quote")
	}
	if _, err := device.Identity(); err == nil {
		t.Error("nobody has an identity")
	}
}
