package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
)

// faultServer imitates broken servers, to test how a harness handles them.
var faultServer = Command{
	Name: "faultserver",
	Doc:  "send messages back, with a fault: " + strings.Join(faults, ", "),
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var s faulty
		f.StringVar(&s.address, "address", "127.0.0.1:7", "address to listen on")
		f.StringVar(&s.fault, "fault", "none", "none; deaf (never listens); mute (does not answer); dies (exits); wrong (answers wrongly); reset (resets connections)")
		f.Uint64Var(&s.after, "after", 0, "messages answered correctly before the fault, on all connections together")
		count(f, &s.bytes, "bytes", 64, 1, 1<<20, "length of a message")
		f.StringVar(&s.keys.certificate, "certificate", "", "certificate in PEM; empty is no TLS")
		f.StringVar(&s.keys.key, "key", "", "key of the certificate in PEM")
		return s.run
	},
}

var faults = []string{"none", "deaf", "mute", "dies", "wrong", "reset"}

type faulty struct {
	address, fault string
	after          uint64
	bytes          int
	keys           keyPair
	answered       atomic.Uint64
}

func (s *faulty) run(ctx context.Context, _ Streams) error {
	if !slices.Contains(faults, s.fault) {
		return fmt.Errorf("-fault %q: want one of %s", s.fault, strings.Join(faults, ", "))
	}
	if err := s.keys.check(); err != nil {
		return err
	}
	if s.fault == "deaf" {
		<-ctx.Done()
		return nil
	}
	l, err := listenTCP(ctx, s.address)
	if err != nil {
		return err
	}
	if s.keys.certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.keys.certificate, s.keys.key)
		if err != nil {
			return fmt.Errorf("load certificate and key: %w", err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	}
	ctx, die := context.WithCancelCause(ctx)
	defer die(nil)
	err = serveEach(ctx, l, func(c net.Conn) {
		if err := s.echo(ctx, c); errors.Is(err, errDead) {
			die(err)
		}
	})
	if errors.Is(context.Cause(ctx), errDead) {
		return errDead
	}
	return err
}

// errDead is the server's last message.
var errDead = errors.New("out of memory, as requested")

// echo sends messages back until the fault occurs or the connection ends.
func (s *faulty) echo(ctx context.Context, c net.Conn) error {
	message := make([]byte, s.bytes)
	for {
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		if s.answered.Add(1) > s.after {
			switch s.fault {
			case "mute":
				<-ctx.Done()
				return ctx.Err()
			case "dies":
				return errDead
			case "wrong":
				message[0]++
			case "reset":
				return reset(c)
			}
		}
		if _, err := c.Write(message); err != nil {
			return err
		}
	}
}

// reset ends a connection without TCP's closing handshake, so the other end reads an error
// instead of end of file.
func reset(c net.Conn) error {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		if err := t.SetLinger(0); err != nil {
			return err
		}
	}
	return c.Close()
}
