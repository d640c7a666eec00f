package channel

import (
	"context"
	"fmt"
	"testing"

	"github.com/flynn/noise"
)

// states are the keys of both directions of a session that nobody else is in.
func states() (to, from *noise.CipherState, err error) {
	c := Config{Suite: AESGCM}.limited()
	i, err := newConn(nil, c).noise(true, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	r, err := newConn(nil, c).noise(false, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	hello, _, _, err := i.WriteMessage(nil, nil)
	if err != nil {
		return nil, nil, err
	}
	if _, _, _, err := r.ReadMessage(nil, hello); err != nil {
		return nil, nil, err
	}
	answer, from, _, err := r.WriteMessage(nil, nil)
	if err != nil {
		return nil, nil, err
	}
	_, to, _, err = i.ReadMessage(nil, answer)
	return to, from, err
}

// BenchmarkSend seals and frames messages that nobody reads.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{1536, 4 << 10, 384 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := newConn(&stub{}, Config{}.limited())
			var err error
			if c.out.state, _, err = states(); err != nil {
				b.Fatal(err)
			}
			c.out.w = discard{}
			msg := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Send(msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkHandshake is both sides of a fresh and a resumed handshake.
func BenchmarkHandshake(b *testing.B) {
	mock := NewMock("bench")
	for _, name := range []string{"bare", "attested", "resumed"} {
		b.Run(name, func(b *testing.B) {
			c, s := Config{Suite: AESGCM, Unverified: true}, Config{Suite: AESGCM, Sessions: NewSessions(10)}
			if name != "bare" {
				c.Verifier, s.Attester = mock, mock
			}
			for b.Loop() {
				x, y := Pipe(8 << 10)
				served := make(chan error, 1)
				go func() {
					_, err := Server(context.Background(), y, s)
					served <- err
				}()
				conn, err := Client(context.Background(), x, c)
				if err2 := <-served; err != nil || err2 != nil {
					b.Fatal(err, err2)
				}
				if name == "resumed" {
					c.Resume = conn.Ticket()
				}
			}
		})
	}
}
