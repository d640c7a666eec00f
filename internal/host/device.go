package host

import (
	"context"
	"io"
	"net"

	"github.com/teescope/teescope/internal/disk"
)

// Ref is a buffer whose address an ioctl's argument holds at offset At.
type Ref struct {
	At   int
	Data []byte
}

// Borrowed is a file that another process has open.
type Borrowed interface {
	io.ReaderAt
	io.Closer
}

// dial connects to a socket.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := disk.Call("socket", address); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
