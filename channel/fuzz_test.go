package channel

import (
	"bytes"
	"io"
	"testing"
)

// stub is a connection on which everything was said already.
type stub struct {
	io.Reader
	out bytes.Buffer
}

func (s *stub) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *stub) Close() error                { return nil }

// FuzzWire puts any bytes on the wire: to a server and to a client in their
// handshakes, to a session with and without keys, and to the parser of tensors. There
// is no panic, nothing is accepted, and no more memory is taken than was sent.
func FuzzWire(f *testing.F) {
	var hello bytes.Buffer
	c := newConn(&stub{out: bytes.Buffer{}, Reader: &bytes.Buffer{}}, Config{Suite: AESGCM})
	hs, err := c.noise(true, []byte{version, byte(AESGCM), 0, 0}, nil)
	if err != nil {
		f.Fatal(err)
	}
	message, _, _, err := hs.WriteMessage([]byte{version, byte(AESGCM), 0, 0}, nil)
	if err != nil {
		f.Fatal(err)
	}
	s := sender{w: &hello}
	if err := s.control(kindHello, message); err != nil {
		f.Fatal(err)
	}
	f.Add(hello.Bytes())
	parts, err := Tensor{Name: "t", DType: U8, Shape: []uint32{3}, Data: []byte("abc")}.Parts()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Join(parts, nil))
	f.Add([]byte{byte(kindLast), 0, 0, 3, 'a', 'b', 'c', byte(kindClose), 0, 0, 0})
	f.Add([]byte{byte(kindPart), 0xff, 0xff, 0xff, 1})
	f.Add([]byte{byte(kindRefuse), 0, 0, 1, 3})
	f.Add([]byte{byte(kindAgain), 0, 0, 0, byte(kindAgain), 0, 0, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		if c, err := Server(t.Context(), &stub{Reader: bytes.NewReader(wire)}, Config{Suite: AESGCM, Sessions: NewSessions(1)}); err == nil {
			t.Errorf("a server accepted %q: %v", wire, c)
		}
		if c, err := Client(t.Context(), &stub{Reader: bytes.NewReader(wire)}, Config{Suite: AESGCM, Unverified: true}); err == nil {
			t.Errorf("a client accepted %q: %v", wire, c)
		}
		plain := Unprotected(&stub{Reader: bytes.NewReader(wire)}, Config{MaxMessage: 1 << 20})
		for {
			msg, err := plain.Receive(nil)
			if err != nil {
				break
			}
			if len(msg) > len(wire) || cap(msg) > 4*len(wire)+maxBody {
				t.Fatalf("%d bytes, room for %d, of %d", len(msg), cap(msg), len(wire))
			}
		}
		keyed := newConn(&stub{Reader: bytes.NewReader(wire)}, Config{}.limited())
		_, keyed.in.state, _ = states()
		if msg, err := keyed.Receive(nil); err == nil {
			t.Errorf("a session accepted %q as %q", wire, msg)
		}
		if x, err := ParseTensor(wire); err == nil {
			if parts, err := x.Parts(); err != nil || !bytes.Equal(bytes.Join(parts, nil), wire) {
				t.Errorf("tensor %v is not what was sent: %v", x, err)
			}
		}
	})
}
