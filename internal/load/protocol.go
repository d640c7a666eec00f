package load

import (
	"context"
	"net"
)

// Protocol is a kind of request, one file each in load/protocols.
type Protocol struct {
	Name, Doc string
	// ALPN is what TLS is asked to agree on; "" asks for nothing.
	ALPN string
	// Open checks what is asked for, and makes what the connections share.
	Open func(Ask) (Dialect, error)
}

// Ask is what is asked of a server; a protocol takes what it knows and refuses the
// rest.
type Ask struct {
	// Host is the server's name, Path the target (HTTP).
	Host, Path string
	// Command is a request as text (RESP, memcached, a line, SQL), in which {key}
	// stands for one of Keys keys.
	Command string
	Keys    int
	// Bytes is the size of a value, or of a message.
	Bytes int
	// User, Database and Password are for servers that want them.
	User, Database, Password string
	// Fresh: a connection is for one request.
	Fresh bool
}

// Dialect is a protocol with what is asked; it is shared by all connections and safe
// for use by several of them at once.
type Dialect interface {
	// Begin makes a new connection, TLS included, ready for requests: it
	// authenticates and chooses a database. The connection that it returns is
	// used from then on; nothing that the server sent is left unread in it.
	Begin(ctx context.Context, conn net.Conn, seed uint64) (Session, net.Conn, error)
	// Digest is over what was asked and answered, without what depends on time,
	// on the number of answers or on which keys were drawn.
	Digest() string
}

// Populator is a Dialect that can fill a server with the data that it will ask for.
type Populator interface {
	// Populate returns how many requests it made.
	Populate(ctx context.Context, conn net.Conn) (requests uint64, err error)
}

// Session is one connection's place in the conversation. It is used by one
// goroutine at a time.
type Session interface {
	// Request appends the next request to b, and before it whatever else has to
	// be sent.
	Request(b []byte) []byte
	// Answer takes n bytes, at most all, from the front of what the server sent.
	// It returns 0 bytes and no end when it needs more. An error is the server's
	// breach of the protocol; the connection is then of no use.
	Answer(b []byte) (n int, a Answer, err error)
	// End is called when the server has closed the connection, which may be the end
	// of an answer.
	End() Answer
}

// Answer is what came back.
type Answer struct {
	// Ended: an answer is whole. All else is of that answer.
	Ended bool
	// Seq is the request's place among those of the session, from 0.
	Seq uint64
	// Wrong is the kind of error, "" for a right answer. Said is what the server says of
	// it, where it says something.
	Wrong, Said string
	// Last: the server will take no further request on this connection.
	Last bool
}

// MostBuffered bounds what is kept of an answer that is not whole.
const MostBuffered = 16 << 20
