package protocols

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/load"
)

var asks = load.Ask{Host: "localhost", Path: "/", Command: "get key:{key}", Keys: 1, Bytes: 12, User: "u"}

// session returns a session of a protocol that needs no greeting.
func session(t testing.TB, p *load.Protocol, a load.Ask) (load.Session, load.Dialect) {
	t.Helper()
	d, err := p.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	switch p {
	case &mongodb:
		return &mongoSession{d: d.(*mongoDialect), drawn: newDrawn(1)}, d
	case &postgres:
		return &postgresSession{d: d.(*postgresDialect), drawn: newDrawn(1)}, d
	}
	s, _, err := d.Begin(t.Context(), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s, d
}

// answers feeds a stream in pieces of some bytes, as an event loop does. It returns one word for
// each answer that ended: "" for a right one, else the kind of error. "breach" is a protocol
// violation and ends the list; "last" and "end" mean that the connection is at its end.
func answers(s load.Session, stream string, piece int) (out []string, left int) {
	var in []byte
	for len(stream) > 0 {
		n := min(piece, len(stream))
		in = append(in, stream[:n]...)
		stream = stream[n:]
		for {
			n, a, err := s.Answer(in)
			if err != nil {
				return append(out, "breach"), len(in)
			}
			in = in[n:]
			if a.Ended {
				out = append(out, a.Wrong)
				if a.Last {
					out = append(out, "last")
				}
			} else if n == 0 {
				break
			}
		}
	}
	if a := s.LastAnswer(); a.Ended {
		out = append(out, a.Wrong, "end")
	}
	return out, len(in)
}

// message encodes a PostgreSQL message.
func message(kind byte, body string) string {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return string(b) + body
}

const (
	value0 = "000000000waz" // of key 0; the letters are the generator's
	ok200  = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
)

// TestAnswers: streams of answers are read correctly, however they are cut.
func TestAnswers(t *testing.T) {
	v := string(value(0, 12))
	for _, c := range []struct {
		name     string
		protocol *load.Protocol
		asked    int
		stream   string
		want     string
	}{
		{"two", &http1, 2, ok200 + ok200, ","},
		{"empty", &http1, 2, "HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n" + "HTTP/1.1 204 None\r\n\r\n", ",status 204"},
		{"another body", &http1, 2, ok200 + strings.Replace(ok200, "hi", "ho", 1), ",wrong answer"},
		{"another length", &http1, 2, ok200 + "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi!", ",wrong answer"},
		{"status", &http1, 1, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", "status 503"},
		{"interim", &http1, 1, "HTTP/1.1 100 Continue\r\n\r\n" + ok200, ""},
		{"chunks", &http1, 2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\nTrailer: 1\r\n\r\n" + ok200, ","},
		{"close", &http1, 1, "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nhi", ",last"},
		{"1.0", &http1, 1, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", ",last"},
		{"1.0 keep-alive", &http1, 1, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi", ""},
		{"until the end", &http1, 1, "HTTP/1.1 200 OK\r\n\r\nhi", ",end"},
		{"no status", &http1, 1, "HTTP/1.1 OK\r\n\r\n", "breach"},
		{"two lengths", &http1, 1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "breach"},
		{"bad length", &http1, 1, "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", "breach"},
		{"bad chunk", &http1, 1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "breach"},
		{"long chunk", &http1, 1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhi\r\n", "breach"},
		{"coding", &http1, 1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "breach"},
		{"endless head", &http1, 1, "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", mostHead), "breach"},

		{"value", &resp, 2, "$12\r\n" + v + "\r\n$12\r\n" + v + "\r\n", ","},
		{"none", &resp, 1, "$-1\r\n", "wrong answer"},
		{"other value", &resp, 1, "$12\r\n" + strings.Repeat("x", 12) + "\r\n", "wrong answer"},
		{"error", &resp, 1, "-ERR no\r\n", "error reply"},
		{"array", &resp, 1, "*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n", "wrong answer"},
		{"huge array", &resp, 1, "*9999999\r\n", "breach"},
		{"huge string", &resp, 1, "$99999999999\r\n", "breach"},
		{"unknown", &resp, 1, "?\r\n", "breach"},
		{"bare", &resp, 1, "+OK\n", "breach"},
		{"unasked", &resp, 1, "$12\r\n" + v + "\r\n+OK\r\n", ",breach"},
		{"no end", &resp, 1, "$12\r\n" + v + "xx", "breach"},

		{"lines", &line, 3, "a\na\nb\n", ",,wrong answer"},
		{"echo", &raw, 2, v + strings.Repeat("y", 12), ",wrong answer"},

		{"rows", &postgres, 2, strings.Repeat(message('T', "desc")+message('D', "row")+message('C', "SELECT 1\x00")+message('Z', "I"), 2), ","},
		{"fewer rows", &postgres, 2, message('D', "row") + message('Z', "I") + message('Z', "I"), ",wrong answer"},
		{"sql error", &postgres, 1, message('E', "no") + message('Z', "I"), "error reply"},
		{"copy", &postgres, 1, message('G', ""), "breach"},
		{"no length", &postgres, 1, "Z\x00\x00\x00\x00", "breach"},
		{"unasked", &postgres, 0, message('Z', "I"), "breach"},
	} {
		t.Run(c.protocol.Name+" "+c.name, func(t *testing.T) {
			for _, piece := range []int{1, 2, 7, 1 << 20} {
				s, _ := session(t, c.protocol, asks)
				for range c.asked {
					s.Request(nil)
				}
				got, left := answers(s, c.stream, piece)
				if strings.Join(got, ",") != c.want || len(got) > 0 && got[len(got)-1] != "breach" && left > 0 {
					t.Fatalf("in pieces of %d: answers %q with %d bytes left, want %q", piece, got, left, c.want)
				}
			}
		})
	}
}

// TestDigests: equal answers give equal digests, different ones do not, and there is none before
// an answer whose contents are not known beforehand.
func TestDigests(t *testing.T) {
	digest := func(stream string) string {
		s, d := session(t, &http1, asks)
		answers(s, stream, 100)
		return d.Digest()
	}
	if a, b := digest(ok200), digest(ok200+ok200); a == "" || a != b {
		t.Errorf("digests of one and two equal answers are %q and %q", a, b)
	}
	if a, b := digest(ok200), digest(strings.Replace(ok200, "hi", "ho", 1)); a == b {
		t.Errorf("digests of two answers are both %q", a)
	}
	if d := digest(""); d != "" {
		t.Errorf("the digest of no answer is %q", d)
	}
}

// TestRequests: requests have the form that servers expect, and all keys are drawn.
func TestRequests(t *testing.T) {
	a := asks
	a.Keys = 2
	s, _ := session(t, &resp, a)
	seen := map[string]bool{}
	for range 64 {
		seen[string(s.Request(nil))] = true
	}
	want := "*2\r\n$3\r\nget\r\n$13\r\nkey:000000001\r\n"
	if len(seen) != 2 || !seen[want] {
		t.Errorf("requests %v, want %q among two", seen, want)
	}
	s, _ = session(t, &postgres, load.Ask{Command: "SELECT {key}", Keys: 1})
	if got, want := string(s.Request(nil)), message('Q', "SELECT 000000000\x00"); got != want {
		t.Errorf("query %q, want %q", got, want)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		p *load.Protocol
		a load.Ask
	}{
		{&http1, load.Ask{Host: "h", Path: "x"}}, {&http1, load.Ask{Path: "/"}}, {&http2, load.Ask{Host: "h", Path: "/\r\n"}},
		{&resp, load.Ask{Keys: 1, Bytes: 1}}, {&resp, load.Ask{Command: "GET {key}", Bytes: 1}}, {&resp, load.Ask{Command: "GET {key}", Keys: 1, Bytes: 1 << 30}},
		{&line, load.Ask{}}, {&line, load.Ask{Command: "a\nb"}}, {&raw, load.Ask{}}, {&postgres, load.Ask{Keys: 1}}, {&postgres, load.Ask{Command: "SELECT 1"}},
	} {
		if _, err := c.p.Open(c.a); err == nil {
			t.Errorf("%s accepts %+v", c.p.Name, c.a)
		}
	}
}

// TestPopulate: every key is set once, in batches, and an error reply ends it.
func TestPopulate(t *testing.T) {
	a := asks
	a.Keys = 2500
	for _, says := range []string{"+OK\r\n", "-ERR full\r\n"} {
		t.Run(says, func(t *testing.T) {
			_, d := session(t, &resp, a)
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				for b := make([]byte, 1<<20); ; {
					n, err := server.Read(b)
					if err != nil {
						return
					}
					for range strings.Count(string(b[:n]), "SET") {
						if _, err := io.WriteString(server, says); err != nil {
							return
						}
					}
				}
			}()
			n, err := d.(load.Populator).Populate(context.Background(), client)
			client.Close()
			if says == "+OK\r\n" && (n != 2500 || err != nil) || says != "+OK\r\n" && err == nil {
				t.Errorf("%q: %d keys, %v", says, n, err)
			}
		})
	}
}

func TestReadStatistics(t *testing.T) {
	const info = "# Server\r\nredis_version:7.0.15\r\n\r\ntotal_commands_processed:12\r\nratio:0.5\r\n"
	const page = "HTTP/1.1 200 OK\r\nServer: nginx/1.26\r\n\r\nActive connections: 2 \nserver accepts handled requests\n 16 15 31070 \nReading: 1 Writing: 3 Waiting: 4 \n"
	for _, x := range []struct {
		s       *load.Statistics
		request string // the last line of it
		answer  string
		numbers map[string]float64
		version map[string]string
	}{
		{&redisStatistics, "INFO", fmt.Sprintf("$%d\r\n%s\r\n", len(info), info), map[string]float64{"total_commands_processed": 12, "ratio": 0.5}, map[string]string{"redis_version": "7.0.15"}},
		{&redisStatistics, "INFO", "-NOAUTH\r\n", nil, nil},
		{&memcachedStatistics, "stats", "STAT version 1.6.18\r\nSTAT cmd_get 7\r\nSTAT threads 4\r\nEND\r\n", map[string]float64{"cmd_get": 7, "threads": 4}, map[string]string{"version": "1.6.18"}},
		{&memcachedStatistics, "stats", "STAT cmd_get 7\r\n", nil, nil},
		{&nginxStatistics, "", page, map[string]float64{"active": 2, "accepts": 16, "handled": 15, "requests": 31070, "reading": 1, "writing": 3, "waiting": 4}, map[string]string{"server": "nginx/1.26"}},
		{&nginxStatistics, "", "HTTP/1.1 404 Not Found\r\n\r\nno", nil, nil},
		{&nginxStatistics, "", page[:100], nil, nil},
		{&nginxStatistics, "", "", nil, nil},
	} {
		t.Run(x.request, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != x.request; {
				}
				_, _ = io.WriteString(c, x.answer)
			}()
			o := &load.Options{Network: "tcp", Address: l.Addr().String(), Timeout: 20 * time.Second}
			numbers, version, err := x.s.Read(t.Context(), o)
			if x.numbers == nil && err == nil || x.numbers != nil && (err != nil || !maps.Equal(numbers, x.numbers) || !maps.Equal(version, x.version)) {
				t.Errorf("%s, %q: %v, %v, %v", x.s.Name, x.answer, numbers, version, err)
			}
			_ = l.Close()
		})
	}
}

// FuzzAnswers: no stream makes a session panic, consume more than its input, or hang.
func FuzzAnswers(f *testing.F) {
	for i, stream := range []string{ok200, "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "$1\r\na\r\n", "VALUE key:000000000 0 1\r\na\r\nEND\r\n", message('Z', "I"),
		string(mongoSays(1, mongoFound(1, "key:000000000", string(value(0, mongoTestAsk.Bytes))))), "a\n", value0} {
		f.Add(uint8(i), uint8(3), []byte(stream))
	}
	f.Fuzz(func(t *testing.T, which, asked uint8, stream []byte) {
		p, a := All[int(which)%len(All)], asks
		if p == &mongodb {
			a = mongoTestAsk // its command is not memcached's
		}
		s, _ := session(t, p, a)
		for range asked % 8 {
			s.Request(nil)
		}
		for steps := 0; ; steps++ {
			n, a, err := s.Answer(stream)
			if n < 0 || n > len(stream) || steps > 1<<20 {
				t.Fatalf("%d bytes of %d taken in step %d", n, len(stream), steps)
			}
			stream = stream[n:]
			if err != nil || n == 0 && !a.Ended {
				break
			}
		}
		s.LastAnswer()
	})
}

// TestFileNames: protocol NAME is in the file NAME.go, dashes as underscores.
func TestFileNames(t *testing.T) {
	for _, m := range All {
		file := strings.ReplaceAll(m.Name, "-", "_") + ".go"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: want its file to be called %s", m.Name, file)
		}
	}
}
