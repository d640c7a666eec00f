package protocols

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/teescope/teescope/internal/load"
)

// postgres sends simple queries (PostgreSQL's manual, "Frontend/Backend Protocol"). The
// driver pgx connects, authenticates and encodes; answers are read by their message
// headers.
var postgres = load.Protocol{
	Name: "postgres",
	Doc:  "PostgreSQL: --command is a simple query, in which {key} is a number from 0 to --keys less 1; every answer must have as many rows as the first.",
	Open: func(a load.Ask) (load.Dialect, error) {
		if a.Command == "" || strings.ContainsRune(a.Command, 0) {
			return nil, errors.New("want a query, as in --command 'SELECT 1'")
		}
		if a.Keys < 1 || a.Keys > load.MostKeys {
			return nil, fmt.Errorf("%d keys: want 1 to %d", a.Keys, load.MostKeys)
		}
		return &postgresDialect{Ask: a}, nil
	},
}

type postgresDialect struct {
	load.Ask
	rows atomic.Int64 // rows of the first answer plus one; 0 before it
}

// postgresName is the application name by which the server knows our connections.
const postgresName = "teescope-load"

// postgresConfig returns a pgx configuration that uses an existing connection.
func postgresConfig(a load.Ask, conn net.Conn) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig("sslmode=disable host=server")
	if err != nil {
		return nil, err
	}
	c.User, c.Database, c.Password = a.User, a.Database, a.Password
	c.RuntimeParams["application_name"] = postgresName
	c.Fallbacks, c.TLSConfig = nil, nil
	c.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"server"}, nil }
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	return c, nil
}

func (d *postgresDialect) Begin(ctx context.Context, conn net.Conn, seed uint64) (load.Session, net.Conn, error) {
	c, err := postgresConfig(d.Ask, conn)
	if err != nil {
		return nil, nil, err
	}
	p, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	h, err := p.Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("take the driver's connection: %w", err)
	}
	return &postgresSession{d: d, drawn: newDrawn(seed)}, h.Conn, nil
}

func (d *postgresDialect) Digest() string {
	if d.rows.Load() == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d keys, %d rows", d.Command, d.Keys, d.rows.Load()-1)
}

type postgresSession struct {
	d *postgresDialect
	drawn
	seq   uint64
	rows  int64
	wrong string
	said  string // of it
	skip  int    // bytes of a message whose contents do not matter
}

func (s *postgresSession) Request(b []byte) []byte {
	key := s.draw(s.d.Keys)
	q := pgproto3.Query{String: s.d.Command}
	if before, after, found := strings.Cut(s.d.Command, "{key}"); found {
		q.String = before + string(appendKey(nil, key)) + after
	}
	b, _ = q.Encode(b) // it fails for more than 2 GiB
	return b
}

// The messages that matter, by their type byte.
const (
	dataRow       = 'D'
	errorResponse = 'E'
	readyForQuery = 'Z'
	copyIn        = 'G'
	copyBoth      = 'W'
	messageHead   = 5
)

func (s *postgresSession) Answer(b []byte) (int, load.Answer, error) {
	if s.skip > 0 {
		n := min(s.skip, len(b))
		s.skip -= n
		return n, load.Answer{}, nil
	}
	if len(b) < messageHead {
		return 0, load.Answer{}, nil
	}
	size := int(binary.BigEndian.Uint32(b[1:]))
	if size < 4 || size > 1<<30 {
		return 0, load.Answer{}, fmt.Errorf("PostgreSQL: invalid message length, %d bytes", size)
	}
	switch b[0] {
	case dataRow:
		s.rows++
	case errorResponse:
		if size <= mostHead {
			if len(b) < 1+size {
				return 0, load.Answer{}, nil
			}
			var said pgproto3.ErrorResponse
			if said.Decode(b[messageHead:1+size]) == nil {
				s.said = quoted(said.Message)
			}
		}
		s.wrong = "error reply"
	case copyIn, copyBoth:
		return 0, load.Answer{}, errors.New("PostgreSQL: the query wants data from the client")
	case readyForQuery:
		if size != 5 {
			return 0, load.Answer{}, errors.New("PostgreSQL: ReadyForQuery is malformed")
		}
		if len(b) < 1+size {
			return 0, load.Answer{}, nil
		}
		return s.ready(1 + size)
	}
	s.skip = size - 4
	return messageHead, load.Answer{}, nil
}

// ready makes the answer to the oldest query.
func (s *postgresSession) ready(n int) (int, load.Answer, error) {
	if _, asked := s.next(); !asked {
		return 0, load.Answer{}, errors.New("PostgreSQL: the server sent an answer without a query")
	}
	if s.wrong == "" && !s.d.rows.CompareAndSwap(0, s.rows+1) && s.d.rows.Load() != s.rows+1 {
		s.wrong = "wrong answer"
	}
	a := load.Answer{Ended: true, Seq: s.seq, Wrong: s.wrong}
	if s.wrong == "error reply" {
		a.Said = s.said
	}
	s.seq, s.rows, s.wrong, s.said = s.seq+1, 0, "", ""
	return n, a, nil
}

func (s *postgresSession) LastAnswer() load.Answer { return load.Answer{} }
