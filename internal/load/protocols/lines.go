package protocols

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strings"

	"github.com/teescope/teescope/internal/load"
)

// line is any protocol of a line for a line.
var line = load.Protocol{
	Name: "line",
	Doc:  "Lines: --command is sent as a line, and the server answers with one, always the same.",
	Open: func(a load.Ask) (load.Dialect, error) {
		if a.Command == "" || strings.ContainsAny(a.Command, "\r\n") {
			return nil, fmt.Errorf("command %q: want the text of a line", a.Command)
		}
		d := &lineDialect{request: []byte(a.Command + "\n")}
		d.asked = a.Command
		return d, nil
	},
}

type lineDialect struct {
	same
	request []byte
}

func (d *lineDialect) Begin(_ context.Context, conn net.Conn, _ uint64) (load.Session, net.Conn, error) {
	return &lineSession{d: d}, conn, nil
}

type lineSession struct {
	d   *lineDialect
	seq uint64
}

func (s *lineSession) Request(b []byte) []byte { return append(b, s.d.request...) }

func (s *lineSession) Answer(b []byte) (int, load.Answer, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, load.Answer{}, nil
	}
	a := load.Answer{Ended: true, Seq: s.seq, Wrong: s.d.wrong(200, body{int64(end), crc32.Checksum(b[:end], castagnoli)})}
	s.seq++
	return end + 1, a, nil
}

func (s *lineSession) End() load.Answer { return load.Answer{} }

// raw is an echo: what is sent comes back.
var raw = load.Protocol{
	Name: "raw",
	Doc:  "Bytes: --value-size of them are sent, and the server sends them back.",
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

func (s *rawSession) End() load.Answer { return load.Answer{} }

var errCommand = errors.New("want a command, as in --command 'GET key:{key}'")
