package load

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/teescope/teescope/internal/mutate"
)

// all reads a stream to its end.
func all(r io.Reader) (out []string, err error) {
	e := newEvents(r)
	for {
		ev, err := e.next()
		if err != nil {
			return out, err
		}
		out = append(out, string(ev.data))
	}
}

// TestEvents: streams of events are read by the rules of the standard, however they are cut.
func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"two", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"one space is left out", "data:  a\n\n", []string{" a"}},
		{"carriage returns", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"several lines", "data: a\r\ndata: b\r\n\r\n", []string{"a\nb"}},
		{"comments and other fields", ": ping\n\nevent: x\nid: 1\ndata: a\nretry: 5\n\n", []string{"a"}},
		{"an event without data", "event: x\n\ndata: a\n\n", []string{"a"}},
		{"empty data", "data\n\ndata:\n\n", []string{"", ""}},
		{"the end is missing", "data: a\n\ndata: b\n", []string{"a"}},
		{"nothing", "", nil},
		{"HTML", "<html>\n<p>data</p>\n\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.stream), "by bytes": iotest.OneByteReader(strings.NewReader(c.stream))} {
				if got, err := all(r); !slices.Equal(got, c.want) || !errors.Is(err, io.EOF) {
					t.Errorf("%s, %s: %q and %v, want %q", c.name, name, got, err, c.want)
				}
			}
		})
	}
}

// TestEventTooLong: neither a line without an end nor an event of endless lines fills the memory.
func TestEventTooLong(t *testing.T) {
	for name, r := range map[string]io.Reader{"line": endless("x"), "event": endless("data: " + strings.Repeat("x", 1000) + "\n")} {
		t.Run(name, func(t *testing.T) {
			if got, err := all(r); len(got) > 0 || err == nil || kindOf(err) != "malformed stream" {
				t.Errorf("%s: %d events, %v", name, len(got), err)
			}
		})
	}
}

// endless repeats a text.
type endless string

func (e endless) Read(b []byte) (int, error) {
	n := 0
	for n+len(e) <= len(b) {
		n += copy(b[n:], e)
	}
	return n, nil
}

const goodStream = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n" +
	"data: {\"choices\":[{\"delta\":{\"content\":\"a \"},\"finish_reason\":null}]}\n\n" +
	"data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":null}]}\n\n" +
	"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n" +
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n" +
	"data: [DONE]\n\n"

// readStream reads an answer of two tokens.
func readStream(stream string) (call, error) {
	c := &chat{o: &ChatOptions{IgnoreEnd: true}, base: time.Now()}
	q := call{cached: -1}
	resp := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Body: io.NopCloser(strings.NewReader(stream))}
	err := c.read(resp, Prompt{"a b", 2}, &q, new(life))
	return q, err
}

// TestDamagedStream: whatever is wrong with a stream, an answer has its tokens, or is an error with a kind.
func TestDamagedStream(t *testing.T) {
	if q, err := readStream(goodStream); err != nil || q.pieces != 2 || q.prompt != 3 || q.completion != 2 || q.cached != 1 {
		t.Fatalf("%+v: %v", q, err)
	}
	mutate.Try(t, "stream", []byte(goodStream), " {}[],:\"\n", func(m mutate.Mutation) error {
		q, err := readStream(string(m.Data))
		switch {
		case err != nil && (kindOf(err) == "" || err.Error() == ""):
			return errors.New("an error without a kind")
		case err == nil && (q.pieces < 1 || q.prompt < 1 || q.completion != 2 || q.first > q.last || len(q.gaps) >= q.pieces):
			return fmt.Errorf("%+v is taken", q)
		}
		return nil
	})
}

// FuzzStream reads any text as an answer.
func FuzzStream(f *testing.F) {
	f.Add(goodStream)
	f.Add("data: {\"error\":{\"message\":\"x\"}}\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		if q, err := readStream(s); err == nil && (q.pieces < 1 || q.completion != 2) {
			t.Errorf("%+v is taken", q)
		}
	})
}
