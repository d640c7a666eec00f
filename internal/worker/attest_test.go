package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// command runs a command of the worker and returns what it prints.
func command(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = Main(ctx, args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// TestUsage: help goes to standard output; a missing or wrong command is an error with the same list.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{{"--help", 0, "put load on a server", ""}, {"-h", 0, "put load on a server", ""}, {"", exitUsage, "", "put load on a server"}, {"brew", exitUsage, "", `no command "brew"`}} {
		t.Run(c.args, func(t *testing.T) {
			out, errs, code := command(t.Context(), strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) || (c.out == "") != (out == "") {
				t.Errorf("teescope-work %s: %d, %q, %q", c.args, code, out, errs)
			}
		})
	}
}

// TestAttest sends the server every supported command, and an unsupported one.
func TestAttest(t *testing.T) {
	address := free(t)
	ctx, stop := context.WithCancel(t.Context())
	type end struct {
		out, errs string
		code      int
	}
	ended := make(chan end)
	go func() {
		var e end
		e.out, e.errs, e.code = command(ctx, "attest", "--address", address, "--delay", "1ms", "--fetch", "1ms", "--fetched")
		ended <- e
	}()
	var c net.Conn
	await.Event(t, "the server listens", func() error {
		var err error
		c, err = net.Dial("tcp", address)
		return err
	})
	fmt.Fprint(c, "quote\nverify\nquote\nsing\n")
	lines := bufio.NewScanner(c)
	for range 3 {
		if !lines.Scan() || lines.Text() != "done simulated" {
			t.Fatalf("the server said %q", lines.Text())
		}
	}
	if lines.Scan() {
		t.Errorf("asked to sing, the server said %q", lines.Text())
	}
	stop()
	e := <-ended
	var r attestReport
	if err := json.Unmarshal([]byte(e.out), &r); err != nil || e.code != 0 {
		t.Fatalf("status %d, %v: %s%s", e.code, err, e.out, e.errs)
	}
	if !r.Simulated || r.Quotes.Done != 2 || r.Verified.Done != 1 || r.Quotes.Seconds < 0.002 || r.Bytes == 0 || r.Delay != 0.001 {
		t.Errorf("the report is %s", e.out)
	}
	if !strings.Contains(e.errs, `unknown request "sing"`) {
		t.Errorf("the server complained %q", e.errs)
	}
}

// TestAttestRefuses: impossible settings are reported in one line.
func TestAttestRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--provider", "tpm"}, {"--parallel", "0"}, {"--delay", "-1s"}, {"--address", "256.0.0.1:1"},
	} {
		out, errs, code := command(t.Context(), append([]string{"attest"}, args...)...)
		if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q", args, code, out, errs)
		}
	}
}
