// Package servers asks servers for their own counters: for the number of requests
// answered, by which a cost per request is divided, and for all their statistics.
// An App knows one kind of server and holds no state; each has a file here and a
// line in All.
//
// A server's answer is foreign text: it may be wrong, endless, or never come.
// Connections are bounded in time by the context and in length by Most.
package servers

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// Doc says in a sentence what counts as a request, Address is an example of one.
	Doc, Address string
	// Check says what is wrong with an address.
	Check func(address string) error
	// Counter: the target must name one.
	Counter bool
	// Read returns the requests that the server has answered since it started.
	Read func(context.Context, *host.Host, Target) (requests float64, err error)
	// Ask returns the server's statistics as text, by the server's names. It is nil
	// for a kind of server that has no fixed names.
	Ask func(context.Context, Question) (map[string]string, error)
	// Gauges are the statistics that are levels; all other numbers are counters.
	Gauges []string
	// Version is the statistic that holds the server's version.
	Version string
	// Late: the server counts the requests of a connection when that has ended.
	Late bool
}

// Question is what it takes to ask a server.
type Question struct {
	// Dial connects. TLS, where it is used, is the question's own affair.
	Dial func(context.Context) (net.Conn, error)
	// Address is the server's, in the form that its App takes.
	Address string
	// User, Database and Password are "" for the server's default.
	User, Database, Password string
	// Brief asks for the statistics that count requests, and maybe others.
	Brief bool
	// Plain never encrypts.
	Plain bool
	// Await is the name of a client whose connections must have ended before a server
	// that counts late answers.
	Await string
}

// question is how the monitor asks for the requests of a target.
func (t Target) question(h *host.Host) (Question, error) {
	password, err := t.Password()
	return Question{
		Dial:    func(ctx context.Context) (net.Conn, error) { return Dial(ctx, h, socket(t.Address)) },
		Address: t.Address, User: t.User, Database: t.Database, Password: password, Brief: true,
	}, err
}

// requests is the Read of an App that counts requests by some of its statistics.
func requests(ask func(context.Context, Question) (map[string]string, error), sum func(map[string]string) (float64, error)) func(context.Context, *host.Host, Target) (float64, error) {
	return func(ctx context.Context, h *host.Host, t Target) (float64, error) {
		q, err := t.question(h)
		if err != nil {
			return 0, err
		}
		statistics, err := ask(ctx, q)
		if err != nil {
			return 0, err
		}
		return sum(statistics)
	}
}

// count reads a whole number that a float64 holds exactly.
func count(s string) (float64, error) {
	n, err := strconv.ParseUint(s, 10, 53)
	if err != nil {
		return 0, fmt.Errorf("it counts %.60q; want a whole number", s)
	}
	return float64(n), nil
}

// Target is one server to be asked.
type Target struct {
	App *App
	// Process is the label's value: the name as the kernel keeps it.
	Process string
	// Address is an absolute path of a unix socket or HOST:PORT, and a URL where the
	// server speaks HTTP.
	Address string
	// User and Database are used by the servers that know them.
	User, Database string
	// PasswordFile holds the password, "" for none. It is read for every question, so
	// it may change.
	PasswordFile string
	// Counter is the name of the counter where the server has many.
	Counter string
	// Pages reads the page that has the Counter.
	Pages Pages
}

// String names the target in messages.
func (t Target) String() string { return fmt.Sprintf("%s at %s", t.App.Name, t.Address) }

// Most is the longest answer to one question, in bytes.
const Most = 16 << 20

// ErrTooLong is the error of reading more than Most bytes.
var ErrTooLong = fmt.Errorf("it says more than %d MiB", Most>>20)

// Password reads the password file, without the end of its line. The file is in
// the tree of this process, like the configuration that names it.
func (t Target) Password() (string, error) {
	if t.PasswordFile == "" {
		return "", nil
	}
	const longest = 4096
	b, err := host.ReadRegular(t.PasswordFile, longest)
	if err != nil {
		err = fmt.Errorf("read the password: %w", err)
		return "", &host.Private{Text: err.Error(), Shown: strings.ReplaceAll(err.Error(), t.PasswordFile, "the password_file"), Err: err}
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", fmt.Errorf("read the password: %s is empty", t.PasswordFile)
	}
	return password, nil
}

// Dial connects to an address. The connection takes the context's deadline and
// gives at most Most bytes.
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

// bounded is a connection that ends after a number of bytes. Reads come one after
// the other, but not always from one goroutine.
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
		return host.CheckSocketPath(address)
	}
	_, port, err := net.SplitHostPort(address)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
		return fmt.Errorf("%q: want HOST:PORT or the absolute path of a unix socket", address)
	}
	return nil
}

// mostCPUs is the largest CONFIG_NR_CPUS of x86-64.
const mostCPUs = 8192

// dropImpossible drops CPU times that are more than all CPUs can have given the server since it started. A server on a library
// OS that keeps no account may report what its memory held: Redis on Gramine 1.9 does.
func dropImpossible(said map[string]string, uptime string, times ...string) {
	up, err := strconv.ParseFloat(said[uptime], 64)
	if err != nil {
		return
	}
	for _, name := range times {
		// It has run for up to a second more than it says.
		if used, err := strconv.ParseFloat(said[name], 64); err == nil && (math.IsNaN(used) || used < 0 || used > (up+1)*mostCPUs) {
			delete(said, name)
		}
	}
}
