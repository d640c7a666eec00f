package port

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/await"
)

// pipes is a listener whose connections are in this process, so virtual time has their deadlines.
type pipes struct {
	accept chan net.Conn
	done   chan struct{}
	close  func()
}

func newPipes() *pipes {
	p := &pipes{accept: make(chan net.Conn), done: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.done) })
	return p
}

// dial returns the client's end of a new connection.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accept <- server
	return client
}

// Accept is that of net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close is that of net.Listener.
func (p *pipes) Close() error { p.close(); return nil }

// Addr is that of net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestSlowClients: clients that send a request or take an answer without end lose their connection, and those that are only slow do not.
// All goroutines of the server end: a bubble of synctest fails otherwise.
func TestSlowClients(t *testing.T) {
	const size = 4 << 20
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			_, _ = w.Write(make([]byte, size))
		}
	})
	for name, c := range map[string]struct {
		request string
		every   time.Duration // between two pieces that the client sends or takes
		piece   int           // how much it takes at once
		whole   bool
	}{
		"no request":          {"", 0, 0, false},
		"headers in pieces":   {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789", time.Second, 0, false},
		"no body":             {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", 0, 0, false},
		"takes nothing":       {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, 0, false},
		"takes a byte a time": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 30 * time.Second, 1, false},
		"takes it slowly":     {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 50 * time.Second, writePiece, true},
		"takes it at once":    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 0, size, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- Serve(ctx, p, handler, "", slog.New(slog.DiscardHandler)) }()
				client := p.dial()
				got, began := 0, time.Now()
				if c.every > 0 && c.piece == 0 { // one byte at a time
					for i := range c.request {
						if _, err := io.WriteString(client, c.request[i:i+1]); err != nil {
							break
						}
						time.Sleep(c.every)
					}
				} else {
					_, _ = io.WriteString(client, c.request)
					if c.request == "" || c.piece == 0 {
						time.Sleep(time.Hour)
					}
					buf := make([]byte, max(c.piece, 1))
					for {
						n, err := client.Read(buf)
						if got += n; err != nil {
							break
						}
						time.Sleep(time.Duration(int64(c.every) * int64(n) / int64(len(buf))))
					}
				}
				if whole := got > size; whole != c.whole {
					t.Errorf("the client has %d bytes after %v", got, time.Since(began))
				}
				synctest.Wait()
				if _, err := client.Write([]byte("G")); err == nil {
					t.Error("the connection is still open")
				}
				_ = client.Close()
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestConnectionLimit: beyond the limit a new client is answered, and the one that was still for the longest loses its connection.
func TestConnectionLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 5
	limited := limitConnections(l, most)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, limited, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }), "", slog.New(slog.DiscardHandler))
	}()
	ask := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		if string(text) != "here" {
			err = errors.Join(err, fmt.Errorf("answer %q", text))
		}
		return errors.Join(err, resp.Body.Close())
	}
	files := openFiles(t)
	var clients []net.Conn
	for i := range 20 { // the first goes on asking, the others say half a request and no more
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		if err := ask(c); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
		if err := ask(clients[0]); err != nil {
			t.Errorf("the first, after client %d: %v", i, err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\n"); err != nil && i > 0 {
			t.Error(err)
		}
		if i == 0 {
			if _, err := io.WriteString(c, "Content-Length: 0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Fatal(err)
			}
		}
		open := *limited.open.Lock()
		count := len(open)
		limited.open.Unlock()
		if count > most {
			t.Errorf("%d connections are open", count)
		}
	}
	for i, c := range clients[1:16] {
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("client %d: %v", i+1, err)
		}
	}
	for _, c := range clients {
		_ = c.Close()
	}
	await.Event(t, "all descriptors are back", func() error {
		if n := openFiles(t); n > files {
			return fmt.Errorf("%d descriptors, %d before", n, files)
		}
		return nil
	})
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// openFiles counts the sockets of this process.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestConnectionLimitLeavesFiles: sources keep three quarters of the descriptors.
func TestConnectionLimitLeavesFiles(t *testing.T) {
	if n := connectionLimit(); n < 4 || n > mostConnections {
		t.Errorf("%d connections", n)
	}
}
