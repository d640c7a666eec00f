package worker

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"
)

// identity shows whether an address leads to the environment that it is meant to lead to: a word
// chosen at random is given to a server inside, and a client outside asks for it. A server that
// answers correctly could still be another arm's, because all arms have the same data.
var identity = Command{
	Name: "identity",
	Doc:  "answer connections with a word (-listen), or check that an address is answered with it (-address)",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		listen := f.String("listen", "", "address to answer on, HOST:PORT")
		address := f.String("address", "", "address to ask, HOST:PORT")
		word := f.String("word", "", "the word, which only the right environment knows")
		wait := f.Duration("wait", 30*time.Second, "how long to ask")
		return func(ctx context.Context, s Streams) error {
			switch {
			case *word == "" || (*listen == "") == (*address == ""):
				return errors.New("want -word, and either -listen or -address")
			case *wait <= 0:
				return fmt.Errorf("-wait %v: want a time above 0", *wait)
			case *address != "":
				return identify(ctx, *address, *word, *wait)
			}
			l, err := listenTCP(ctx, *listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "listening %s\nready\n", l.Addr())
			return serveEach(ctx, l, func(c net.Conn) {
				if line, err := bufio.NewReader(io.LimitReader(c, longestWord)).ReadString('\n'); err == nil && line == identityAsks {
					_, _ = io.WriteString(c, *word+"\n")
				}
			})
		}
	},
}

// errOther makes the exit status exitOther, so that the harness tells it from no answer.
var errOther = errors.New("is answered by another program")

const (
	identityAsks = "teescope identity\n"
	longestWord  = 256
)

// identify asks an address for its word until it answers or the time is up.
func identify(ctx context.Context, address, word string, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no answer from %s within %v", address, wait))
	defer cancel()
	for {
		said, err := askedIdentity(ctx, address)
		switch {
		case err == nil && said == word+"\n":
			return nil
		case said != "":
			return fmt.Errorf("%s %w (answer: %.100q)", address, errOther, said)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond): // a port forwarder may accept before the server listens
		}
	}
}

// askedIdentity returns what an address says: a line, or less before an error.
func askedIdentity(ctx context.Context, address string) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })() // in the past
	if _, err := io.WriteString(c, identityAsks); err != nil {
		return "", err
	}
	return bufio.NewReader(io.LimitReader(c, longestWord)).ReadString('\n')
}
