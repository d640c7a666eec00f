package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events reads a stream of server-sent events (the WHATWG's HTML standard, section 9.2): the data of one after the other.
type events struct {
	r       *bufio.Reader
	carried bool // the last line ended with \r, and a \n that follows is part of its end
}

// mostEvent bounds a line of a stream, and the data of an event.
const mostEvent = 1 << 20

var errEvent = fault{kind: "malformed stream", said: "an event is longer than 1 MiB"}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 4<<10)} }

// next returns the data of the next event that has some. The error is io.EOF at the end of the stream; an event that is not ended by
// an empty line is none.
func (e *events) next() ([]byte, error) {
	var data []byte
	some := false
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if some {
				return data, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" { // a comment has no name
			continue
		}
		if some {
			data = append(data, '\n')
		}
		some = true
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		if len(data) > mostEvent {
			return nil, errEvent
		}
	}
}

// line reads a line without its end, which is \n, \r\n or \r.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		c, err := e.r.ReadByte()
		carried := e.carried
		e.carried = c == '\r'
		switch {
		case err != nil:
			return nil, err
		case c == '\n' && carried:
			continue
		case c == '\n', c == '\r':
			return line, nil
		case len(line) >= mostEvent:
			return nil, errEvent
		}
		line = append(line, c)
	}
}

// errCut is a stream that ends before it says so.
var errCut = fault{kind: "cut off", said: "the stream ended without a finish_reason and without [DONE]"}

// ended reports whether an error is the end of a stream, orderly or not.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
