package worker

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// flow sends to a sink and prints what both ends measured.
var flow = Command{
	Name: "flow",
	Doc:  "send streams of TCP or UDP to a sink, and report what arrived, round trips and the CPU time of both ends",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var s sender
		f.StringVar(&s.address, "address", "127.0.0.1:5202", "address of the sink")
		f.DurationVar(&s.wait, "wait", host.Patience(time.Minute), "how long to wait for the sink")
		f.StringVar(&s.Protocol, "protocol", "tcp", "tcp or udp")
		count(f, &s.Streams, "streams", 1, 1, mostStreams, "streams at once")
		f.Float64Var(&s.Rate, "rate", 0, "bits of payload per second that UDP sends, all streams together; 0 is unlimited")
		count(f, &s.Datagram, "datagram", 1200, leastDatagram, mostDatagram, "payload of a datagram of UDP in bytes")
		f.StringVar(&s.Congestion, "congestion", "", "congestion control of TCP; \"\" is the kernel's own")
		count(f, &s.Trips, "round-trips", 2000, 0, 1_000_000, "round trips of one byte over TCP before the streams")
		f.DurationVar(&s.Omit, "omit", time.Second, "time at the start that is not measured")
		f.DurationVar(&s.Measure, "measure", 10*time.Second, "measured time")
		return s.run
	},
}

const (
	leastDatagram = 64
	mostDatagram  = 65_507 // of UDP over IPv4
	warmTrips     = 100    // are not timed
	flowBuffer    = 128 << 10
)

// flowJob is what a flow asks of its sink: the first line of a control connection.
type flowJob struct {
	Token      string        `json:"token"`
	Protocol   string        `json:"protocol"`
	Streams    int           `json:"streams"`
	Rate       float64       `json:"rate_bits_per_second"`
	Datagram   int           `json:"datagram_bytes"`
	Congestion string        `json:"congestion"`
	Trips      int           `json:"round_trips"`
	Omit       time.Duration `json:"omit_nanoseconds"`
	Measure    time.Duration `json:"measure_nanoseconds"`
}

func (j *flowJob) check() error {
	switch {
	case j.Protocol != "tcp" && j.Protocol != "udp":
		return fmt.Errorf("protocol %q: want tcp or udp", j.Protocol)
	case j.Streams < 1 || j.Streams > mostStreams || j.Trips < 0 || j.Datagram < leastDatagram || j.Datagram > mostDatagram:
		return fmt.Errorf("%d streams, %d round trips, datagrams of %d bytes: out of bounds", j.Streams, j.Trips, j.Datagram)
	case j.Omit < 0 || j.Measure < shortestFlow || j.Omit+j.Measure > longestFlow:
		return fmt.Errorf("omit %s and measure %s: want at least %s measured, and at most %s in all", j.Omit, j.Measure, shortestFlow, longestFlow)
	case !(j.Rate >= 0 && j.Rate <= 1e15):
		return fmt.Errorf("a rate of %g bits/s: want 0 for no limit, or more", j.Rate)
	}
	return nil
}

const (
	shortestFlow = 100 * time.Millisecond
	longestFlow  = 2 * time.Hour
)

// flowReport is the document of a run.
type flowReport struct {
	Protocol   string    `json:"protocol"`
	Streams    int       `json:"streams"`
	Rate       float64   `json:"rate_bits_per_second"` // offered by UDP; 0: unlimited
	Datagram   int       `json:"datagram_bytes"`
	Congestion string    `json:"congestion"` // as read back; "": unknown, or UDP
	Omit       float64   `json:"omit_seconds"`
	Measure    float64   `json:"measure_seconds"`
	Trips      *tripTime `json:"round_trips"` // null: none were made
	Sender     flowEnd   `json:"sender"`
	Receiver   flowEnd   `json:"receiver"`
}

// tripTime is the time of round trips of one byte, in seconds.
type tripTime struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
}

// flowEnd is what one end measured in the measured time, on its own clock.
type flowEnd struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"` // of its process
	MTU     int     `json:"mtu_bytes"`   // of its interface; 0: unknown
	Bytes   int64   `json:"bytes"`       // of payload
	// The sender's, of TCP: segments sent again, and the least path MTU of its streams. Null: the kernel does not say.
	Retransmits *int64 `json:"retransmits,omitempty"`
	PathMTU     *int   `json:"path_mtu_bytes,omitempty"`
	// The receiver's.
	Windows []flowWindow `json:"windows,omitempty"`
	// Of UDP.
	Datagrams int64    `json:"datagrams"`
	Lost      int64    `json:"lost"`              // by the numbers of those that arrived
	Streams   int      `json:"streams,omitempty"` // of which the receiver heard
	Jitter    *float64 `json:"jitter_seconds,omitempty"`
}

// flowWindow is a part of the measured time.
type flowWindow struct {
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
}

// sender is the sending end.
type sender struct {
	flowJob
	address string
	wait    time.Duration

	bytes, datagrams atomic.Int64 // sent
}

func (s *sender) run(ctx context.Context, io Streams) error {
	if err := s.check(); err != nil {
		return err
	}
	s.Token = rand.Text()
	ctx, cancel := context.WithTimeoutCause(ctx, s.wait+s.Omit+s.Measure+patience, errors.New("the sink did not answer in time"))
	defer cancel()
	r, err := s.report(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	} else if err != nil {
		return err
	}
	return json.NewEncoder(io.Out).Encode(r)
}

func (s *sender) report(ctx context.Context) (*flowReport, error) {
	control, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	defer context.AfterFunc(ctx, func() { _ = control.Close() })()
	if err := writeLine(control, s.flowJob); err != nil {
		return nil, err
	}
	said := bufio.NewReader(control)
	r := &flowReport{Protocol: s.Protocol, Streams: s.Streams, Rate: s.Rate, Datagram: s.Datagram, Omit: s.Omit.Seconds(), Measure: s.Measure.Seconds()}
	if r.Trips, err = s.trips(control, said); err != nil {
		return nil, fmt.Errorf("round trips: %w", err)
	}
	if _, err := expect(said, "ready"); err != nil {
		return nil, err
	}
	var streams []net.Conn
	defer func() {
		for _, c := range streams {
			_ = c.Close()
		}
	}()
	for i := range s.Streams {
		c, err := s.open(ctx, i)
		if err != nil {
			return nil, err
		}
		streams = append(streams, c)
	}
	r.Congestion = congestion(streams[0])
	if _, err := expect(said, "go"); err != nil {
		return nil, err
	}
	return r, s.send(control, said, streams, r)
}

// send sends on all streams until the sink has measured.
func (s *sender) send(control net.Conn, said *bufio.Reader, streams []net.Conn, r *flowReport) error {
	var sending sync.WaitGroup
	var stopped atomic.Bool
	failed := make(chan error, len(streams))
	for i, c := range streams {
		sending.Go(func() {
			if err := s.stream(c, i, &stopped); err != nil && !stopped.Load() {
				failed <- fmt.Errorf("send stream %d: %w", i, err)
				_ = control.Close()
			}
		})
	}
	stop := func() {
		stopped.Store(true)
		for _, c := range streams {
			_ = c.Close()
		}
		sending.Wait()
	}
	defer stop()
	var at [2]time.Time
	var cpu [2]time.Duration
	var sent, datagrams, again [2]int64
	for i, want := range []string{"begin", "end"} {
		rest, err := expect(said, want)
		if err != nil {
			select {
			case why := <-failed:
				return why
			default:
				return err
			}
		}
		at[i] = time.Now()
		if cpu[i], err = processTime(os.Getpid()); err != nil {
			return fmt.Errorf("read the CPU time of the sender: %w", err)
		}
		sent[i], datagrams[i] = s.bytes.Load(), s.datagrams.Load()
		info := infos(streams)
		again[i] = info.retransmits
		if i == 0 {
			continue
		}
		if err := json.Unmarshal([]byte(rest), &r.Receiver); err != nil {
			return fmt.Errorf("cannot read the sink's answer %.80q: %w", rest, err)
		}
		r.Sender = flowEnd{Seconds: at[1].Sub(at[0]).Seconds(), CPU: (cpu[1] - cpu[0]).Seconds(), MTU: mtuOf(control),
			Bytes: sent[1] - sent[0], Datagrams: datagrams[1] - datagrams[0]}
		if info.known {
			more := again[1] - again[0]
			r.Sender.Retransmits, r.Sender.PathMTU = &more, &info.mtu
		}
	}
	return nil
}

// reach connects to the sink, which may not listen yet, or not be reachable yet behind a new service of a cluster.
func (s *sender) reach(ctx context.Context) (net.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	dialer := net.Dialer{Timeout: host.Patience(2 * time.Second)}
	for {
		c, err := dialer.DialContext(waiting, "tcp", s.address)
		if err == nil {
			return c, nil
		}
		select {
		case <-waiting.Done():
			return nil, fmt.Errorf("connect to the sink within %s: %w", s.wait, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// trips times round trips, each begun when the one before has ended.
func (s *sender) trips(c net.Conn, said *bufio.Reader) (*tripTime, error) {
	var took []time.Duration
	b := []byte{'.'}
	for i := range warmTrips + s.Trips {
		began := time.Now()
		if _, err := c.Write(b); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(said, b); err != nil {
			return nil, err
		}
		if i >= warmTrips {
			took = append(took, time.Since(began))
		}
	}
	if len(took) == 0 {
		return nil, nil
	}
	slices.Sort(took)
	return &tripTime{Count: len(took), P50: took[len(took)/2].Seconds(), P99: took[len(took)*99/100].Seconds()}, nil
}

// open opens a stream. One of TCP says which it is, and waits until the sink knows it.
func (s *sender) open(ctx context.Context, i int) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, s.Protocol, s.address)
	if err != nil {
		return nil, fmt.Errorf("open stream %d: %w", i, err)
	}
	if s.Protocol == "udp" {
		return c, nil
	}
	if s.Congestion != "" {
		if err := withFD(c, func(fd int) error {
			return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, s.Congestion)
		}); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("congestion control %s: %w; name one of /proc/sys/net/ipv4/tcp_allowed_congestion_control", s.Congestion, err)
		}
	}
	if err := writeLine(c, flowJob{Token: s.Token}); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("open stream %d: %w", i, err)
	}
	return c, nil
}

func (s *sender) stream(c net.Conn, i int, stopped *atomic.Bool) error {
	if s.Protocol == "tcp" {
		b := make([]byte, flowBuffer)
		for !stopped.Load() {
			n, err := c.Write(b)
			s.bytes.Add(int64(n))
			if err != nil {
				return err
			}
		}
		return nil
	}
	return s.datagramsOf(c, i, stopped)
}

// datagramsOf sends at the stream's share of the rate. It sleeps when it is ahead of the schedule, and sends what is due
// when it wakes up, so datagrams come in bursts of what a timer of the machine costs.
func (s *sender) datagramsOf(c net.Conn, i int, stopped *atomic.Bool) error {
	b := make([]byte, s.Datagram)
	perSecond := s.Rate / 8 / float64(s.Datagram) / float64(s.Streams)
	began := time.Now()
	for n := int64(0); !stopped.Load(); {
		if perSecond > 0 && float64(n) >= time.Since(began).Seconds()*perSecond+1 {
			time.Sleep(200 * time.Microsecond)
			continue
		}
		header{token: s.Token, stream: uint16(i), number: uint64(n), sent: time.Now().UnixNano()}.encode(b)
		switch _, err := c.Write(b); {
		case errors.Is(err, unix.ENOBUFS): // this machine's own queue is full: lost like any other
		case err != nil:
			return err
		}
		n++
		s.bytes.Add(int64(len(b)))
		s.datagrams.Add(1)
	}
	return nil
}

// expect reads a line that begins with a word, and returns the rest.
func expect(said *bufio.Reader, word string) (string, error) {
	line, err := said.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("wait for %q of the sink: %w", word, err)
	}
	first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if first != word {
		return "", fmt.Errorf("the sink answered %.200q, want %q", line, word)
	}
	return rest, nil
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
