package port

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/locked"
)

const (
	// mostConnections is Prometheus' default for --web.max-connections.
	mostConnections = 512
	// readPatience is how long a request may take to arrive, from its first byte to the last of its body (the largest have a MiB), and over
	// HTTP/1 how long an answer may be computed: net/http ends the request's context with it.
	readPatience = time.Minute
	// writePatience is how long a client may take nothing of an answer, and writePiece how much of one, in bytes, it has to take in that
	// time.
	writePatience = time.Minute
	writePiece    = 64 << 10
)

// connectionLimit is how many connections a port may have: a quarter of the descriptors at most, since the sources need theirs.
func connectionLimit() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return mostConnections
	}
	return max(4, int(min(files.Cur/4, mostConnections)))
}

// limitedListener has at most a number of connections open. A further one replaces that through which nothing has passed for the
// longest: so clients that hold connections cannot keep others out.
type limitedListener struct {
	net.Listener
	most int
	next atomic.Int64
	open locked.Value[map[*limitedConn]struct{}]
}

func limitConnections(l net.Listener, most int) *limitedListener {
	return &limitedListener{Listener: l, most: most, open: locked.New(map[*limitedConn]struct{}{})}
}

// Accept is that of net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := &limitedConn{Conn: c, of: l}
	n.note()
	var oldest *limitedConn
	open := *l.open.Lock()
	if len(open) >= l.most {
		for o := range open {
			if oldest == nil || o.moved.Load() < oldest.moved.Load() {
				oldest = o
			}
		}
		delete(open, oldest)
	}
	open[n] = struct{}{}
	l.open.Unlock()
	if oldest != nil {
		_ = oldest.Close() // what is lost there is nobody's
	}
	return n, nil
}

// limitedConn is a connection that ends when its client takes nothing of what is written.
type limitedConn struct {
	net.Conn
	of    *limitedListener
	moved atomic.Int64 // when bytes last passed, as a number in the order of all connections
}

// Read is that of net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.note()
	}
	return n, err
}

// Write is that of net.Conn.
func (c *limitedConn) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if err = c.SetWriteDeadline(time.Now().Add(writePatience)); err != nil { //nolint:forbidigo // a deadline is of the real clock
			break
		}
		var passed int
		passed, err = c.Conn.Write(p[:min(len(p), writePiece)])
		c.note()
		n, p = n+passed, p[passed:]
	}
	return n, err
}

func (c *limitedConn) note() { c.moved.Store(c.of.next.Add(1)) }

// Close is that of net.Conn.
func (c *limitedConn) Close() error {
	open := *c.of.open.Lock()
	delete(open, c)
	c.of.open.Unlock()
	return c.Conn.Close()
}

// untimed ends the time for reading once a request has arrived: without that, net/http ends the context of one that is still
// answered when that time is over. Answers have a time of their own.
func untimed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.Body == nil || r.Body == http.NoBody {
			_ = c.SetReadDeadline(time.Time{})
		} else {
			r.Body = &arriving{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// arriving is the body of a request.
type arriving struct {
	io.ReadCloser
	c *http.ResponseController
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = a.c.SetReadDeadline(time.Time{})
	}
	return n, err
}
