package protocols

import (
	"bytes"
	"context"
	"fmt"
	"net"

	"github.com/teescope/teescope/internal/load"
)

// raw is an echo: what is sent comes back.
var raw = load.Protocol{
	Name: "raw",
	Doc:  "Bytes: --value-size bytes are sent, and the server echoes them.",
	Open: func(a load.Ask) (load.Dialect, error) {
		if a.Bytes < 1 || a.Bytes > load.MostBuffered {
			return nil, fmt.Errorf("%d bytes: want 1 to %d", a.Bytes, load.MostBuffered)
		}
		return &rawDialect{value(0, a.Bytes)}, nil
	},
}

type rawDialect struct{ request []byte }

func (d *rawDialect) Begin(_ context.Context, conn net.Conn, _ uint64) (load.Session, net.Conn, error) {
	return &rawSession{d: d}, conn, nil
}

func (d *rawDialect) Digest() string { return fmt.Sprintf("echo of %d bytes", len(d.request)) }

type rawSession struct {
	d    *rawDialect
	seq  uint64
	seen int
	bad  bool
}

func (s *rawSession) Request(b []byte) []byte { return append(b, s.d.request...) }

func (s *rawSession) Answer(b []byte) (int, load.Answer, error) {
	n := min(len(b), len(s.d.request)-s.seen)
	s.bad = s.bad || !bytes.Equal(b[:n], s.d.request[s.seen:s.seen+n])
	if s.seen += n; s.seen < len(s.d.request) {
		return n, load.Answer{}, nil
	}
	a := load.Answer{Ended: true, Seq: s.seq}
	if s.bad {
		a.Wrong = "wrong answer"
	}
	s.seq, s.seen, s.bad = s.seq+1, 0, false
	return n, a, nil
}

func (s *rawSession) LastAnswer() load.Answer { return load.Answer{} }
