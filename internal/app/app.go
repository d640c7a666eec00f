// Package app asks servers how many requests they have answered, which is what a
// cost per request is divided by. An App knows one kind of server and keeps
// nothing; the members are in app/kinds.
//
// What a server says is foreign text: it may be wrong, endless, or never come.
// Connections are bounded in time by the context and in length by Most.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/teescope/teescope/internal/host"
)

// App is a kind of server.
type App struct {
	Name string
	// Doc says in a sentence what counts as a request, Address what an address looks
	// like.
	Doc, Address string
	// Check says what is wrong with an address.
	Check func(address string) error
	// Counter: the target must name one.
	Counter bool
	// Read returns the requests that the server has answered since it started.
	Read func(context.Context, *host.Host, Target) (requests float64, err error)
}

// Target is one server to be asked.
type Target struct {
	App *App
	// Process is the name of its process in the label, as the user gave it.
	Process string
	// Address is an absolute path of a unix socket or HOST:PORT, and a URL where the
	// server speaks HTTP.
	Address string
	// User and Database are used by the servers that know them.
	User, Database string
	// PasswordFile holds the password, "" for none; it is read for every question,
	// so that it may change.
	PasswordFile string
	// Counter is the name of the counter where the server has many.
	Counter string
}

// String names the target in messages.
func (t Target) String() string { return fmt.Sprintf("%s at %s", t.App.Name, t.Address) }

// Most is what a server may say in answer to one question, in bytes.
const Most = 16 << 20

// ErrTooLong is the error of reading more than Most bytes.
var ErrTooLong = fmt.Errorf("it says more than %d MiB", Most>>20)

// Password reads the password file; the end of its line is no part of it. The file
// is in the tree of this process, as the configuration is that names it.
func (t Target) Password() (string, error) {
	if t.PasswordFile == "" {
		return "", nil
	}
	const longest = 4096
	b, err := host.Local().ReadFrom(t.PasswordFile, 0, longest+1)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the password: %w", err)
	case len(b) > longest:
		return "", fmt.Errorf("read the password: %s holds more than %d bytes", t.PasswordFile, longest)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", fmt.Errorf("read the password: %s is empty", t.PasswordFile)
	}
	return password, nil
}

// Dial connects to an address. The connection ends with the context, of which it
// takes the deadline, and gives at most Most bytes.
func Dial(ctx context.Context, h *host.Host, address string) (net.Conn, error) {
	c, err := h.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(end); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	b := &bounded{Conn: c}
	b.left.Store(Most)
	return b, nil
}

// bounded is a connection that says so much and no more. Reads come one after the
// other, but not always from one goroutine.
type bounded struct {
	net.Conn
	left atomic.Int64
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	left := b.left.Load()
	if left == 0 {
		return 0, ErrTooLong
	}
	n, err := b.Conn.Read(p[:min(int64(len(p)), left)])
	b.left.Add(int64(-n))
	return n, err
}

// CheckSocket says what is wrong with the address of a server that does not speak HTTP.
func CheckSocket(address string) error {
	if path.IsAbs(address) {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
		return fmt.Errorf("%q: want HOST:PORT or the absolute path of a unix socket", address)
	}
	return nil
}
