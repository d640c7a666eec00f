//go:build linux

package load

import (
	"context"
	"net"
)

// Protocol is a kind of request, one file each in load/protocols.
type Protocol struct {
	Name, Doc string
	// ALPN is the protocol that TLS negotiates; "" negotiates none.
	ALPN string
	// Open checks the request, and makes what the connections share.
	Open func(Ask) (Dialect, error)
}

// Ask is a request to a server; a protocol uses the fields that it knows and refuses
// the rest.
type Ask struct {
	// Host is the server's name, Path the request target (HTTP).
	Host, Path string
	// Command is a request as text (RESP, memcached, a line, SQL), in which {key}
	// stands for one of Keys keys.
	Command string
	Keys    int
	// Bytes is the size of a value, or of a message.
	Bytes int
	// User, Database and Password are for servers that need them.
	User, Database, Password string
	// Fresh: each connection serves one request.
	Fresh bool
}

// Dialect is a protocol with its request; all connections share it, and it is safe for
// concurrent use.
type Dialect interface {
	// Begin makes a new connection, TLS included, ready for requests: it authenticates
	// and chooses a database. Only the returned connection is used from then on; no
	// data from the server may be left unread in it.
	Begin(ctx context.Context, conn net.Conn, seed uint64) (Session, net.Conn, error)
	// Digest covers requests and answers, without anything that depends on time, on the
	// number of answers or on which keys were drawn.
	Digest() string
}

// Populator is a Dialect that can fill a server with the data that it will request.
type Populator interface {
	// Populate returns the number of requests made.
	Populate(ctx context.Context, conn net.Conn) (requests uint64, err error)
}

// Session is one connection's state in the conversation. One goroutine at a time uses
// it.
type Session interface {
	// Request appends the next request to b, after anything else that must be sent
	// first.
	Request(b []byte) []byte
	// Answer consumes n bytes, at most all, from the front of what the server sent. It
	// returns 0 bytes and no end if it needs more. An error is a protocol violation by
	// the server; the connection is then unusable.
	Answer(b []byte) (n int, a Answer, err error)
	// LastAnswer is called when the server has closed the connection, which may be the end
	// of an answer.
	LastAnswer() Answer
}

// Answer is what came back.
type Answer struct {
	// Ended: an answer is complete. All other fields describe that answer.
	Ended bool
	// Seq is the request's number in the session, from 0.
	Seq uint64
	// Wrong is the kind of error, "" for a correct answer. Said is the server's message
	// about it, if any.
	Wrong, Said string
	// Last: the server will take no further request on this connection.
	Last bool
}

// MostBuffered bounds the buffered part of an incomplete answer.
const MostBuffered = 16 << 20
