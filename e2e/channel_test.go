package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

var channelLine = regexp.MustCompile(`^teescope channel: plain (\S+), attested (\S+), metrics (\S+)\n`)

// startChannel runs one side of a tunnel and returns its addresses.
// stand-in: mock-evidence
func startChannel(t *testing.T, args ...string) (p *await.Program, plain, attested, metrics string) {
	t.Helper()
	p = start(t, binary, append([]string{"channel"}, append(args, "--metrics", "127.0.0.1:0")...)...)
	await.Event(t, "the side listens", func() error {
		found := channelLine.FindStringSubmatch(p.Out.String())
		if found == nil {
			return fmt.Errorf("it says %s%s", p.Out, p.Err)
		}
		plain, attested, metrics = found[1], found[2], found[3]
		return nil
	})
	return p, plain, attested, metrics
}

// TestChannel puts the tunnel in front of a redis-server: redis' own clients work through it, a side that is killed in
// the middle cuts their connections and harms no later one, and a stopped side ends in order.
func TestChannel(t *testing.T) {
	t.Parallel()
	_, redis := startRedis(t)
	to := net.JoinHostPort("127.0.0.1", strconv.Itoa(redis))
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	serve := func() *await.Program {
		p, _, _, _ := startChannel(t, "listen", "--listen", listen, "--to", to, "--provider", "mock", "--service", "redis")
		return p
	}
	far := serve()
	near, plain, _, metrics := startChannel(t, "connect", "--listen", "127.0.0.1:0", "--to", listen, "--mock-peer", "--service", "redis", "--retry", "10m", "--grace", "0s")
	host, port, err := net.SplitHostPort(plain)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool(t, "redis-benchmark", "redis-tools"), "-h", host, "-p", port, "-n", "2000", "-c", "8", "-d", "20000", "-t", "set,get", "-q").CombinedOutput(); err != nil {
		t.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	ping := func() error {
		c, err := net.Dial("tcp", plain)
		if err != nil {
			return err
		}
		defer c.Close()
		answer := make([]byte, 7)
		_, err = io.WriteString(c, "PING\r\n")
		if _, err2 := io.ReadFull(c, answer); err == nil {
			err = err2
		}
		if err == nil && string(answer) != "+PONG\r\n" {
			err = fmt.Errorf("it answers %q", answer)
		}
		return err
	}
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if _, err := io.WriteString(waiting, "PING\r\nBLPOP nothing 0\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(waiting, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	// A connection that is still ending would be cut by the kill, too.
	await.Event(t, "all connections but the waiting one have ended", func() error {
		text, err := fetch(metrics)
		if err == nil && !strings.Contains(text, "\nteescope_channel_connections 1\n") {
			err = errors.New(text)
		}
		return err
	})
	far.Stop(syscall.SIGKILL)
	if got, err := io.ReadAll(waiting); err == nil {
		t.Errorf("a connection through a side that was killed ends in order after %q", got)
	}
	pinged := make(chan error, 1)
	go func() { pinged <- ping() }() // it waits for the far side to come back
	far = serve()
	if err := <-pinged; err != nil {
		t.Errorf("after the far side came back: %v\n%s", err, near.Err)
	}
	text, err := fetch(metrics)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`teescope_channel_handshake_seconds_count{kind="fresh"}`, `teescope_channel_handshake_seconds_count{kind="resumed"}`, `teescope_channel_connections_ended_total{reason="truncated"} 1`} {
		if !strings.Contains(text, "\n"+want) || strings.Contains(text, "\n"+want+" 0\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, p := range []*await.Program{near, far} {
		if code := p.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("stopped with status %d: %s", code, p.Err)
		}
	}
	if err := ping(); err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the stop: %v", err)
	}
}
