package worker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/load"
)

// pemFiles names the files of a certificate and its key.
type pemFiles struct{ cert, key string }

// tlsFiles writes a certificate and its key for a test's server.
func tlsFiles(t *testing.T) pemFiles {
	t.Helper()
	dir := t.TempDir()
	cert, key, err := load.Certificate("", "server.test")
	if err != nil {
		t.Fatal(err)
	}
	k := pemFiles{filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")}
	for name, data := range map[string][]byte{k.cert: cert, k.key: key} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// tlsServe starts the server with some threads and returns its address; stop ends it and returns
// its output.
func tlsServe(t *testing.T, k pemFiles, version string, threads int) (address string, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := net.Pipe()
	s := ackServer{host: "127.0.0.1", threads: threads, version: version, cert: k.cert, key: k.key}
	ended := make(chan error, 1)
	go func() {
		ended <- s.run(ctx, Streams{Out: w})
		w.Close()
	}()
	in := bufio.NewReader(r)
	said := ""
	for !strings.HasSuffix(said, "ready\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the server said %q, then %v: %v", said, err, <-ended)
		}
		said += line
		if a, ok := strings.CutPrefix(line, "listening "); ok {
			address = strings.TrimSpace(a)
		}
	}
	stopped := false
	stop = func() string {
		if stopped {
			return ""
		}
		stopped = true
		cancel()
		line, _ := in.ReadString('\n')
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		return line
	}
	t.Cleanup(func() { stop() })
	return address, stop
}

// tlsLoad runs the client.
func tlsLoad(t *testing.T, c scalingOptions) (load.Scaling, error) {
	t.Helper()
	var out bytes.Buffer
	c.name, c.seed = "server.test", 1
	if c.warm == "" {
		c.warm = "0s"
	}
	if c.connect == "" {
		c.connect = "before"
	}
	if c.wait == 0 {
		c.wait = time.Minute
	}
	var r load.Scaling
	err := c.run(t.Context(), Streams{Out: &out})
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	return r, err
}

func TestScaling(t *testing.T) {
	k := tlsFiles(t)
	digests := map[string]string{}
	for _, c := range []struct {
		name, version string
		client        scalingOptions
		requests      uint64
		answered      uint64
	}{
		{"strong alone", "1.3", scalingOptions{clients: 1, total: 200}, 200, 201},
		{"strong by three", "1.3", scalingOptions{clients: 3, total: 200, warm: "5"}, 200, 206},
		{"weak", "1.2", scalingOptions{clients: 3, each: 20}, 60, 61},
		{"connections inside, more clients than threads", "1.2", scalingOptions{clients: 6, total: 40, connect: "inside", pause: time.Millisecond, warm: "10"}, 40, 51},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, stop := tlsServe(t, k, c.version, 4)
			c.client.address, c.client.ca, c.client.version = address, k.cert, c.version
			r, err := tlsLoad(t, c.client)
			if err != nil {
				t.Fatal(err)
			}
			digests[c.name] = r.Digest
			if r.Requests != c.requests || r.Answered != c.answered || r.Connections != c.client.clients || r.Handshakes != uint64(c.client.clients) {
				t.Errorf("%d requests, %d answered, %d connections, %d handshakes: %+v", r.Requests, r.Answered, r.Connections, r.Handshakes, c)
			}
			if r.Versions["tls"] != "TLS "+c.version || r.Versions["cipher"] == "" || r.Service == "" || r.Handshake == "" {
				t.Errorf("the report is %+v", r)
			}
			if r.Seconds <= 0 || r.FirstHandshake <= 0 || r.FirstAnswer <= 0 || r.Sent == 0 || r.Received == 0 {
				t.Errorf("times %v %v %v, bytes %d %d: want some", r.Seconds, r.FirstHandshake, r.FirstAnswer, r.Sent, r.Received)
			}
			var end serverStatistics
			if err := json.Unmarshal([]byte(stop()), &end); err != nil || end.Messages != c.answered || end.Failed != 0 || end.PeakRSS <= 0 || end.Program <= 0 {
				t.Errorf("the server says %+v, %v; want %d messages, no failure and its sizes", end, err, c.answered)
			}
		})
	}
	if digests["strong alone"] != digests["strong by three"] {
		t.Errorf("the same messages have the digests %v", digests)
	}
}

// TestScalingCPU: the CPU time excludes the messages of a warm-up by number, whose wall time is
// not reported: no process uses more than all CPUs for the measured time.
func TestScalingCPU(t *testing.T) {
	k := tlsFiles(t)
	address, _ := tlsServe(t, k, "1.3", 1)
	r, err := tlsLoad(t, scalingOptions{address: address, ca: k.cert, version: "1.3", clients: 1, total: 5, warm: "3000"})
	if err != nil {
		t.Fatal(err)
	}
	const counted = 0.02 // the kernel's resolution in seconds
	if most := r.Seconds*float64(runtime.NumCPU()) + counted; r.CPUSeconds <= 0 || r.CPUSeconds > most {
		t.Errorf("%.3f s of CPU time in %.4f s, want at most %.3f s", r.CPUSeconds, r.Seconds, most)
	}
}

func TestScalingWarmUp(t *testing.T) {
	k := tlsFiles(t)
	address, _ := tlsServe(t, k, "1.3", 2)
	r, err := tlsLoad(t, scalingOptions{address: address, ca: k.cert, version: "1.3", clients: 2, total: 10, warm: "2s"})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, n := range r.Windows {
		sum += n
	}
	if len(r.Windows) != warmWindows || r.Width != 0.04 || sum == 0 || r.Requests != 10 {
		t.Errorf("%d windows of %v s with %v answers, %d requests", len(r.Windows), r.Width, sum, r.Requests)
	}
}

// TestScalingFaults: any fault of a server ends the load with a sentence that names it.
func TestScalingFaults(t *testing.T) {
	k, other := tlsFiles(t), tlsFiles(t)
	address, _ := tlsServe(t, k, "1.3", 2)
	refused := free(t)
	wrong := faultyServer(t, k, func(answer []byte) []byte { return bytes.Replace(answer, []byte("status=OK"), []byte("status=KO"), 1) })
	dies := faultyServer(t, k, func([]byte) []byte { return nil })
	good := scalingOptions{address: address, ca: k.cert, version: "1.3", clients: 1, total: 100}
	for _, c := range []struct {
		name   string
		change func(*scalingOptions)
		want   string
	}{
		{"nobody listens", func(c *scalingOptions) { c.address, c.wait = refused, time.Second }, "connection refused"},
		{"another certificate", func(c *scalingOptions) { c.ca = other.cert }, "TLS handshake"},
		{"no certificate", func(c *scalingOptions) { c.ca = k.key }, "no certificate"},
		{"another version", func(c *scalingOptions) { c.version = "1.2" }, "TLS handshake"},
		{"wrong answers", func(c *scalingOptions) { c.address = wrong }, "wrong answer to message 0"},
		{"it hangs up", func(c *scalingOptions) { c.address = dies }, "answer to message 0"},
		{"no clients", func(c *scalingOptions) { c.clients = 0 }, "-clients 0"},
		{"no messages", func(c *scalingOptions) { c.total = 0 }, "-messages"},
		{"fewer messages than clients", func(c *scalingOptions) { c.clients = 101 }, "-messages 100"},
		{"a short warm-up", func(c *scalingOptions) { c.warm = "1ms" }, "-warm"},
		{"a warm-up without connections", func(c *scalingOptions) { c.connect, c.warm = "inside", "1s" }, "-warm"},
		{"no such way to connect", func(c *scalingOptions) { c.connect = "after" }, "-connect"},
		{"no such version", func(c *scalingOptions) { c.version = "1.1" }, `TLS version "1.1"`},
		{"fewer threads than clients", func(c *scalingOptions) { c.clients, c.wait = 3, time.Second }, "client "},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := good
			c.change(&client)
			if _, err := tlsLoad(t, client); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, want %q in it", c.name, err, c.want)
			}
		})
	}
}

// faultyServer sends the answers that change returns; for an empty one it hangs up.
func faultyServer(t *testing.T, k pemFiles, change func([]byte) []byte) string {
	t.Helper()
	config, err := tlsConfig("1.3")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{pair}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					line, err := in.ReadBytes('\n')
					answer := change(timed(nil, appendAnswer(nil, bytes.TrimSuffix(line, []byte("\n"))), 0))
					if err != nil || answer == nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestServerLines: the end of a line, and lines that are too long.
func TestServerLines(t *testing.T) {
	k := tlsFiles(t)
	address, stop := tlsServe(t, k, "1.3", 1)
	for _, c := range []struct {
		name, send string
		want       []string
	}{
		{"two at once", "a=1\nb\n", []string{"size=3|", "size=1|"}},
		{"without an end", "a\nb", []string{"size=1|"}},
		{"a carriage return is a byte", "a\r\n", []string{"size=2|"}},
		{"the longest", strings.Repeat("x", mostLine) + "\n", []string{"size=8192|"}},
		{"too long", strings.Repeat("x", mostLine+1) + "\n", []string{"status=TOO_LONG"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pem, err := os.ReadFile(k.cert)
			if err != nil {
				t.Fatal(err)
			}
			config, err := tlsConfig("1.3")
			if err != nil {
				t.Fatal(err)
			}
			config.ServerName = "server.test"
			client := (&scalingClient{scalingOptions: scalingOptions{wait: time.Minute}, config: config}).clientFor(address, pem)
			conn, err := client.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.conn.Write([]byte(c.send)); err != nil {
				t.Fatal(err)
			}
			if err := conn.conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for s := bufio.NewScanner(conn.conn); s.Scan(); {
				got = append(got, s.Text())
			}
			if len(got) != len(c.want) {
				t.Errorf("%s: %d answers %q, want %q", c.name, len(got), got, c.want)
				return
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("%s: answer %q, want %q in it", c.name, got[i], c.want[i])
				}
			}
			conn.conn.Close()
		})
	}
	var end serverStatistics
	if err := json.Unmarshal([]byte(stop()), &end); err != nil || end.Messages != 5 || end.Failed != 1 {
		t.Errorf("the server says %+v, %v; want 5 messages and the one line that was too long", end, err)
	}
}
