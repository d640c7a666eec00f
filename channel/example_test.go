package channel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/teescope/teescope/channel"
)

// A client verifies a server, and both exchange messages. Mock evidence stands for a TEE's.
func Example() {
	ctx := context.Background()
	tee := channel.NewMock("example")
	near, far := channel.Pipe(1 << 20)
	go func() {
		s, err := channel.Server(ctx, far, channel.Config{Suite: channel.AESGCM, Service: "example", Attester: tee})
		if err != nil {
			return // the client reports it
		}
		question, err := s.Receive(nil)
		if err == nil {
			_ = s.Send([]byte("you said "), question)
		}
	}()
	c, err := channel.Client(ctx, near, channel.Config{Suite: channel.AESGCM, Service: "example", Verifier: tee})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if err := c.Send([]byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Receive(nil)
	fmt.Printf("%s, %v\n", answer, err)
	// Output: you said hello, <nil>
}

// A Verifier of one's own decides whom to talk to.
func ExampleVerifierFunc() {
	ctx := context.Background()
	near, far := channel.Pipe(1 << 20)
	refused := make(chan error)
	go func() {
		_, err := channel.Server(ctx, far, channel.Config{Suite: channel.AESGCM, Attester: channel.NewMock("example")})
		refused <- err
	}()
	c, err := channel.Client(ctx, near, channel.Config{Suite: channel.AESGCM, Verifier: channel.VerifierFunc(
		func(_ context.Context, evidence []byte, binding [64]byte) error {
			// Here the evidence's signature, binding and measurement would be checked.
			return errors.New("its measurement is unknown")
		})})
	if err == nil {
		_, err = c.Receive(nil)
	}
	fmt.Println(errors.Is(err, channel.ErrEvidence))
	fmt.Println(<-refused)
	// Output:
	// true
	// handshake: the peer refused: the peer's evidence was refused
}

// A session over TCP as a stream of bytes, which resumes without new evidence.
func ExampleStream() {
	ctx := context.Background()
	tee := channel.NewMock("example")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go func() {
		config := channel.Config{Suite: channel.ChaChaPoly, Attester: tee, Sessions: channel.NewSessions(100)}
		for {
			t, err := l.Accept()
			if err != nil {
				return
			}
			s, err := channel.Server(ctx, t, config)
			if err != nil {
				continue // t is closed
			}
			stream := channel.NewStream(s, 0)
			_, _ = io.Copy(stream, stream) // until the client ends its direction
			_ = stream.CloseWrite()
		}
	}()
	config := channel.Config{Suite: channel.ChaChaPoly, Verifier: tee}
	for range 2 {
		t, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			fmt.Println(err)
			return
		}
		c, err := channel.Client(ctx, t, config)
		if err != nil {
			fmt.Println(err)
			return
		}
		config.Resume = c.Ticket()
		stream := channel.NewStream(c, 0)
		_, _ = io.WriteString(stream, "hello")
		_ = stream.CloseWrite()
		echo, err := io.ReadAll(stream)
		_ = stream.Close()
		fmt.Printf("%s, %v, resumed: %v\n", echo, err, c.Resumed())
	}
	// Output:
	// hello, <nil>, resumed: false
	// hello, <nil>, resumed: true
}
