package channel

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"
)

// streams are both sides of a session as streams.
func streams(t *testing.T, piece int) (a, b *Stream) {
	t.Helper()
	c, s := configs(AESGCM)
	x, y := pair(t, c, s)
	return NewStream(x, piece), NewStream(y, piece)
}

// TestStream: each direction carries its bytes, and ends by itself.
func TestStream(t *testing.T) {
	for _, piece := range []int{1, 1000, 0} {
		a, b := streams(t, piece)
		want := make([]byte, 3000)
		_, _ = rand.Read(want)
		for _, way := range [][2]*Stream{{a, b}, {b, a}} {
			sent := make(chan error, 1)
			go func() {
				_, err := way[0].Write(want)
				sent <- errors.Join(err, way[0].CloseWrite(), way[0].CloseWrite())
			}()
			half := make([]byte, len(want)/2)
			if _, err := io.ReadFull(way[1], half); err != nil {
				t.Fatal(err)
			}
			var rest bytes.Buffer
			n, err := way[1].WriteTo(&rest)
			if err != nil || n != int64(rest.Len()) || !bytes.Equal(append(half, rest.Bytes()...), want) {
				t.Errorf("pieces of %d: %d bytes arrived: %v", piece, len(half)+rest.Len(), err)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			if n, err := way[1].Read(half); n != 0 || err != io.EOF {
				t.Errorf("after the end: %d bytes, %v", n, err)
			}
			if _, err := way[0].Write(want); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("write after the end: %v", err)
			}
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestStreamCut: a session that is closed before a stream's end, in order or not, is no end
// of the stream.
func TestStreamCut(t *testing.T) {
	for name, cut := range map[string]func(*Stream){
		"closed": func(s *Stream) { _ = s.Close() },
		"killed": func(s *Stream) { _ = s.conn.transport.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := streams(t, 0)
			if _, err := a.Write([]byte("begin")); err != nil {
				t.Fatal(err)
			}
			cut(a)
			got, err := io.ReadAll(b)
			if string(got) != "begin" || !errors.Is(err, ErrTruncated) {
				t.Errorf("%s: read %q, %v", name, got, err)
			}
			if n, err := b.WriteTo(io.Discard); n != 0 || !errors.Is(err, ErrTruncated) {
				t.Errorf("%s: read again: %d, %v", name, n, err)
			}
		})
	}
}

// full is a writer that takes a few bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	if f.left -= n; n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// TestStreamGoesOn: what a writer did not take can still be read.
func TestStreamGoesOn(t *testing.T) {
	a, b := streams(t, 0)
	if _, err := a.Write([]byte("one two")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.WriteTo(&full{4}); n != 4 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("wrote %d, %v", n, err)
	}
	p := make([]byte, 10)
	if n, err := b.Read(p); string(p[:n]) != "two" || err != nil {
		t.Errorf("read %q, %v", p[:n], err)
	}
}
