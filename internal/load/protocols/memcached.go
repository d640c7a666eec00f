package protocols

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/teescope/teescope/internal/load"
)

// memcached is the text protocol of memcached (its doc/protocol.txt).
var memcached = load.Protocol{
	Name: "memcached",
	Doc:  "Memcached: --command is get and one key, in which {key} is one of --keys keys; key and value of every answer are checked.",
	Open: func(a load.Ask) (load.Dialect, error) {
		k, err := newKeyed(a, "get")
		if err != nil {
			return nil, err
		}
		if len(k.words) != 2 || k.words[0] != "get" || !k.reads || wordLength(k.words[1]) > mostKey {
			return nil, fmt.Errorf("command %q: want one key to get, as in \"get key:{key}\"", a.Command)
		}
		return &memcachedDialect{k}, nil
	},
}

// mostKey is the longest key that memcached accepts.
const mostKey = 250

type memcachedDialect struct{ *keyed }

func (d *memcachedDialect) Begin(_ context.Context, conn net.Conn, seed uint64) (load.Session, net.Conn, error) {
	return &memcachedSession{d: d, drawn: newDrawn(seed)}, conn, nil
}

func (d *memcachedDialect) Digest() string { return "memcached " + d.digest() }

// Populate stores every key's value, a thousand at a time.
func (d *memcachedDialect) Populate(ctx context.Context, conn net.Conn) (uint64, error) {
	write := func(b []byte, key int) []byte {
		b = appendWord(append(b, "set "...), d.words[1], key)
		b = strconv.AppendInt(append(b, " 0 0 "...), int64(len(d.filler)), 10)
		return append(d.appendValue(append(b, "\r\n"...), key), "\r\n"...)
	}
	return fillKeys(ctx, conn, d.keys, write, func(b []byte) (int, error) {
		line, n, err := memcachedLine(b)
		if err == nil && n > 0 && string(line) != "STORED" {
			err = fmt.Errorf("set: the server answers %.80q", line)
		}
		return n, err
	})
}

type memcachedSession struct {
	d *memcachedDialect
	drawn
	seq uint64
}

func (s *memcachedSession) Request(b []byte) []byte {
	b = appendWord(append(b, "get "...), s.d.words[1], s.draw(s.d.keys))
	return append(b, "\r\n"...)
}

var errMemcached = errors.New("memcached: the answer is malformed")

// memcachedLine takes a line from the front of b, and n bytes with its end: 0 if it is
// incomplete.
func memcachedLine(b []byte) (line []byte, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	switch {
	case end < 0 && len(b) > mostHead:
		return nil, 0, errMemcached
	case end < 0:
		return nil, 0, nil
	case end == 0 || b[end-1] != '\r':
		return nil, 0, errMemcached
	}
	return b[:end-1], end + 1, nil
}

func (s *memcachedSession) Answer(b []byte) (int, load.Answer, error) {
	line, n, err := memcachedLine(b)
	if err != nil || n == 0 {
		return 0, load.Answer{}, err
	}
	kind, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(kind) {
	case "END":
		return s.answered(n, nil, nil, "missing key")
	case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
		said := quoted(line)
		n, a, err := s.answered(n, nil, nil, "error reply")
		a.Said = said
		return n, a, err
	case "VALUE": // key, flags, bytes
	default:
		return 0, load.Answer{}, errMemcached
	}
	name, sizes, _ := bytes.Cut(rest, []byte(" "))
	_, text, _ := bytes.Cut(sizes, []byte(" "))
	size, ok := decimal(text)
	if !ok {
		return 0, load.Answer{}, errMemcached
	}
	const end = "\r\nEND\r\n"
	whole := n + size + len(end)
	if len(b) < whole {
		return 0, load.Answer{}, nil
	}
	if string(b[n+size:whole]) != end {
		return 0, load.Answer{}, errMemcached
	}
	return s.answered(whole, name, b[n:n+size], "")
}

// answered ends the answer to the oldest request, with its names and contents.
func (s *memcachedSession) answered(n int, name, value []byte, wrong string) (int, load.Answer, error) {
	key, asked := s.next()
	if !asked {
		return 0, load.Answer{}, errors.New("memcached: the server sent an answer without a request")
	}
	if wrong == "" {
		var b [mostKey]byte
		if !bytes.Equal(name, appendWord(b[:0], s.d.words[1], key)) || !s.d.right(value, key) {
			wrong = "wrong answer"
		}
	}
	a := load.Answer{Ended: true, Seq: s.seq, Wrong: wrong}
	s.seq++
	return n, a, nil
}

// LastAnswer: an incomplete answer is none.
func (s *memcachedSession) LastAnswer() load.Answer { return load.Answer{} }
