package worker

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

func TestAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(answer))
	defer s.Close()
	for _, c := range []struct {
		path   string
		status int
		bytes  int
	}{
		{"/0", 200, 0}, {"/1", 200, 1}, {"/64", 200, 64}, {"/200000", 200, 200000},
		{"/", 404, 0}, {"/-1", 404, 0}, {"/x", 404, 0}, {"/67108865", 404, 0},
	} {
		t.Run(c.path, func(t *testing.T) {
			status, got := get(t, s.URL+c.path)
			if status != c.status || status == 200 && (len(got) != c.bytes || !strings.HasPrefix(strings.Repeat(string(body), 4), got)) {
				t.Errorf("%s: status %d and %d bytes, want %d and %d", c.path, status, len(got), c.status, c.bytes)
			}
		})
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// TestProxy: answers arrive unchanged, and the log has what its level promises.
func TestProxy(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(answer))
	defer behind.Close()
	for level, lines := range map[string]int{"off": 0, "error": 0, "info": 3} {
		t.Run(level, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "log")
			l, err := openLog(host.Local(), level, name)
			if err != nil {
				t.Fatal(err)
			}
			front := httptest.NewServer(l.wrap(proxy(behind.Listener.Addr().String(), l)))
			defer front.Close()
			for _, n := range []int{0, 64, 300000} {
				status, got := get(t, front.URL+"/"+strconv.Itoa(n))
				if status != 200 || len(got) != n {
					t.Errorf("status %d and %d bytes, want %d", status, len(got), n)
				}
			}
			front.Close() // waits for its handlers
			written, err := os.ReadFile(name)
			if level != "off" && err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(written, []byte("\n")); n != lines || int64(len(written)) != l.bytes.Load() {
				t.Errorf("%d lines and %d bytes, counted %d; want %d lines:\n%s", n, len(written), l.bytes.Load(), lines, written)
			}
			if lines > 0 && !strings.Contains(string(written), `"GET /300000 HTTP/1.1" 200 300000`) {
				t.Errorf("the log does not say what was asked:\n%s", written)
			}
		})
	}
	if _, err := openLog(host.Local(), "loud", ""); err == nil {
		t.Error("level loud was taken")
	}
}

// TestProxyWithoutServer: an error of the hop becomes the gateway's answer and is logged.
func TestProxyWithoutServer(t *testing.T) {
	gone := httptest.NewServer(http.HandlerFunc(answer))
	gone.Close()
	var written bytes.Buffer
	l := &accessLog{level: "error", errors: log.New(&written, "", 0)}
	front := httptest.NewServer(proxy(gone.Listener.Addr().String(), l))
	status, _ := get(t, front.URL+"/1")
	front.Close()
	if status != http.StatusBadGateway || !strings.Contains(written.String(), "refused") {
		t.Errorf("status %d, log %q", status, written.String())
	}
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		text    string
		parent  int
		seconds float64
		bad     bool
	}{
		{text: "42 (nginx) S 7 42 42 0 -1 4194560 1 2 3 4 150 250 50 50 20 0 1 0 99 1 1", parent: 7, seconds: 5},
		{text: "42 (a) R 9) S 8 42 42 0 -1 4194560 1 2 3 4 1 0 0 0 20 0 1", parent: 8, seconds: 0.01},
		{text: "42 (nginx) S 7 42", bad: true},
		{text: "42 nginx S 7 42 42 0 -1 4194560 1 2 3 4 150 250 50 50 20", bad: true},
		{text: "42 (nginx) S x 42 42 0 -1 4194560 1 2 3 4 150 250 50 50 20", bad: true},
		{text: "42 (nginx) S 7 42 42 0 -1 4194560 1 2 3 4 150 -1 50 50 20", bad: true},
		{text: "", bad: true},
	} {
		t.Run(c.text, func(t *testing.T) {
			l, err := parseStat([]byte(c.text))
			if (err != nil) != c.bad || l.parent != c.parent || math.Abs(l.seconds-c.seconds) > 1e-9 {
				t.Errorf("%q: %+v, %v", c.text, l, err)
			}
		})
	}
}

func TestParseMachine(t *testing.T) {
	const two = "cpu  600 0 400 9000 10 6 30 70 0 0\ncpu0 100 1 200 3000 5 2 10 60 0 0\ncpu1 500 0 200 6000 5 4 20 10 0 0\nintr 1 2 3\nctxt 5\n"
	m, err := parseMachine([]byte(two))
	if err != nil || math.Abs(m.busy-10.37) > 1e-9 || len(m.softirq) != 2 || m.softirq[0] != 0.1 || m.softirq[1] != 0.2 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, text := range []string{"", "cpu0 0 0 0 0 0 0 0 0\n", "cpu0 1 2 x 4 5 6 7 8\n"} {
		t.Run(text, func(t *testing.T) {
			if m, err := parseMachine([]byte(text)); err == nil {
				t.Errorf("%q: %+v", text, m)
			}
		})
	}
}

func TestProcessSeconds(t *testing.T) {
	if _, err := processSeconds(host.Local(), os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := processSeconds(host.Local(), 1<<30); err == nil {
		t.Error("a process that is not there has a time")
	}
}

func TestPartOf(t *testing.T) {
	for want, stack := range map[string][]string{
		"handshake": {"crypto/internal/fips140/nistec.p256Mul", "crypto/ecdsa.Sign", "crypto/tls.(*serverHandshakeStateTLS13).handshake", "crypto/tls.(*Conn).handshakeContext", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*conn).serve"},
		"records":   {"crypto/internal/fips140/aes/gcm.gcmAesEnc", "crypto/tls.(*halfConn).encrypt", "crypto/tls.(*Conn).writeRecordLocked", "net/http.(*conn).serve"},
		"hop":       {"internal/runtime/syscall.Syscall6", "syscall.write", "internal/poll.(*FD).Write", "net.(*conn).Write", "crypto/tls.(*Conn).write", "net/http.(*conn).serve"},
		"logging":   {"syscall.write", "internal/poll.(*FD).Write", "os.(*File).Write", "github.com/teescope/teescope/internal/worker.(*accessLog).Write", "log.(*Logger).output", "net/http.HandlerFunc.ServeHTTP"},
		"runtime":   {"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"},
	} {
		t.Run(want, func(t *testing.T) {
			if got := partOf(stack); got != want {
				t.Errorf("%s: it was taken for %s", want, got)
			}
		})
	}
}

// TestSplit: a working proxy shows CPU time in the parts that it uses.
func TestSplit(t *testing.T) {
	var s split
	defer s.stopProfile()
	if _, err := s.next(); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer front.Close()
	await.Event(t, "there are samples of records and of the hop", func() error {
		for range 50 {
			r, err := front.Client().Get(front.URL + "/100000")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		parts, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if !(parts["records"] > 0 && parts["hop"] > 0) {
			return fmt.Errorf("%v", parts)
		}
		return nil
	})
}
