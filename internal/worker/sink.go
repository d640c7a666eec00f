package worker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sinkCommand receives what a flow sends, and counts it. It has one port: TCP for control and streams, UDP for datagrams.
var sinkCommand = Command{
	Name: "sink",
	Doc:  "receive streams of TCP or UDP from a flow, and count what arrives",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		address := f.String("address", "127.0.0.1:5202", "address to listen on, for TCP and UDP")
		return func(ctx context.Context, s Streams) error {
			l, err := listenTCP(ctx, *address)
			if err != nil {
				return err
			}
			udp, err := new(net.ListenConfig).ListenPacket(ctx, "udp", l.Addr().String())
			if err != nil {
				return errors.Join(err, l.Close())
			}
			r := &receiver{jobs: map[string]*received{}}
			var hearing sync.WaitGroup
			hearing.Go(func() { r.countDatagrams(udp.(*net.UDPConn)) })
			err = serveEach(ctx, l, func(c net.Conn) { r.answer(ctx, c) })
			err = errors.Join(err, udp.Close())
			hearing.Wait()
			return err
		}
	},
}

// receiver is the receiving end.
type receiver struct {
	mu   sync.Mutex
	jobs map[string]*received // by token
}

// received is what has arrived of a flow so far.
type received struct {
	joined chan struct{} // a stream of TCP

	mu               sync.Mutex
	bytes, datagrams int64
	streams          map[uint16]*heard // of UDP
	broken           error
}

// heard is a stream of datagrams.
type heard struct {
	first, next     uint64  // the lowest number in this run, and the one after the highest
	transit, jitter float64 // seconds
}

// longestLine bounds the first line of a connection.
const longestLine = 4096

// answer serves a connection: control of a flow, or one of its streams. What is neither is closed.
func (r *receiver) answer(ctx context.Context, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	said := bufio.NewReaderSize(c, longestLine)
	line, err := said.ReadSlice('\n')
	if err != nil {
		return
	}
	var job flowJob
	if json.Unmarshal(line, &job) != nil || job.Token == "" {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if ctx.Err() != nil {
		return
	}
	if job.Protocol == "" {
		r.readStream(job.Token, c, said)
		return
	}
	if err := r.control(ctx, job, c, said); err != nil {
		_, _ = fmt.Fprintf(c, "error %v\n", err)
	}
}

// control measures one flow.
func (r *receiver) control(ctx context.Context, job flowJob, c net.Conn, said *bufio.Reader) error {
	if err := job.check(); err != nil {
		return err
	}
	got := &received{joined: make(chan struct{}), streams: map[uint16]*heard{}}
	r.mu.Lock()
	r.jobs[job.Token] = got
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.jobs, job.Token)
		r.mu.Unlock()
	}()
	b := make([]byte, 1)
	for range warmTrips + job.Trips {
		if _, err := io.ReadFull(said, b); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	gone, left := context.WithCancel(ctx)
	defer left()
	go func() { // the flow says nothing more: the end of its connection is its end
		_, _ = said.ReadByte()
		left()
	}()
	if _, err := io.WriteString(c, "ready\n"); err != nil {
		return err
	}
	if job.Protocol == "tcp" {
		for range job.Streams {
			select {
			case <-got.joined:
			case <-gone.Done():
				return errors.New("the flow ended before all streams were open")
			}
		}
	}
	if _, err := io.WriteString(c, "go\n"); err != nil {
		return err
	}
	return got.measure(gone, job, c)
}

// measure reads the counts at the edges of the windows. The measured time counts from the first reading, which a busy machine
// makes late; it is never shorter than asked for.
func (got *received) measure(gone context.Context, job flowJob, c net.Conn) error {
	const fewest, longest = 10, time.Second
	width := min(job.Measure/fewest, longest)
	due := time.Now().Add(job.Omit)
	var from, last, now counts
	end := flowEnd{MTU: mtuOf(c)}
	for at := time.Duration(0); ; {
		select {
		case <-gone.Done():
			return errors.New("the flow ended before the measured time")
		case <-time.After(time.Until(due)):
		}
		var err error
		if now, err = got.now(); err != nil {
			return err
		}
		if at == 0 {
			from = now
			if _, err := io.WriteString(c, "begin\n"); err != nil {
				return err
			}
		} else {
			end.Windows = append(end.Windows, flowWindow{Seconds: now.at.Sub(last.at).Seconds(), Bytes: now.bytes - last.bytes})
		}
		last = now
		if at == job.Measure {
			break
		}
		at = min(at+width, job.Measure)
		due = from.at.Add(at)
	}
	end.Seconds, end.CPU, end.Bytes = now.at.Sub(from.at).Seconds(), (now.cpu - from.cpu).Seconds(), now.bytes-from.bytes
	if job.Protocol == "udp" {
		end.Datagrams = now.datagrams - from.datagrams
		end.Lost = max(0, now.sent-from.sent-end.Datagrams)
		end.Jitter, end.Streams = now.jitter, now.streams
	}
	b, err := json.Marshal(end)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "end %s\n", b)
	return err
}

// counts is a reading of the counts.
type counts struct {
	at                     time.Time
	cpu                    time.Duration
	bytes, datagrams, sent int64    // sent: by the datagrams' numbers
	streams                int      // of UDP, of which something arrived
	jitter                 *float64 // mean of the streams; nil: no datagrams
}

func (got *received) now() (c counts, err error) {
	if c.cpu, err = processTime(os.Getpid()); err != nil {
		return c, fmt.Errorf("read the CPU time of the sink: %w", err)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	c.at, c.bytes, c.datagrams = time.Now(), got.bytes, got.datagrams
	sum := 0.0
	for _, s := range got.streams {
		c.sent += int64(s.next - s.first)
		sum += s.jitter
	}
	if n := len(got.streams); n > 0 {
		c.streams = n
		mean := sum / float64(n)
		c.jitter = &mean
	}
	return c, got.broken
}

// readStream reads a stream of TCP to its end, which comes after the measurement.
func (r *receiver) readStream(token string, c net.Conn, said io.Reader) {
	r.mu.Lock()
	got := r.jobs[token]
	r.mu.Unlock()
	if got == nil {
		return
	}
	select {
	case got.joined <- struct{}{}:
	case <-time.After(patience):
		return
	}
	b := make([]byte, flowBuffer)
	for {
		n, err := said.Read(b)
		got.mu.Lock()
		got.bytes += int64(n)
		if err != nil {
			got.broken = fmt.Errorf("a stream ended before the measurement: %w", err)
		}
		got.mu.Unlock()
		if err != nil {
			return
		}
		said = c // the reader is empty
	}
}

// countDatagrams counts datagrams until the socket is closed. Foreign ones are ignored.
func (r *receiver) countDatagrams(c *net.UDPConn) {
	b := make([]byte, mostDatagram)
	for {
		n, _, err := c.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			continue
		}
		h, ok := parseHeader(b[:n])
		if !ok {
			continue
		}
		r.mu.Lock()
		got := r.jobs[h.token]
		r.mu.Unlock()
		if got != nil {
			got.datagram(h, n, time.Now().UnixNano())
		}
	}
}

// datagram counts one. The jitter is that of RFC 1889, section 6.3.1: the clocks of the ends may differ, their difference
// cancels.
func (got *received) datagram(h header, bytes int, at int64) {
	got.mu.Lock()
	defer got.mu.Unlock()
	got.bytes += int64(bytes)
	got.datagrams++
	transit := float64(at-h.sent) / 1e9
	s := got.streams[h.stream]
	if s == nil {
		if len(got.streams) >= mostStreams {
			return
		}
		got.streams[h.stream] = &heard{first: h.number, next: h.number + 1, transit: transit}
		return
	}
	s.jitter += (math.Abs(transit-s.transit) - s.jitter) / 16
	s.transit = transit
	s.first, s.next = min(s.first, h.number), max(s.next, h.number+1)
}

// header is the begin of a datagram.
type header struct {
	token  string
	stream uint16
	number uint64
	sent   int64 // UnixNano on the sender's clock
}

// tokenBytes is the length of rand.Text.
const tokenBytes = 26

func (h header) encode(b []byte) {
	copy(b, h.token)
	binary.BigEndian.PutUint16(b[tokenBytes:], h.stream)
	binary.BigEndian.PutUint64(b[tokenBytes+2:], h.number)
	binary.BigEndian.PutUint64(b[tokenBytes+10:], uint64(h.sent))
}

func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < leastDatagram {
		return h, false
	}
	return header{token: string(b[:tokenBytes]), stream: binary.BigEndian.Uint16(b[tokenBytes:]),
		number: binary.BigEndian.Uint64(b[tokenBytes+2:]), sent: int64(binary.BigEndian.Uint64(b[tokenBytes+10:]))}, true
}

// mtuOf is the MTU of the interface that has the connection's own address; 0 if there is none.
func mtuOf(c net.Conn) int {
	end, err := linkOf(c.LocalAddr().String())
	if err != nil {
		return 0
	}
	return end.MTU
}

// withFD calls f with a connection's descriptor.
func withFD(c net.Conn, f func(fd int) error) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// congestion is the congestion control of a stream, as the kernel reports it.
func congestion(c net.Conn) (name string) {
	_ = withFD(c, func(fd int) (err error) {
		name, err = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		return err
	})
	return name
}

// streamInfo is what the kernel knows of streams of TCP.
type streamInfo struct {
	known       bool
	retransmits int64
	mtu         int // the least of their paths
}

func infos(streams []net.Conn) (all streamInfo) {
	for _, c := range streams {
		var info *unix.TCPInfo
		err := withFD(c, func(fd int) (err error) {
			info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			return err
		})
		if err != nil || info.Pmtu == 0 { // gVisor reports zeros
			return streamInfo{}
		}
		all.retransmits += int64(info.Total_retrans)
		if all.mtu == 0 || int(info.Pmtu) < all.mtu {
			all.mtu = int(info.Pmtu)
		}
	}
	all.known = len(streams) > 0
	return all
}
