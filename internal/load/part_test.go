package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/locked"
)

// refusals is a session in which every answer is a line that refuses.
type refusals struct{ seq uint64 }

func (s *refusals) Request(b []byte) []byte { return append(b, "please\n"...) }

func (s *refusals) Answer(b []byte) (int, Answer, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, Answer{}, nil
	}
	a := Answer{Ended: true, Seq: s.seq, Wrong: "no", Said: string(b[:end])}
	s.seq++
	return end + 1, a, nil
}

// LastAnswer would accept an answer that a reset cut off.
func (s *refusals) LastAnswer() Answer { return Answer{Ended: true, Seq: s.seq} }

// refused returns a connection that the server reset after these words, and the server's
// address.
func refused(t *testing.T, words string) (net.Conn, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(server, words)
	_ = server.(*net.TCPConn).SetLinger(0)
	_ = server.Close()
	return c, l.Addr().String()
}

// TestPart: if writing fails, what the server said before it hung up is still read, and nothing
// else is made up.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		said, kind, words string
	}{
		{"too many\n", "no", "too many"},
		{"", "reset", "write: "},
		{"cut of", "reset", "write: "},
	} {
		t.Run(c.said, func(t *testing.T) {
			conn, _ := refused(t, c.said)
			a, _, received, err := exchange(&made{conn: conn, session: &refusals{}}, make([]byte, 64))
			if err == nil {
				err = fault{a.Wrong, a.Said}
			}
			if kindOf(err) != c.kind || received != len(c.said) {
				t.Errorf("%q, once: %v after %d bytes, want %s", c.said, err, received, c.kind)
			}

			conn, address := refused(t, c.said)
			s, err := newSocket(conn)
			if err != nil {
				t.Fatal(err)
			}
			s.patient = false
			o := &Options{Network: "tcp", Address: address, Pipeline: 1, Timeout: time.Hour}
			ctx, stop := context.WithCancel(t.Context())
			w := &worker{o: o, ctx: ctx, rec: newRecord(), redialled: locked.New(redialled{lost: newFailures()}), base: time.Now(), buf: make([]byte, 64)}
			w.rec.measure(stretch{from: 0, to: int64(time.Minute), width: int64(time.Second)})
			l := &connection{made: &made{conn: s, polled: s, session: &refusals{}}, times: newHistogram()}
			w.fill(l, 1)
			await.Event(t, "another connection is tried", func() error {
				held := w.redialled.Lock()
				defer w.redialled.Unlock()
				if len(held.lost.count) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			stop()
			w.redials.Wait()
			if e := w.rec.errors; !l.dead || len(e.count) != 1 || e.count[c.kind] != 1 || !strings.HasPrefix(e.words[c.kind], c.words) || w.rec.answered > 0 {
				t.Errorf("%q, in a loop: %v with the words %q, want one %s", c.said, e.count, e.words, c.kind)
			}
			if lost := w.redialled.Lock().lost; lost.count["refused"] == 0 { // by the kernel: nothing listens there any longer
				t.Errorf("connections that could not be made again: %v", lost.count)
			}
			w.redialled.Unlock()
		})
	}
}
