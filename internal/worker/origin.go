package worker

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// origin is the server behind a gateway. It does as little as an HTTP server can, so a
// measurement shows the gateway's cost.
var origin = Command{
	Name: "origin",
	Doc:  "an HTTP server that answers GET /N with N bytes, to put behind a gateway",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		listen := f.String("listen", "127.0.0.1:0", "address to listen on, HOST:PORT")
		return func(ctx context.Context, s Streams) error {
			l, err := listenTCP(ctx, *listen)
			if err != nil {
				return err
			}
			return serve(ctx, l, &http.Server{Handler: new(answering), ReadHeaderTimeout: headerTime}, keyPair{})
		}
	},
}

// headerTime is how long a client may take to send its request's head.
const headerTime = 30 * time.Second

// largestAnswer bounds the answer to one request, in bytes.
const largestAnswer = 64 << 20

// body is the content of answers; each is a prefix of its repetition.
var body = bytes.Repeat([]byte("0123456789abcdef"), 4096)

// answering is the handler of GET /N that counts, and says under countPath how many requests it has had.
type answering struct{ requests atomic.Uint64 }

const countPath = "/requests"

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == countPath {
		fmt.Fprint(w, a.requests.Load())
		return
	}
	a.requests.Add(1)
	answer(w, r)
}

// answer is the handler of GET /N.
func answer(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || n < 0 || n > largestAnswer {
		http.Error(w, fmt.Sprintf("want /N, the number of bytes to answer with, at most %d", largestAnswer), http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(n))
	for n > 0 {
		sent, err := w.Write(body[:min(n, len(body))])
		if err != nil {
			return // the client has gone
		}
		n -= sent
	}
}

// keyPair names the PEM files of a certificate and its key; empty means no TLS.
type keyPair struct{ certificate, key string }

func (k keyPair) check() error {
	if (k.certificate == "") != (k.key == "") {
		return errors.New("a certificate and its key belong together: give -certificate and -key, or neither")
	}
	return nil
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// serve answers connections until ctx ends, which is not an error.
func serve(ctx context.Context, l net.Listener, s *http.Server, k keyPair) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	var err error
	if k.certificate == "" {
		err = s.Serve(l)
	} else {
		err = s.ServeTLS(l, k.certificate, k.key)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}
