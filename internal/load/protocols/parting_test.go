package protocols

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/teescope/teescope/internal/load"
)

// TestRefusedFill: if a server hangs up while it is being filled, the error quotes its reason if
// it gave one, not the write that failed as a result.
func TestRefusedFill(t *testing.T) {
	for _, c := range []struct {
		name, said, want string
		do               func(context.Context, net.Conn) error
	}{
		{"resp", "-OOM command not allowed\r\n", "OOM command not allowed", func(ctx context.Context, c net.Conn) error { return fillOf(t, ctx, c, &resp, "GET key:{key}") }},
		{"memcached", "SERVER_ERROR out of memory\r\n", "out of memory", func(ctx context.Context, c net.Conn) error { return fillOf(t, ctx, c, &memcached, "get key:{key}") }},
		{"AUTH", "-ERR max number of clients reached\r\n", "max number of clients reached", func(_ context.Context, c net.Conn) error {
			_, err := sendCommand(c, "AUTH", strings.Repeat("x", 1<<20))
			return err
		}},
		{"hello", "HTTP/1.1 400 Bad Request\r\n\r\n", errMongo.Error(), func(_ context.Context, c net.Conn) error {
			_, err := mongoAnswer(c, make([]byte, 1<<20))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(server, c.said)
			_ = server.(*net.TCPConn).SetLinger(0) // a reset
			_ = server.Close()
			if err := c.do(t.Context(), client); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want what the server said", err)
			}
		})
	}
}

// fillOf fills a server with more data than a socket's buffer holds.
func fillOf(t *testing.T, ctx context.Context, conn net.Conn, p *load.Protocol, command string) error {
	t.Helper()
	d, err := p.Open(load.Ask{Command: command, Keys: 10_000, Bytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.(load.Populator).Populate(ctx, conn)
	return err
}

// TestSaid: the server's message accompanies the kind of error.
func TestSaid(t *testing.T) {
	refused := "E\x00\x00\x00\x25SERROR\x00C53300\x00Mtoo many clients\x00\x00Z\x00\x00\x00\x05I"
	for _, c := range []struct {
		p        *load.Protocol
		ask      load.Ask
		in, want string
	}{
		{&resp, asks, "-ERR no\r\n", `"ERR no"`},
		{&memcached, asks, "SERVER_ERROR no\r\n", `"SERVER_ERROR no"`},
		{&mongodb, load.Ask{Command: "find test.data key:{key}", Keys: 1, Bytes: 12}, string(mongoSays(1, bsoncore.NewDocumentBuilder().AppendString("errmsg", "no").AppendDouble("ok", 0).Build())), `"no"`},
		{&postgres, load.Ask{Command: "SELECT 1", Keys: 1}, refused, `"too many clients"`},
		{&resp, asks, "$12\r\n000000000abc\r\n", ""}, // a wrong answer without a message
	} {
		t.Run(c.in, func(t *testing.T) {
			s, _ := session(t, c.p, c.ask)
			_ = s.Request(nil)
			for in := c.in; ; {
				n, a, err := s.Answer([]byte(in))
				if err != nil || n == 0 {
					t.Errorf("%s: %q is no answer: %v", c.p.Name, in, err)
					break
				}
				if in = in[n:]; a.Ended {
					if a.Said != c.want || a.Wrong == "" {
						t.Errorf("%s: %q, said %s, want %s", c.p.Name, a.Wrong, a.Said, c.want)
					}
					break
				}
			}
		})
	}
}
