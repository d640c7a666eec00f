package protocols

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/load"
)

// resp is the protocol of Redis, version 2 (redis.io/docs, "Redis serialization
// protocol specification").
var resp = load.Protocol{
	Name: "resp",
	Doc:  "Redis: --command, in which {key} is one of --keys keys; the values that GET returns are checked.",
	Open: func(a load.Ask) (load.Dialect, error) {
		k, err := newKeyed(a, "get")
		if err != nil {
			return nil, err
		}
		d := &respDialect{keyed: k, password: a.Password}
		d.head = fmt.Appendf(nil, "*%d\r\n", len(k.words))
		return d, nil
	},
}

type respDialect struct {
	*keyed
	head     []byte
	password string
}

// appendCommand writes words as an array of strings.
func appendCommand(b []byte, words ...string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

func (d *respDialect) Begin(_ context.Context, conn net.Conn, seed uint64) (load.Session, net.Conn, error) {
	if d.password != "" {
		if _, err := sendCommand(conn, "AUTH", d.password); err != nil {
			return nil, nil, err
		}
	}
	return &respSession{d: d, drawn: newDrawn(seed)}, conn, nil
}

// sendCommand sends one command and reads its answer; an error reply is an error. A server that
// accepts no commands may say why before it hangs up.
func sendCommand(conn net.Conn, words ...string) (reply, error) {
	_, unsent := conn.Write(appendCommand(nil, words...))
	var in []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		in = append(in, buf[:n]...)
		used, r, perr := parseReply(in)
		switch {
		case perr != nil:
			return r, perr
		case used > 0 && r.kind == '-':
			return r, fmt.Errorf("%s: the server answers %q", words[0], r.text)
		case used > 0:
			return r, nil
		case err != nil && unsent != nil:
			return r, unsent
		case errors.Is(err, io.EOF):
			return r, io.ErrUnexpectedEOF
		case err != nil:
			return r, err
		case len(in) > load.MostBuffered:
			return r, errReply
		}
	}
}

// Populate sets every key to its value, a thousand at a time.
func (d *respDialect) Populate(ctx context.Context, conn net.Conn) (uint64, error) {
	if d.password != "" {
		if _, err := sendCommand(conn, "AUTH", d.password); err != nil {
			return 0, err
		}
	}
	prefix := ""
	for _, w := range d.words[1:] {
		if strings.Contains(w, "{key}") {
			prefix = w
		}
	}
	if prefix == "" {
		return 0, fmt.Errorf("command %q has no {key} to fill", strings.Join(d.words, " "))
	}
	write := func(b []byte, key int) []byte {
		b = append(b, "*3\r\n$3\r\nSET\r\n$"...)
		b = append(strconv.AppendInt(b, int64(wordLength(prefix)), 10), "\r\n"...)
		b = append(appendWord(b, prefix, key), "\r\n$"...)
		b = append(strconv.AppendInt(b, int64(len(d.filler)), 10), "\r\n"...)
		return append(d.appendValue(b, key), "\r\n"...)
	}
	return fillKeys(ctx, conn, d.keys, write, func(b []byte) (int, error) {
		n, r, err := parseReply(b)
		if err == nil && n > 0 && r.kind != '+' {
			err = fmt.Errorf("SET: the server answers %q", r.text)
		}
		return n, err
	})
}

// fillBatch is the number of keys set without waiting for answers.
const fillBatch = 1000

// fillKeys writes every key and reads as many answers; taken returns the length of a
// complete answer, or 0.
func fillKeys(ctx context.Context, conn net.Conn, keys int, write func([]byte, int) []byte, taken func([]byte) (int, error)) (uint64, error) {
	buf := make([]byte, 64<<10)
	var out, in []byte
	for from := 0; from < keys; from += fillBatch {
		if ctx.Err() != nil {
			return uint64(from), ctx.Err()
		}
		out = out[:0]
		to := min(from+fillBatch, keys)
		for key := from; key < to; key++ {
			out = write(out, key)
		}
		_, unsent := conn.Write(out)
		for left := to - from; left > 0; {
			n, err := conn.Read(buf) // even if writing failed: the server may have said why
			if err != nil {
				return uint64(to - left), cmp.Or(unsent, err)
			}
			in = append(in, buf[:n]...)
			used := 0
			for {
				n, err := taken(in[used:])
				if err != nil {
					return uint64(to - left), err
				}
				if n == 0 {
					break
				}
				used += n
				left--
			}
			in = append(in[:0], in[used:]...)
		}
	}
	return uint64(keys), nil
}

func (d *respDialect) Digest() string { return "RESP " + d.digest() }

type respSession struct {
	d *respDialect
	drawn
	seq uint64
}

func (s *respSession) Request(b []byte) []byte {
	key := s.draw(s.d.keys)
	b = append(b, s.d.head...)
	for _, w := range s.d.words {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(wordLength(w)), 10)
		b = append(b, "\r\n"...)
		b = append(appendWord(b, w, key), "\r\n"...)
	}
	return b
}

func (s *respSession) Answer(b []byte) (int, load.Answer, error) {
	n, r, err := parseReply(b)
	if err != nil || n == 0 {
		return 0, load.Answer{}, err
	}
	a := load.Answer{Ended: true, Seq: s.seq}
	s.seq++
	key, asked := s.next()
	switch {
	case !asked:
		return 0, load.Answer{}, errors.New("RESP: the server sent an answer without a request")
	case r.kind == '-':
		a.Wrong, a.Said = "error reply", quoted(r.text)
	case s.d.reads && (r.kind != '$' || !s.d.right(r.text, key)):
		a.Wrong = "wrong answer"
	}
	return n, a, nil
}

// quoted is a server's message, for people.
func quoted[T []byte | string](said T) string { return fmt.Sprintf("%.200q", said) }

func (s *respSession) LastAnswer() load.Answer { return load.Answer{} }

// reply is a reply; text is its line, or a string's bytes. For an array only the kind
// is kept.
type reply struct {
	kind byte
	text []byte
}

var errReply = errors.New("RESP: the reply is malformed")

// mostElements bounds the arrays of one reply, including nested ones.
const mostElements = 1 << 20

// parseReply takes one reply from the front of b: 0 bytes if it is incomplete.
func parseReply(b []byte) (int, reply, error) {
	n, r, err := parseElement(b)
	if err != nil || n == 0 || r.kind != '*' {
		return n, r, err
	}
	left, err := elements(r.text)
	for total := left; err == nil && left > 0; left-- {
		m, e, eerr := parseElement(b[n:])
		if eerr != nil || m == 0 {
			return 0, reply{}, eerr
		}
		n += m
		if e.kind == '*' {
			var more int
			more, err = elements(e.text)
			left += more
			if total += more; total > mostElements {
				return 0, reply{}, errReply
			}
		}
	}
	if err != nil {
		return 0, reply{}, err
	}
	return n, r, nil
}

// elements is the length of an array; a null array, -1, has none.
func elements(text []byte) (int, error) {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < -1 || n > mostElements {
		return 0, errReply
	}
	return max(n, 0), nil
}

// parseElement takes a line, and a string's bytes after it.
func parseElement(b []byte) (int, reply, error) {
	if len(b) == 0 {
		return 0, reply{}, nil
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) > mostHead {
			return 0, reply{}, errReply
		}
		return 0, reply{}, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return 0, reply{}, errReply
	}
	r := reply{b[0], b[1 : end-1]}
	switch r.kind {
	case '+', '-', ':', '*':
		return end + 1, r, nil
	case '$':
	default:
		return 0, reply{}, errReply
	}
	size, ok := decimal(r.text)
	if !ok {
		if string(r.text) == "-1" {
			return end + 1, reply{kind: '_'}, nil
		}
		return 0, reply{}, errReply
	}
	whole := end + 1 + size + 2
	if len(b) < whole {
		return 0, reply{}, nil
	}
	if b[whole-2] != '\r' || b[whole-1] != '\n' {
		return 0, reply{}, errReply
	}
	r.text = b[end+1 : whole-2]
	return whole, r, nil
}

// decimal reads the length of a string.
func decimal(b []byte) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > load.MostBuffered {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(b) > 0 && n <= load.MostBuffered
}
