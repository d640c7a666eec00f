package worker

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// proxy is our own gateway: net/http's reverse proxy with its defaults, except for what every
// gateway configures: it keeps as many connections to the origin as there are clients, and
// copies bodies in pieces of 64 KiB.
func proxy(to string, l *accessLog) http.Handler {
	target := &url.URL{Scheme: "http", Host: to}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		Transport:  &http.Transport{MaxIdleConnsPerHost: 1 << 16, DisableCompression: true},
		BufferPool: new(buffers),
		ErrorLog:   l.errors,
	}
}

// buffers is a httputil.BufferPool.
type buffers struct{ sync.Pool }

const bufferBytes = 64 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.Pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(p []byte) { b.Pool.Put((*[bufferBytes]byte)(p)) }

// accessLog is a gateway's log: nothing (level off), errors (error), and a line for each request
// (info). It writes without a buffer, so a line is in the file when its request ends.
type accessLog struct {
	level  string
	errors *log.Logger
	info   *log.Logger

	file  io.Writer
	bytes atomic.Int64
	nanos atomic.Int64 // spent writing lines; the loggers write one at a time
}

// openLog opens a new log file; level off has none.
func openLog(h *host.Host, level, name string) (*accessLog, error) {
	l := &accessLog{level: level, file: io.Discard}
	switch level {
	case "off":
	case "error", "info":
		f, err := h.Create(name)
		if err != nil {
			return nil, fmt.Errorf("open the log: %w", err)
		}
		l.file = f
	default:
		return nil, fmt.Errorf("-log %q: want off, error or info", level)
	}
	l.info = log.New(l, "", log.LstdFlags|log.Lmicroseconds)
	if l.errors = l.info; level == "off" { // otherwise both share one lock
		l.errors = log.New(io.Discard, "", 0)
	}
	return l, nil
}

// Write implements io.Writer for the loggers.
func (l *accessLog) Write(b []byte) (int, error) {
	began := time.Now()
	n, err := l.file.Write(b)
	l.nanos.Add(int64(time.Since(began)))
	l.bytes.Add(int64(n))
	return n, err
}

// wrap wraps a handler; at level info it logs each request.
func (l *accessLog) wrap(h http.Handler) http.Handler {
	if l.level != "info" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(s, r)
		l.info.Printf("%s %q %d %d %q %.6f", r.RemoteAddr, r.Method+" "+r.RequestURI+" "+r.Proto, s.status, s.bytes, r.UserAgent(), time.Since(began).Seconds())
	})
}

// statusWriter records a handler's status and bytes.
type statusWriter struct {
	http.ResponseWriter
	status, bytes int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(b []byte) (int, error) {
	n, err := s.ResponseWriter.Write(b)
	s.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController, through which the proxy flushes.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
