package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flynn/noise"
)

// frames forwards whole frames from one connection to another. Each is handed to
// change, with its number from 0, which returns what goes on in its place; nil is
// nothing. When from ends, so does to.
func frames(from, to io.ReadWriteCloser, change func(n int, frame []byte) [][]byte) {
	defer to.Close()
	for n := 0; ; n++ {
		h := make([]byte, headerSize)
		if _, err := io.ReadFull(from, h); err != nil {
			return
		}
		f := append(h, make([]byte, int(h[1])<<16|int(h[2])<<8|int(h[3]))...)
		if _, err := io.ReadFull(from, f[headerSize:]); err != nil {
			return
		}
		for _, g := range change(n, f) {
			if _, err := to.Write(g); err != nil {
				return
			}
		}
	}
}

func asIs(_ int, f []byte) [][]byte { return [][]byte{f} }

// between makes two connections with somebody in the middle of them.
func between(up, down func(int, []byte) [][]byte) (client, server io.ReadWriteCloser) {
	client, near := Pipe(1 << 20)
	distant, server := Pipe(1 << 20)
	go frames(near, distant, up)
	go frames(distant, near, down)
	return client, server
}

// shake makes a session over two ends; the errors are of the client and the server.
func shake(t *testing.T, client, server io.ReadWriteCloser, c, s Config) (a, b *Conn, aerr, berr error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b, berr = Server(t.Context(), server, s)
	}()
	a, aerr = Client(t.Context(), client, c)
	<-done
	return a, b, aerr, berr
}

// pair is a session between two sides that are content.
func pair(t *testing.T, c, s Config) (a, b *Conn) {
	t.Helper()
	x, y := Pipe(1 << 20)
	a, b, aerr, berr := shake(t, x, y, c, s)
	if aerr != nil || berr != nil {
		t.Fatalf("client: %v, server: %v", aerr, berr)
	}
	return a, b
}

// configs are the two sides of a mutual session.
func configs(suite Suite) (client, server Config) {
	c, s := NewMock("client"), NewMock("server")
	return Config{Suite: suite, Service: "test", Attester: c, Verifier: s, Counters: &Counters{}},
		Config{Suite: suite, Service: "test", Attester: s, Verifier: c, Counters: &Counters{}, Sessions: NewSessions(10)}
}

func TestSession(t *testing.T) {
	for _, suite := range []Suite{AESGCM, ChaChaPoly} {
		for _, mutual := range []bool{true, false} {
			c, s := configs(suite)
			if !mutual {
				c.Attester, s.Verifier = nil, nil
			}
			a, b := pair(t, c, s)
			if len(a.Evidence()) == 0 || (len(b.Evidence()) > 0) != mutual {
				t.Errorf("%v: the client holds %d bytes of evidence, the server %d", suite, len(a.Evidence()), len(b.Evidence()))
			}
			var got []byte
			for _, size := range []int{0, 1, recordSize - 1, recordSize, recordSize + 1, 384 << 10, 1 << 20} {
				want := make([]byte, size)
				_, _ = rand.Read(want)
				for _, way := range [][2]*Conn{{a, b}, {b, a}} {
					sent := make(chan error, 1)
					go func() { sent <- way[0].Send(want[:size/3], nil, want[size/3:]) }()
					var err error
					if got, err = way[1].Receive(got); err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%v, %d bytes: received %d: %v", suite, size, len(got), err)
					}
					if err := <-sent; err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if _, err := b.Receive(nil); err != io.EOF {
				t.Errorf("after a close in order: %v, want io.EOF", err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if err := a.Send(nil); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("send after close: %v", err)
			}
			if c.Counters.Handshakes.Load() != 1 || s.Counters.Handshakes.Load() != 1 {
				t.Error("the handshake was not counted")
			}
		}
	}
}

// TestEvidence: what is not the right evidence for this very session is refused, on
// the side that sees it, told to the other, and counted.
func TestEvidence(t *testing.T) {
	old := [64]byte{1, 2, 3}
	stranger := NewMock("stranger")
	other := NewMock("server")
	other.Measurement[0] = 1
	for name, change := range map[string]func(c, s *Config){
		"none":          func(_, s *Config) { s.Attester = nil },
		"of a stranger": func(_, s *Config) { s.Attester = stranger },
		"other program": func(_, s *Config) { s.Attester = other },
		"other session": func(_, s *Config) {
			own := s.Attester
			s.Attester = AttesterFunc(func(ctx context.Context, _ [64]byte) ([]byte, error) { return own.Attest(ctx, old) })
		},
		"not mock": func(_, s *Config) {
			s.Attester = AttesterFunc(func(context.Context, [64]byte) ([]byte, error) { return []byte("a quote"), nil })
		},
		"none of client": func(c, _ *Config) { c.Attester = nil },
		"wrong client":   func(c, _ *Config) { c.Attester = stranger },
		// The server's own evidence comes back to it: both sides have one key here.
		"reflected": func(c, s *Config) {
			var last []byte
			both := NewMock("server")
			s.Verifier = both
			c.Verifier = VerifierFunc(func(_ context.Context, e []byte, _ [64]byte) error { last = e; return nil })
			c.Attester = AttesterFunc(func(context.Context, [64]byte) ([]byte, error) { return last, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := configs(AESGCM)
			change(&c, &s)
			x, y := Pipe(1 << 20)
			a, b, aerr, berr := shake(t, x, y, c, s)
			refusing, refused := aerr, berr
			counted := c.Counters
			if a != nil { // the client was content; it learns later
				refusing, counted = berr, s.Counters
				_, refused = a.Receive(nil)
			}
			if b != nil || !errors.Is(refusing, ErrEvidence) || !errors.Is(refused, ErrRefused) {
				t.Errorf("one side: %v, the other: %v", refusing, refused)
			}
			if counted.Evidence.Load() != 1 {
				t.Error("the refusal was not counted")
			}
			if s.Sessions.Len() != 0 {
				t.Error("a session that was refused can be resumed")
			}
		})
	}
}

// TestTampering puts somebody between two sides who are in a session, and who can do
// with frames what he likes but make them.
func TestTampering(t *testing.T) {
	var kept []byte
	flip := func(at int) func(n int, f []byte) [][]byte {
		return func(n int, f []byte) [][]byte {
			if n == 2 { // hello, proof, then the first message
				f[(at+len(f))%len(f)] ^= 1
			}
			return [][]byte{f}
		}
	}
	for name, c := range map[string]struct {
		up   func(n int, f []byte) [][]byte
		want error
		of   func(*Counters) uint64
	}{
		"replayed": {func(n int, f []byte) [][]byte {
			if n == 2 {
				return [][]byte{f, f}
			}
			return [][]byte{f}
		}, ErrForged, func(c *Counters) uint64 { return c.Forged.Load() }},
		"left out": {func(n int, f []byte) [][]byte {
			if n == 2 {
				return nil
			}
			return [][]byte{f}
		}, ErrForged, func(c *Counters) uint64 { return c.Forged.Load() }},
		"swapped": {func(n int, f []byte) [][]byte {
			switch n {
			case 2:
				kept = f
				return nil
			case 3:
				return [][]byte{f, kept}
			}
			return [][]byte{f}
		}, ErrForged, func(c *Counters) uint64 { return c.Forged.Load() }},
		"changed body": {flip(headerSize), ErrForged, func(c *Counters) uint64 { return c.Forged.Load() }},
		"changed tag":  {flip(-1), ErrForged, func(c *Counters) uint64 { return c.Forged.Load() }},
		"changed kind": {flip(0), ErrForged, func(c *Counters) uint64 { return c.Forged.Load() }},
		"cut in a record": {func(n int, f []byte) [][]byte {
			if n == 2 {
				return [][]byte{f[:len(f)-1]}
			}
			return cutAfter(n, f)
		}, ErrTruncated, func(c *Counters) uint64 { return c.Truncated.Load() }},
		"cut between records": {func(n int, f []byte) [][]byte {
			if n == 2 {
				return nil
			}
			return cutAfter(n, f)
		}, ErrTruncated, func(c *Counters) uint64 { return c.Truncated.Load() }},
	} {
		t.Run(name, func(t *testing.T) {
			cc, sc := configs(AESGCM)
			client, near := Pipe(1 << 20)
			distant, server := Pipe(1 << 20)
			go func() {
				defer distant.Close()
				frames(near, distant, func(n int, f []byte) [][]byte {
					out := c.up(n, f)
					if n >= 2 && errors.Is(c.want, ErrTruncated) {
						for _, g := range out {
							_, _ = distant.Write(g)
						}
						_ = distant.Close()
						return nil
					}
					return out
				})
			}()
			go frames(distant, near, asIs)
			a, b, aerr, berr := shake(t, client, server, cc, sc)
			if aerr != nil || berr != nil {
				t.Fatalf("client: %v, server: %v", aerr, berr)
			}
			for _, m := range []string{"first", "second", "third"} {
				_ = a.Send([]byte(m)) // what is cut behind it may show here already
			}
			var err error
			for err == nil {
				_, err = b.Receive(nil)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("receive: %v, want %v", err, c.want)
			}
			if n := c.of(sc.Counters); n != 1 {
				t.Errorf("counted %d times", n)
			}
			if _, again := b.Receive(nil); again == nil || again.Error() != err.Error() {
				t.Errorf("after the fault: %v", again)
			}
			if err := b.Send([]byte("x")); !errors.Is(err, c.want) {
				t.Errorf("send after the fault: %v", err)
			}
			if errors.Is(c.want, ErrForged) {
				if _, err := a.Receive(nil); !errors.Is(err, ErrRefused) && !errors.Is(err, ErrTruncated) {
					t.Errorf("the other side: %v", err)
				}
			}
		})
	}
}

func cutAfter(_ int, f []byte) [][]byte { return [][]byte{f} }

// TestNegotiation: what is said in the clear cannot be changed on the way.
func TestNegotiation(t *testing.T) {
	set := func(frame, at int, v byte) func(int, []byte) [][]byte {
		return func(n int, f []byte) [][]byte {
			if n == frame && at < len(f) {
				f[at] = v
			}
			return [][]byte{f}
		}
	}
	key := func(at int) func(int, []byte) [][]byte {
		return func(n int, f []byte) [][]byte {
			if n == 0 {
				f[at] ^= 1
			}
			return [][]byte{f}
		}
	}
	for name, c := range map[string]struct {
		up, down func(int, []byte) [][]byte
		want     error // of the server
	}{
		"version":       {set(0, headerSize, 2), asIs, errSuite},
		"suite":         {set(0, headerSize+1, byte(ChaChaPoly)), asIs, errSuite},
		"resume":        {set(0, headerSize+2, 1), asIs, ErrMalformed},
		"no hello":      {set(0, 0, byte(kindProof)), asIs, ErrMalformed},
		"service":       {set(0, headerSize+4, 'x'), asIs, errService},
		"client's key":  {key(headerSize + 12), asIs, nil},
		"server's key":  {asIs, key(headerSize), nil},
		"no accept":     {asIs, set(0, 0, byte(kindClose)), nil},
		"another again": {asIs, set(0, 0, byte(kindAgain)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			cc, sc := configs(AESGCM)
			cc.HandshakeTimeout, sc.HandshakeTimeout = time.Hour, time.Hour
			client, server := between(c.up, c.down)
			a, b, aerr, berr := shake(t, client, server, cc, sc)
			if a != nil || b != nil || aerr == nil || berr == nil {
				t.Fatalf("client: %v, server: %v", aerr, berr)
			}
			if c.want != nil && !errors.Is(berr, c.want) {
				t.Errorf("server: %v, want %v", berr, c.want)
			}
		})
	}
}

func TestResume(t *testing.T) {
	c, s := configs(AESGCM)
	now := time.Unix(1e9, 0)
	c.Now, s.Now = func() time.Time { return now }, func() time.Time { return now }
	quotes := 0
	own := s.Attester
	s.Attester = AttesterFunc(func(ctx context.Context, b [64]byte) ([]byte, error) { quotes++; return own.Attest(ctx, b) })
	again := func(want bool) *Conn {
		t.Helper()
		a, b := pair(t, c, s)
		if a.Resumed() != want || b.Resumed() != want {
			t.Errorf("resumed: client %v, server %v, want %v", a.Resumed(), b.Resumed(), want)
		}
		if !bytes.HasPrefix(a.Evidence(), []byte(mockHead)) || !bytes.HasPrefix(b.Evidence(), []byte(mockHead)) {
			t.Error("a side does not know the other's evidence")
		}
		return a
	}
	first := again(false).Ticket()
	c.Resume = first
	second := again(true).Ticket()
	if quotes != 1 {
		t.Errorf("%d quotes, want 1", quotes)
	}
	again(false) // the first ticket was used
	c.Resume = second
	now = now.Add(10*time.Minute + time.Second)
	again(false) // too old, whatever was resumed since
	if n := s.Sessions.Len(); n != 1 {
		t.Errorf("%d sessions are kept, want the newest alone", n)
	}
	if c.Counters.Resumed.Load() != 1 || s.Counters.Resumed.Load() != 1 {
		t.Error("the resumed session was not counted")
	}

	// A ticket is for its service.
	c.Resume = again(false).Ticket()
	c.Service, s.Service = "other", "other"
	again(false)
	c.Service, s.Service = "test", "test"
	again(true)

	// Who has seen a ticket's name cannot use it, nor use it up.
	c.Resume = again(false).Ticket()
	thief := *c.Resume
	thief.key = [32]byte{}
	stolen := c
	stolen.Resume = &thief
	x, y := Pipe(1 << 20)
	if _, _, _, berr := shake(t, x, y, stolen, s); !errors.Is(berr, ErrForged) {
		t.Errorf("a ticket without its key: %v", berr)
	}
	again(true)

	small := NewSessions(2)
	for i := range 5 {
		small.addTicket(&Ticket{id: [idSize]byte{byte(i)}, verified: now}, now, time.Minute)
	}
	if small.Len() != 2 || small.removeTicket([idSize]byte{4}) == nil || small.removeTicket([idSize]byte{0}) != nil {
		t.Error("not the newest two sessions are kept")
	}
}

// TestResumeUnverified: a session in which a side verified nothing does not spare it the
// evidence later, when it wants to see some.
func TestResumeUnverified(t *testing.T) {
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			c, s := configs(AESGCM)
			careless, open := c, s
			if side == "client" {
				careless.Verifier, careless.Unverified, open.Attester = nil, true, nil
			} else {
				careless.Attester, open.Verifier = nil, nil
			}
			a, _ := pair(t, careless, open)
			c.Resume = a.Ticket()
			a, b := pair(t, c, s)
			if a.Resumed() || b.Resumed() || len(a.Evidence()) == 0 || len(b.Evidence()) == 0 {
				t.Errorf("%s: resumed %v and %v, evidence of %d and %d bytes", side, a.Resumed(), b.Resumed(), len(a.Evidence()), len(b.Evidence()))
			}
			c.Resume = a.Ticket()
			if a, b := pair(t, c, s); !a.Resumed() || !b.Resumed() {
				t.Errorf("%s: a session that was verified is not resumed", side)
			}
		})
	}
}

// TestReplayedHello: a recorded client cannot be played to the server again.
func TestReplayedHello(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		c, s := configs(AESGCM)
		if resumed {
			a, _ := pair(t, c, s)
			c.Resume = a.Ticket()
		}
		var recorded [][]byte
		client, server := between(func(_ int, f []byte) [][]byte {
			recorded = append(recorded, bytes.Clone(f))
			return [][]byte{f}
		}, asIs)
		a, b, aerr, berr := shake(t, client, server, c, s)
		if aerr != nil || berr != nil || b.Resumed() != resumed {
			t.Fatalf("client: %v, server: %v", aerr, berr)
		}
		hello := recorded[:2:2] // nothing more comes before the close
		_ = a.Close()
		x, y := Pipe(1 << 20)
		for _, f := range hello {
			_, _ = x.Write(f)
		}
		go func() { _, _ = io.Copy(io.Discard, x) }()
		if b, err := Server(t.Context(), y, s); b != nil || !errors.Is(err, ErrForged) && !errors.Is(err, ErrMalformed) {
			t.Errorf("resumed %v: a replayed client: %v", resumed, err)
		}
	}
}

// TestLastWord: a side that cannot send any more still learns why the peer ended the session.
func TestLastWord(t *testing.T) {
	c, s := configs(AESGCM)
	s.MaxMessage = 10
	a, b := pair(t, c, s)
	_ = a.Send(make([]byte, 11))
	if _, err := b.Receive(nil); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Send([]byte("x")); !errors.Is(err, ErrTruncated) {
			t.Errorf("send: %v", err)
		}
	}
	if _, err := a.Receive(nil); !errors.Is(err, ErrRefused) || c.Counters.Refused.Load() != 1 || c.Counters.Truncated.Load() != 0 {
		t.Errorf("receive: %v", err)
	}
}

func TestRekey(t *testing.T) {
	c, s := configs(AESGCM)
	c.RekeyAfter = 3
	a, b := pair(t, c, s)
	for i := range 20 {
		if err := a.Send([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Receive(nil); err != nil || !bytes.Equal(got, []byte{byte(i)}) {
			t.Fatalf("message %d: %v, %v", i, got, err)
		}
	}
	if n := c.Counters.Rekeys.Load(); n < 5 {
		t.Errorf("%d new keys in 20 records, one after every 3", n)
	}
}

func TestLimits(t *testing.T) {
	t.Run("message", func(t *testing.T) {
		c, s := configs(AESGCM)
		s.MaxMessage = 1000
		a, b := pair(t, c, s)
		if err := b.Send(make([]byte, 1001)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("send: %v", err)
		}
		_ = a.Send(make([]byte, 1001))
		if _, err := b.Receive(nil); !errors.Is(err, ErrTooLarge) || s.Counters.TooLarge.Load() != 1 {
			t.Errorf("receive: %v", err)
		}
		if _, err := a.Receive(nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "too large") {
			t.Errorf("the sender learns: %v", err)
		}
	})
	t.Run("many pieces", func(t *testing.T) {
		c, s := configs(AESGCM)
		s.MaxMessage = 2*recordSize - 1
		a, b := pair(t, c, s)
		go func() { _ = a.Send(make([]byte, 10*recordSize)) }()
		if _, err := b.Receive(nil); !errors.Is(err, ErrTooLarge) {
			t.Errorf("receive: %v", err)
		}
	})
	t.Run("silent peer", func(t *testing.T) {
		_, s := configs(AESGCM)
		s.HandshakeTimeout = 10 * time.Millisecond
		_, y := Pipe(1 << 20)
		if _, err := Server(t.Context(), y, s); !errors.Is(err, ErrTimeout) || s.Counters.Timeouts.Load() != 1 {
			t.Errorf("handshake: %v", err)
		}
	})
	t.Run("deaf peer", func(t *testing.T) {
		c, s := configs(AESGCM)
		x, y := Pipe(4 << 10) // a handshake, and little more
		a, b, aerr, berr := shake(t, x, y, c, s)
		if aerr != nil || berr != nil {
			t.Fatalf("client: %v, server: %v", aerr, berr)
		}
		free := 4<<10 - headerSize - tagSize
		if err := b.Send(make([]byte, free)); err != nil { // there is no room for more
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- b.Close() }()
		if err := <-ended; err != nil { // Close ends although the peer does not read; else this waits
			t.Error(err)
		}
		if got, err := a.Receive(nil); err != nil || len(got) != free {
			t.Errorf("what was sent before the close: %d bytes, %v", len(got), err)
		}
	})
	t.Run("slow message", func(t *testing.T) {
		c, s := configs(AESGCM)
		s.MessageTimeout = 10 * time.Millisecond
		_, b := pair(t, c, s)
		if _, err := b.Receive(nil); !errors.Is(err, ErrTimeout) || s.Counters.Timeouts.Load() != 1 {
			t.Errorf("receive: %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, s := configs(AESGCM)
		_, y := Pipe(1 << 20)
		if _, err := Server(ctx, y, s); !errors.Is(err, context.Canceled) {
			t.Errorf("handshake: %v", err)
		}
	})
	t.Run("configuration", func(t *testing.T) {
		x, _ := Pipe(1)
		for name, c := range map[string]Config{
			"no suite":    {Unverified: true},
			"no verifier": {Suite: AESGCM},
			"limit":       {Suite: AESGCM, Unverified: true, MaxMessage: -1},
		} {
			if _, err := Client(t.Context(), x, c); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
	})
}

func TestUnprotected(t *testing.T) {
	x, y := Pipe(100)
	a, b := Unprotected(x, Config{}), Unprotected(y, Config{MaxMessage: 1 << 20})
	for _, size := range []int{0, 1, together, together + 1, 1 << 20} {
		want := make([]byte, size)
		_, _ = rand.Read(want)
		go func() { _ = a.Send(want[:size/2], want[size/2:]) }()
		if got, err := b.Receive(nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: received %d: %v", size, len(got), err)
		}
	}
	go func() { _ = a.Send(make([]byte, 1<<20+1)) }()
	if _, err := b.Receive(nil); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// TestX25519: the framework's own function 25519 comes to the same secret.
func TestX25519(t *testing.T) {
	ours := &x25519{}
	a, err := ours.GenerateKeypair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := noise.DH25519.GenerateKeypair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ours.DH(a.Private, b.Public)
	want, err2 := noise.DH25519.DH(b.Private, a.Public)
	if err != nil || err2 != nil || !bytes.Equal(got, want) {
		t.Errorf("%x (%v), the framework has %x (%v)", got, err, want, err2)
	}
	if _, err := ours.DH(a.Private, make([]byte, 32)); err == nil {
		t.Error("a public key of low order was taken")
	}
}
