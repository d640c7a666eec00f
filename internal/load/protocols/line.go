package protocols

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"strings"

	"github.com/teescope/teescope/internal/load"
)

// line is any protocol that answers each line with a line.
var line = load.Protocol{
	Name: "line",
	Doc:  "Lines: --command is sent as a line; the server must always answer with the same line.",
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

func (s *lineSession) LastAnswer() load.Answer { return load.Answer{} }
