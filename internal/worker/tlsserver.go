package worker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/internal/load"
)

var tlsServer = Command{
	Name: "tlsserver",
	Doc:  "the TLS server of the newline protocol, the counterpart of server.BenchServer in workloads/java",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var s ackServer
		f.StringVar(&s.host, "host", "127.0.0.1", "address to listen on")
		count(f, &s.port, "port", 8443, 0, 65535, "port to listen on (0 is any that is free, and is printed)")
		count(f, &s.threads, "threads", 10, 1, load.MostConnections, "connections that are served at once (others wait)")
		f.StringVar(&s.version, "tls", "1.3", "TLS version, 1.2 or 1.3")
		f.StringVar(&s.cert, "cert", "certs/server.pem", "certificate in PEM")
		f.StringVar(&s.key, "key", "certs/server.key", "its key in PEM (PKCS #8)")
		return s.run
	},
}

// ackServer has a fixed number of threads, like the Java server: a connection occupies one from
// its handshake to its end.
type ackServer struct {
	host, version string
	port, threads int
	cert, key     string // files in PEM

	connections, failed, messages atomic.Uint64
}

// tlsVersions are the supported versions.
var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// tlsConfig has the one cipher suite and, first, the one group that both servers and the client
// use, so all measure the same work. Go cannot choose the suites of TLS 1.3; the Java server
// selects this one among those that the client offers. P-256 is the key's curve, without which
// Java refuses the key in TLS 1.2.
func tlsConfig(version string) (*tls.Config, error) {
	v, ok := tlsVersions[version]
	if !ok {
		return nil, fmt.Errorf("TLS version %q: want 1.2 or 1.3", version)
	}
	return &tls.Config{MinVersion: v, MaxVersion: v, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, nil
}

// Limits of a connection: the time for its handshake, and between lines.
const (
	handshakeLimit = 10 * time.Second
	idleLimit      = time.Minute
)

// run prints "loaded" when the program runs, "listening ADDRESS" and "ready" when it listens,
// and its statistics in JSON at the end.
func (s *ackServer) run(ctx context.Context, streams Streams) error {
	fmt.Fprintln(streams.Out, "loaded")
	if s.threads < 1 {
		return fmt.Errorf("-threads %d: want at least 1", s.threads)
	}
	config, err := tlsConfig(s.version)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return fmt.Errorf("load certificate and key: %w (teescope-work certificate makes them)", err)
	}
	config.Certificates = []tls.Certificate{pair}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(streams.Out, "listening %s\nready\n", l.Addr())
	err = s.serve(ctx, tls.NewListener(l, config))
	return errors.Join(err, json.NewEncoder(streams.Out).Encode(s.statistics()))
}

// serve answers connections until ctx ends, which is not an error.
func (s *ackServer) serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	slots := make(chan struct{}, s.threads)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		all.Go(func() {
			defer c.Close()
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			hangUp := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer hangUp()
			s.connections.Add(1)
			if err := s.answer(c.(*tls.Conn)); err != nil && ctx.Err() == nil {
				s.failed.Add(1)
			}
		})
	}
}

// answer serves one connection to its end. Data after the last newline is not a message.
func (s *ackServer) answer(c *tls.Conn) error {
	if err := c.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	if err := c.Handshake(); err != nil {
		return err
	}
	in := bufio.NewReaderSize(c, mostLine+1)
	var answer, out []byte
	for {
		if err := c.SetDeadline(time.Now().Add(idleLimit)); err != nil {
			return err
		}
		line, err := in.ReadSlice('\n')
		began := time.Now()
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			_, err := c.Write(timed(out[:0], tooLong, time.Since(began)))
			return errors.Join(errors.New("a line is too long"), err)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		answer = appendAnswer(answer[:0], line[:len(line)-1])
		out = timed(out[:0], answer, time.Since(began))
		if _, err := c.Write(out); err != nil {
			return err
		}
		s.messages.Add(1)
	}
}

// serverStatistics is a server's last line; workloads/java prints the same.
type serverStatistics struct {
	Runtime string `json:"runtime"`
	// Connections were accepted; Failed of them ended in an error.
	Connections uint64 `json:"connections"`
	Failed      uint64 `json:"failed"`
	Messages    uint64 `json:"messages"`
	Threads     int    `json:"threads"`
	// PeakRSS is the largest resident set in bytes, Program the size of what is needed to run:
	// the executable, or the classes and the library of the JVM. Absent if the system does not
	// report them.
	PeakRSS int64 `json:"peak_rss_bytes,omitempty"`
	Program int64 `json:"program_bytes,omitempty"`
}

func (s *ackServer) statistics() serverStatistics {
	out := serverStatistics{Runtime: runtime.Version(), Connections: s.connections.Load(), Failed: s.failed.Load(), Messages: s.messages.Load(), Threads: s.threads}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		out.PeakRSS = peakRSS(status)
	}
	if st, err := os.Stat("/proc/self/exe"); err == nil {
		out.Program = st.Size()
	}
	return out
}

// peakRSS reads VmHWM of /proc/PID/status in bytes (proc_pid_status(5)); it returns 0 if the
// kernel leaves it out.
func peakRSS(status []byte) int64 {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 53)
			if err == nil && kib > 0 {
				return kib << 10
			}
		}
	}
	return 0
}
