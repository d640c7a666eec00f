package protocols

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/teescope/teescope/internal/load"
)

// http1 is HTTP/1.1 (RFC 9112). It has its own reader: net/http makes an object for
// each header, so it would measure the load generator.
var http1 = load.Protocol{
	Name: "http1",
	Doc:  "HTTP/1.1: GET of --path; every answer must have status 200 and the body of the first.",
	ALPN: "http/1.1",
	Open: func(a load.Ask) (load.Dialect, error) {
		if err := checkHTTP(a); err != nil {
			return nil, err
		}
		d := &http1Dialect{request: []byte("GET " + a.Path + " HTTP/1.1\r\nHost: " + a.Host + "\r\nUser-Agent: teescope\r\n")}
		if a.Fresh {
			d.request = append(d.request, "Connection: close\r\n"...)
		}
		d.request = append(d.request, "\r\n"...)
		d.asked = "GET " + a.Path
		return d, nil
	},
}

func checkHTTP(a load.Ask) error {
	if !strings.HasPrefix(a.Path, "/") || strings.ContainsAny(a.Path, " \r\n") {
		return fmt.Errorf("path %q: want one that begins with / and has no space", a.Path)
	}
	if a.Host == "" || strings.ContainsAny(a.Host, " \r\n") {
		return fmt.Errorf("host %q: want the server's name", a.Host)
	}
	return nil
}

// same is the first correct answer, which all others must equal.
type same struct {
	asked string
	first atomic.Pointer[body]
}

type body struct {
	length int64
	crc    uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// wrong is the kind of error of an answer, "" for none.
func (s *same) wrong(status int, got body) string {
	if status != 200 {
		return "status " + strconv.Itoa(status)
	}
	first := s.first.Load()
	if first == nil {
		if s.first.CompareAndSwap(nil, &got) {
			return ""
		}
		first = s.first.Load()
	}
	if *first != got {
		return "wrong answer"
	}
	return ""
}

// Digest covers the path, and the length and checksum of its content.
func (s *same) Digest() string {
	b := s.first.Load()
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%s: %d bytes, crc32c %08x", s.asked, b.length, b.crc)
}

type http1Dialect struct {
	same
	request []byte
}

func (d *http1Dialect) Begin(_ context.Context, conn net.Conn, _ uint64) (load.Session, net.Conn, error) {
	return &http1Session{d: d}, conn, nil
}

// http1Session reads one answer after the other.
type http1Session struct {
	d      *http1Dialect
	seq    uint64
	where  place
	status int
	last   bool
	left   int64 // of the body, or of the chunk
	got    body
}

// place is the reader's position in an answer.
type place int

const (
	inHead    place = iota
	inBody          // of a known length
	inRest          // a body that ends with the connection
	inSize          // the line before a chunk
	inChunk         // left bytes of it
	inAfter         // the line end after a chunk
	inTrailer       // lines up to an empty one
)

func (s *http1Session) Request(b []byte) []byte { return append(b, s.d.request...) }

// mostHead bounds an answer's header and each line of the chunked coding.
const mostHead = 64 << 10

var errHead = errors.New("HTTP/1.1: the head of an answer is malformed")

func (s *http1Session) Answer(b []byte) (int, load.Answer, error) {
	switch s.where {
	case inHead:
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 {
			if len(b) > mostHead {
				return 0, load.Answer{}, errHead
			}
			return 0, load.Answer{}, nil
		}
		if err := s.head(b[:end+2]); err != nil {
			return 0, load.Answer{}, err
		}
		if s.where == inBody && s.left == 0 {
			return end + 4, s.completeAnswer(), nil
		}
		return end + 4, load.Answer{}, nil
	case inBody, inChunk:
		n := int(min(s.left, int64(len(b))))
		s.add(b[:n])
		if s.left -= int64(n); s.left > 0 || n == 0 && s.left > 0 {
			return n, load.Answer{}, nil
		}
		if s.where == inChunk {
			s.where = inAfter
			return n, load.Answer{}, nil
		}
		return n, s.completeAnswer(), nil
	case inRest:
		s.add(b)
		return len(b), load.Answer{}, nil
	}
	return s.coding(b)
}

// coding reads a line of the chunked coding (RFC 9112, section 7.1).
func (s *http1Session) coding(b []byte) (int, load.Answer, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) > mostHead {
			return 0, load.Answer{}, errHead
		}
		return 0, load.Answer{}, nil
	}
	line := bytes.TrimSuffix(b[:end], []byte("\r"))
	switch s.where {
	case inSize:
		digits, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 62)
		if err != nil {
			return 0, load.Answer{}, errors.New("HTTP/1.1: the size of a chunk is malformed")
		}
		s.left, s.where = int64(n), inChunk
		if n == 0 {
			s.where = inTrailer
		}
	case inAfter:
		if len(line) > 0 {
			return 0, load.Answer{}, errors.New("HTTP/1.1: a chunk is longer than its size")
		}
		s.where = inSize
	case inTrailer:
		if len(line) == 0 {
			return end + 1, s.completeAnswer(), nil
		}
	}
	return end + 1, load.Answer{}, nil
}

func (s *http1Session) add(b []byte) {
	s.got.crc = crc32.Update(s.got.crc, castagnoli, b)
	s.got.length += int64(len(b))
}

// completeAnswer completes the answer and begins the next.
func (s *http1Session) completeAnswer() load.Answer {
	a := load.Answer{Ended: true, Seq: s.seq, Wrong: s.d.wrong(s.status, s.got), Last: s.last}
	*s = http1Session{d: s.d, seq: s.seq + 1}
	return a
}

func (s *http1Session) LastAnswer() load.Answer {
	if s.where != inRest {
		return load.Answer{}
	}
	s.last = true
	return s.completeAnswer()
}

// head reads the status line and headers; b ends with the last one's line end.
func (s *http1Session) head(b []byte) error {
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	// HTTP/1.x SP 3DIGIT SP reason
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return errHead
	}
	s.status = 0
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return errHead
		}
		s.status = 10*s.status + int(c-'0')
	}
	s.last = line[7] == '0'
	length := int64(-1)
	chunked := false
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		colon := bytes.IndexByte(line, ':')
		if colon < 1 {
			return errHead
		}
		name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
		switch {
		case is(name, "content-length"):
			n, err := strconv.ParseUint(string(value), 10, 62)
			if err != nil || length >= 0 && length != int64(n) {
				return errors.New("HTTP/1.1: Content-Length is malformed")
			}
			length = int64(n)
		case is(name, "transfer-encoding"):
			if chunked = is(value, "chunked"); !chunked {
				return fmt.Errorf("HTTP/1.1: transfer coding %.40q is not known", value)
			}
		case is(name, "connection"):
			s.last = s.last && !is(value, "keep-alive") || is(value, "close")
		}
	}
	switch {
	case s.status < 200:
		s.where = inHead // an interim answer; the real one follows
	case s.status == 204 || s.status == 304:
		s.where, s.left = inBody, 0
	case chunked:
		s.where = inSize
	case length >= 0:
		s.where, s.left = inBody, length
	default:
		s.where, s.last = inRest, true
	}
	return nil
}

// is compares without regard to case; word is lower case.
func is(b []byte, word string) bool {
	return len(b) == len(word) && strings.EqualFold(string(b), word)
}
