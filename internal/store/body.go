package store

// Bounds the bytes that are read of one answer to a scrape. Prometheus stops keeping a page that is too long, but goes
// on reading it.

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/prometheus/common/config"
)

// errEndless is the error of an answer whose reader had to stop long ago.
var errEndless = errors.New("the answer is longer than any page may be")

// answers bounds the bytes that are read of one answer. Prometheus stops to keep a page beyond body_size_limit, but reads
// on until the scrape's timeout: a page that never ends would take the network and a CPU for most of the time.
type answers struct{ most atomic.Int64 }

// page sets the largest page of all jobs. A page of tiny chunks is longer on the wire than in memory.
func (a *answers) page(most int64) { a.most.Store(2*most + 1<<20) }

// dial connects to a target.
func (a *answers) dial() config.HTTPClientOption {
	return config.WithDialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &answering{Conn: c, answers: a}, nil
	})
}

// answering is a connection to a target. An answer begins with the request; with HTTP/2, whose reader also writes,
// with each of its messages: there an endless page is read until the scrape's timeout, and not kept.
type answering struct {
	net.Conn
	answers *answers
	read    atomic.Int64
}

// Write sends a request.
func (c *answering) Write(b []byte) (int, error) {
	c.read.Store(0)
	return c.Conn.Write(b)
}

// Read reads a part of the answer.
func (c *answering) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.read.Add(int64(n)) > c.answers.most.Load() {
		return n, errEndless
	}
	return n, err
}
