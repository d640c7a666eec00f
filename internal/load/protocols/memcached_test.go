package protocols

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/load"
)

var memcachedAsk = load.Ask{Command: "get key:{key}", Keys: 1, Bytes: 11}

func openMemcached(t testing.TB, a load.Ask) load.Dialect {
	t.Helper()
	d, err := memcached.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asking returns a session with one request in flight.
func asking(t testing.TB, d load.Dialect) load.Session {
	t.Helper()
	s, _, err := d.Begin(t.Context(), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if q := s.Request(nil); string(q) != "get key:000000000\r\n" {
		t.Fatalf("request %q", q)
	}
	return s
}

// TestMemcachedAnswers: an answer is right, wrong with a named kind, or a protocol violation;
// cut off at any byte it is none of these yet.
func TestMemcachedAnswers(t *testing.T) {
	d := openMemcached(t, memcachedAsk)
	stored := string(value(0, memcachedAsk.Bytes))
	other := stored[:len(stored)-1] + "."
	for _, c := range []struct {
		name, in, wrong string
		breach          bool
	}{
		{"right", "VALUE key:000000000 0 11\r\n" + stored + "\r\nEND\r\n", "", false},
		{"missing", "END\r\n", "missing key", false},
		{"refused", "SERVER_ERROR out of memory\r\n", "error reply", false},
		{"other key", "VALUE key:000000001 0 11\r\n" + stored + "\r\nEND\r\n", "wrong answer", false},
		{"other value", "VALUE key:000000000 0 11\r\n" + other + "\r\nEND\r\n", "wrong answer", false},
		{"other length", "VALUE key:000000000 0 10\r\n" + stored[:10] + "\r\nEND\r\n", "wrong answer", false},
		{"two values", "VALUE key:000000000 0 11\r\n" + stored + "\r\nVALUE", "", true},
		{"no length", "VALUE key:000000000 0\r\n", "", true},
		{"huge", "VALUE key:000000000 0 999999999\r\n", "", true},
		{"other protocol", "HTTP/1.1 400 Bad Request\r\n", "", true},
		{"endless line", strings.Repeat("x", mostHead+1), "", true},
		{"bare newline", "END\n", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for cut := 0; cut < len(c.in) && !c.breach; cut++ {
				if n, a, err := asking(t, d).Answer([]byte(c.in[:cut])); n != 0 || a.Ended || err != nil {
					t.Fatalf("cut after %d bytes: %d, %+v, %v", cut, n, a, err)
				}
			}
			s := asking(t, d)
			n, a, err := s.Answer([]byte(c.in + "rest"))
			if c.breach {
				if err == nil {
					t.Errorf("%d bytes, %+v: want an error", n, a)
				}
				return
			}
			if n != len(c.in) || err != nil || !a.Ended || a.Wrong != c.wrong {
				t.Errorf("%d of %d bytes, %+v, %v; want wrong %q", n, len(c.in), a, err, c.wrong)
			}
			if _, _, err := s.Answer([]byte("END\r\n")); err == nil {
				t.Error("an answer without a request is accepted")
			}
		})
	}
}

func TestMemcachedRefuses(t *testing.T) {
	for _, a := range []load.Ask{
		{Command: "get key", Keys: 1, Bytes: 1}, {Command: "set {key}", Keys: 1, Bytes: 1}, {Command: "get a {key}", Keys: 1, Bytes: 1},
		{Command: "get {key} b", Keys: 1, Bytes: 1}, {Command: "get {key}", Keys: 0, Bytes: 1}, {Command: "get {key}", Keys: 1, Bytes: 0},
		{Command: "get {key}" + strings.Repeat("k", mostKey), Keys: 1, Bytes: 1}, {},
	} {
		if _, err := memcached.Open(a); err == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
}

// TestMemcachedPopulate: every key is stored, and a refusal is an error.
func TestMemcachedPopulate(t *testing.T) {
	a := memcachedAsk
	a.Keys = 2500
	d := openMemcached(t, a).(load.Populator)
	for _, says := range []string{"STORED\r\n", "SERVER_ERROR out of memory\r\n"} {
		t.Run(says, func(t *testing.T) {
			client, server := net.Pipe()
			stored := make(chan int, 1)
			go func() {
				n := 0
				for batch := make([]byte, 1<<20); ; {
					k, err := server.Read(batch)
					sets := bytes.Count(batch[:k], []byte("set key:"))
					n += sets
					if err == nil {
						_, err = io.WriteString(server, strings.Repeat(says, sets))
					}
					if err != nil {
						stored <- n
						return
					}
				}
			}()
			done, err := d.Populate(t.Context(), client)
			client.Close()
			if n := <-stored; says == "STORED\r\n" && (err != nil || done != 2500 || n != 2500) {
				t.Errorf("%d keys stored, %d by the server's count: %v", done, n, err)
			} else if says != "STORED\r\n" && (err == nil || done != 0) {
				t.Errorf("%q: %d keys stored, %v", says, done, err)
			}
		})
	}
}

// FuzzMemcachedAnswer: no answer causes a panic, or is longer than the input.
func FuzzMemcachedAnswer(f *testing.F) {
	for _, s := range []string{"VALUE key:000000000 0 11\r\n000000000ab\r\nEND\r\n", "END\r\n", "ERROR\r\n", "VALUE  \r\n"} {
		f.Add([]byte(s))
	}
	d := openMemcached(f, memcachedAsk)
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, a, err := asking(t, d).Answer(b); n < 0 || n > len(b) || a.Ended && (n == 0 || err != nil) {
			t.Errorf("%q: %d bytes, %+v, %v", b, n, a, err)
		}
	})
}
