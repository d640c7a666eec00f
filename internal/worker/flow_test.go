package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/teescope/teescope/internal/await"
)

// startSink starts a sink and returns its address; stop ends it.
func startSink(t *testing.T) (address string, stop func()) {
	t.Helper()
	address = free(t)
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- Main(ctx, []string{"sink", "--address", address}, nil, io.Discard, &errs) }()
	return address, func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the sink ended with %d: %s", code, &errs)
		}
	}
}

// TestFlow: what one end sends, the other receives, and each stream is counted once.
func TestFlow(t *testing.T) {
	address, stop := startSink(t)
	defer stop()
	for _, args := range []string{
		"--protocol tcp --streams 1 --round-trips 50 --congestion reno", "--protocol tcp --streams 4 --round-trips 0",
		"--protocol udp --streams 1 --rate 4e6", "--protocol udp --streams 3 --rate 4e6 --datagram 500",
	} {
		t.Run(args, func(t *testing.T) {
			var r flowReport
			var out string
			await.Event(t, "something arrives in the measured time", func() error {
				var errs string
				var code int
				out, errs, code = command(t.Context(), append([]string{"flow", "--address", address, "--omit", "100ms", "--measure", "1s"}, strings.Fields(args)...)...)
				r = flowReport{}
				if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
					t.Fatalf("%s: status %d, %s%v", args, code, errs, err)
				}
				if r.Receiver.Bytes == 0 {
					return errors.New("nothing did")
				}
				return nil
			})
			sum := int64(0)
			for _, w := range r.Receiver.Windows {
				sum += w.Bytes
			}
			if len(r.Receiver.Windows) != 10 || r.Receiver.Seconds < r.Measure || sum != r.Receiver.Bytes || sum == 0 || r.Sender.MTU == 0 || r.Sender.MTU != r.Receiver.MTU {
				t.Errorf("%s: %s", args, out)
			}
			switch r.Protocol {
			case "tcp":
				if r.Receiver.Datagrams != 0 || r.Sender.PathMTU == nil || r.Sender.Retransmits == nil || (r.Trips == nil) != (r.Streams == 4) || r.Streams == 1 && r.Congestion != "reno" {
					t.Errorf("%s: %s", args, out)
				}
			case "udp":
				if r.Receiver.Bytes != r.Receiver.Datagrams*int64(r.Datagram) || r.Receiver.Jitter == nil || r.Receiver.Lost < 0 {
					t.Errorf("%s: %s", args, out)
				}
			}
		})
	}
}

// TestDatagrams: what is lost, late or twice, by the datagrams' numbers; clocks that differ cancel out of the jitter.
func TestDatagrams(t *testing.T) {
	got := &received{streams: map[uint16]*heard{}}
	const ahead = 5_000_000_000 // nanoseconds of the receiver's clock
	for i, number := range []uint64{3, 4, 7, 6, 9} {
		at := int64(i) * 1_000_000
		got.datagram(header{stream: 1, number: number, sent: at}, 100, at+ahead)
	}
	got.datagram(header{stream: 2, number: 0, sent: 0}, 100, ahead)
	c, err := got.now()
	if err != nil || c.datagrams != 6 || c.bytes != 600 || c.sent != 8 || c.jitter == nil || *c.jitter != 0 {
		t.Errorf("%+v, %v: want 6 datagrams of 8, and no jitter", c, err)
	}
	got.datagram(header{stream: 2, number: 1, sent: 0}, 100, ahead+16_000_000)
	if c, _ = got.now(); *c.jitter < 0.00049 || *c.jitter > 0.00051 { // 16 ms / 16, over two streams
		t.Errorf("jitter %g s, want 0.5 ms", *c.jitter)
	}
}

// TestFlowRefuses: what cannot be done is said in one line; a sink outlives whatever connects to it.
func TestFlowRefuses(t *testing.T) {
	address, stop := startSink(t)
	defer stop()
	for args, want := range map[string]string{
		"--protocol icmp": "want tcp or udp", "--measure 1ms": "want at least 100ms", "--omit -1s": "want at least",
		"--rate -1": "a rate of -1", "--rate NaN": "a rate of NaN", "--congestion none-such": "congestion control none-such", "--measure 3h": "at most 2h",
	} {
		t.Run(args, func(t *testing.T) {
			out, errs, code := command(t.Context(), append([]string{"flow", "--address", address, "--omit", "0s", "--measure", "100ms", "--round-trips", "0"}, strings.Fields(args)...)...)
			if code != exitFailed || out != "" || !strings.Contains(errs, want) {
				t.Errorf("flow %s: status %d, %q, %q, want %q", args, code, out, errs, want)
			}
		})
	}
	for line, want := range map[string]string{
		"GET / HTTP/1.1": "", "{}": "", `{"token":"x"}`: "", `{"token":"x","protocol":"icmp"}`: "error protocol", strings.Repeat("x", 2*longestLine): "",
		`{"token":"x","protocol":"tcp","streams":1,"datagram_bytes":1200,"measure_nanoseconds":1}`: "error omit",
	} {
		t.Run(line, func(t *testing.T) {
			var c net.Conn
			await.Event(t, "the sink listens", func() (err error) { c, err = net.Dial("tcp", address); return err })
			if _, err := fmt.Fprintln(c, line); err != nil {
				t.Fatal(err)
			}
			if said, _ := io.ReadAll(c); !strings.HasPrefix(string(said), want) || want == "" && len(said) > 0 {
				t.Errorf("to %.40q the sink said %q, want %q", line, said, want)
			}
			_ = c.Close()
		})
	}
	_, errs, code := command(t.Context(), "flow", "--address", free(t), "--wait", "1ms")
	if code != exitFailed || !strings.Contains(errs, "connect to the sink within 1ms") {
		t.Errorf("without a sink: status %d, %s", code, errs)
	}
}

// TestFlowEndsEarly: a flow that goes away ends its measurement, and the sink forgets it.
func TestFlowEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		r := &receiver{jobs: map[string]*received{}}
		ended := make(chan struct{})
		go func() { defer close(ended); r.answer(t.Context(), far); _ = far.Close() }()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		if err := writeLine(near, flowJob{Token: "t", Protocol: "tcp", Streams: 1, Datagram: 1200, Measure: shortestFlow}); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Write(bytes.Repeat([]byte("."), warmTrips)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it waits for the stream
		r.mu.Lock()
		known := len(r.jobs)
		r.mu.Unlock()
		_ = near.Close()
		<-ended
		if known != 1 || len(r.jobs) != 0 {
			t.Errorf("%d flows were known, %d are left", known, len(r.jobs))
		}
	})
}

// TestHeader: a datagram says what was put into it, and foreign ones are none of a flow.
func TestHeader(t *testing.T) {
	b := make([]byte, leastDatagram)
	want := header{token: strings.Repeat("T", tokenBytes), stream: 7, number: 1 << 40, sent: -5}
	want.encode(b)
	if got, ok := parseHeader(b); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for n := range b {
		if _, ok := parseHeader(b[:n]); ok {
			t.Errorf("%d bytes are taken for a datagram", n)
		}
	}
}
