package channel

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// recorded is a handshake with known random numbers: what each side sent until it was done, and
// how to be that side again.
func recorded(t testing.TB) (up, down []byte, client, server func() Config) {
	t.Helper()
	mock := NewMock("recorded")
	random := func(first byte) *bytes.Reader {
		return bytes.NewReader(append(counted(first, 32), counted(first+0x40, 32)...))
	}
	now := func() time.Time { return time.Unix(1e9, 0) }
	client = func() Config {
		return Config{Suite: AESGCM, Service: "test", Attester: mock, Verifier: mock, Now: now, random: random(0x10)}
	}
	server = func() Config {
		return Config{Suite: AESGCM, Service: "test", Attester: mock, Verifier: mock, Sessions: NewSessions(1), Now: now, random: random(0x90)}
	}
	keep := func(all *[]byte) func(int, []byte) [][]byte {
		return func(_ int, f []byte) [][]byte { *all = append(*all, f...); return [][]byte{f} }
	}
	a, near := Pipe(1 << 16)
	distant, b := Pipe(1 << 16)
	ended := make(chan struct{}, 2)
	go func() { frames(near, distant, keep(&up)); ended <- struct{}{} }()
	go func() { frames(distant, near, keep(&down)); ended <- struct{}{} }()
	served := make(chan error, 1)
	go func() {
		_, err := Server(context.Background(), b, server())
		served <- err
	}()
	_, err := Client(context.Background(), a, client())
	if err2 := <-served; err != nil || err2 != nil {
		t.Fatalf("client: %v, server: %v", err, err2)
	}
	_, _ = a.Close(), b.Close()
	<-ended
	<-ended
	return up, down, client, server
}

// accepts says whether a side makes a session of what it reads.
func accepts(server bool, c Config, wire []byte) bool {
	open := Client
	if server {
		open = Server
	}
	_, err := open(context.Background(), &stub{Reader: bytes.NewReader(wire)}, c)
	return err == nil
}

// TestTranscript changes each bit of a handshake, of either direction: no other transcript is
// accepted.
func TestTranscript(t *testing.T) {
	up, down, client, server := recorded(t)
	for _, side := range []struct {
		server bool
		wire   []byte
		config func() Config
	}{{true, up, server}, {false, down, client}} {
		if !accepts(side.server, side.config(), side.wire) {
			t.Fatalf("server %v: the recorded handshake is refused", side.server)
		}
		for at := range len(side.wire) * 8 {
			changed := bytes.Clone(side.wire)
			changed[at/8] ^= 1 << (at % 8)
			if accepts(side.server, side.config(), changed) {
				t.Errorf("server %v: accepted with another bit %d of byte %d", side.server, at%8, at/8)
			}
		}
	}
}

// FuzzTranscript: a side that is who it was in a recorded handshake accepts that, whatever comes
// after it, and nothing else.
func FuzzTranscript(f *testing.F) {
	up, down, client, server := recorded(f)
	f.Add(true, up)
	f.Add(false, down)
	f.Add(true, down)
	f.Add(false, up)
	f.Fuzz(func(t *testing.T, isServer bool, wire []byte) {
		config, want := client, down
		if isServer {
			config, want = server, up
		}
		if got := accepts(isServer, config(), wire); got != bytes.HasPrefix(wire, want) {
			t.Errorf("server %v accepts %x: %v", isServer, wire, got)
		}
	})
}
