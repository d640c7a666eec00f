package swtpm_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/host"
)

// TestNoTPM: something that listens, and ends each connection, has neither quotes nor an identity.
func TestNoTPM(t *testing.T) {
	dir, err := host.Local().MkdirShort("teescope-test", "s", host.MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
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
