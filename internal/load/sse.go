//go:build linux

package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// events reads a stream of server-sent events (the WHATWG's HTML standard, section 9.2), one after the other.
type events struct {
	r       *bufio.Reader
	carried bool   // the last line ended with \r, and a \n that follows is part of its end
	some    bool   // there was an event
	words   []byte // the beginning of what the stream says outside of events
}

// event is an event that has data. Servers report errors in one of the name "error".
type event struct {
	name string
	data []byte
}

// mostEvent bounds a line of a stream, and the data of an event.
const mostEvent = 1 << 20

var errEvent = fault{kind: "malformed stream", said: "an event is longer than 1 MiB"}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 4<<10)} }

// next returns the next event that has data. The error is io.EOF at the end of the stream; an event that is not ended by an empty
// line is none, but among the words. An error outside of events (a body of JSON, or a field of that name, as llama.cpp has)
// is returned as an event "error" as soon as it is whole.
func (e *events) next() (event, error) {
	var ev event
	some := false
	for {
		line, err := e.line()
		if err != nil {
			if torn, is := bytes.CutPrefix(line, []byte("data:")); is {
				ev.data = append(ev.data, torn...)
			} else if len(line) > 0 {
				e.keepWords(line)
			}
			if len(ev.data) > 0 {
				e.keepWords(ev.data)
			}
			return event{}, err
		}
		if len(line) == 0 {
			if some {
				e.some = true
				return ev, nil
			}
			ev = event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "", "id", "retry": // without a name it is a comment
		case "event":
			ev.name = string(value)
		case "data":
			if some {
				ev.data = append(ev.data, '\n')
			}
			some = true
			if ev.data = append(ev.data, value...); len(ev.data) > mostEvent {
				return event{}, errEvent
			}
		case "error":
			return event{"error", value}, nil
		default:
			e.keepWords(line)
			if _, _, found := errorIn(e.words); found {
				return event{"error", e.words}, nil
			}
		}
	}
}

// keepWords keeps a line that is not an event.
func (e *events) keepWords(line []byte) {
	e.words = append(e.words, line...)
	e.words = append(e.words[:min(len(e.words), mostSaid)], '\n')
}

// line reads a line without its end, which is \n, \r\n or \r. With an error it returns what there is of the line.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		if n := len(line); n > 0 && line[n-1] == '}' && e.r.Buffered() == 0 {
			if _, _, found := errorIn(append(slices.Clip(e.words), line...)); found { // a body of JSON may have no line end, and the connection may stay
				return line, nil
			}
		}
		c, err := e.r.ReadByte()
		carried := e.carried
		e.carried = c == '\r'
		switch {
		case err != nil:
			return line, err
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

// endError returns the error of a stream that ends before it says so.
func (e *events) endError() error {
	_, _, found := errorIn(e.words)
	words := strings.TrimSpace(string(e.words))
	switch {
	case found:
		return refusal(inStream, e.words)
	case words == "":
		return errCut
	case !e.some:
		return fault{"not a stream", fmt.Sprintf("the answer has no event, only the text %.200q", words)}
	}
	return fault{errCut.kind, fmt.Sprintf("%s; the text outside of events was %.200q", errCut.said, words)}
}

// inStream is the kind of an error that a server reports in the body of an answer.
const inStream = "error in the stream"

// errCut is a stream that ends before it says so.
var errCut = fault{kind: "cut off", said: "the stream ended without a finish_reason and without [DONE]"}

// isStreamEnd reports whether an error is the end of a stream, orderly or not.
func isStreamEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
