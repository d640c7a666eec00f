package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/teescope/teescope/channel"
	"github.com/teescope/teescope/internal/channelbench"
)

var channelCommand = Command{
	Name: "channel",
	Doc:  "measure the attested channel against the plain transport and TLS 1.3, interleaved",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var m measurement
		f.StringVar(&m.measure, "measure", "echo", "handshake, echo, stream, or codec (sealing and framing alone, without a connection)")
		f.StringVar(&m.transport, "transport", "tcp", "pipe (in the process), tcp, unix or vsock")
		f.StringVar(&m.suite, "suite", "aes-gcm", "aes-gcm or chacha20-poly1305")
		f.StringVar(&m.threads, "threads", "cross", "same: all on one thread; cross: each side on its own")
		f.StringVar(&m.evidence, "evidence", "mock", "the server's evidence in attested handshakes: mock, simulated, or configfs-tsm")
		f.BoolVar(&m.mutual, "mutual", false, "the client gives evidence, too")
		f.DurationVar(&m.delay, "quote-delay", 0, "duration of a quote with -evidence simulated")
		f.StringVar(&m.message, "message", "bytes", "bytes, or tensor: F32, 768 in a row, with name, type and shape")
		count(f, &m.size, "size", 384<<10, 16, 16<<20, "bytes of a message, or of a tensor's data")
		count(f, &m.windows, "windows", 20, 1, 100_000, "timed windows of each variant, in random order")
		f.DurationVar(&m.window, "window", 100*time.Millisecond, "length of a window")
		f.DurationVar(&m.warm, "warm", 500*time.Millisecond, "warm-up before the windows, for all variants together")
		f.Uint64Var(&m.seed, "seed", 1, "seed of the order of the windows")
		f.StringVar(&m.listen, "listen", "", "run only the far side, at this address (HOST:PORT; with -transport vsock a port)")
		f.StringVar(&m.connect, "connect", "", "run only the near side, with the far side at this address (HOST:PORT; with -transport vsock CID:PORT)")
		return m.run
	},
}

// measurement holds the flags, and what is built from them.
type measurement struct {
	measure, transport, suite, threads, evidence, message string
	listen, connect                                       string
	mutual                                                bool
	delay                                                 time.Duration
	size, windows                                         int
	window, warm                                          time.Duration
	seed                                                  uint64

	cipher channel.Suite
	proof  evidence
	wiring *wiring
	cycles *cycleCounter
	wrong  uint64
	tls    string
}

// variant is one of the things compared. Its window runs for about d and returns the number of
// operations and their total time; if operations are timed individually, took receives each
// time.
type variant struct {
	name   string
	window func(d time.Duration, took func(time.Duration)) (uint64, time.Duration, error)
	// session is closed at the end; nil if each operation has its own, or none.
	session messenger
	cycles  uint64 // CPU cycles of its operations, if they were counted
}

func (m *measurement) run(ctx context.Context, s Streams) error {
	if err := m.check(); err != nil {
		return err
	}
	if m.threads == "same" {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	// In an echo one side waits for the other, and Go's scheduler would run both on one thread;
	// if both sides are busy, it uses two by itself.
	if m.threads == "cross" && m.measure == "echo" || m.measure == "codec" {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	var err error
	if m.proof, err = newEvidence(m.evidence, m.delay); err != nil {
		return err
	}
	pipe := pipeSize
	if m.measure == "handshake" {
		pipe = helloSize
	}
	if m.wiring, err = newWiring(m.transport, m.listen, m.connect, pipe); err != nil {
		return err
	}
	closed := sync.OnceFunc(m.wiring.close)
	defer closed()
	far := newFar(m.proof, m.threads)
	if m.listen != "" {
		defer context.AfterFunc(ctx, closed)()
		if err := m.sayLink(s.Out); err != nil {
			return err
		}
		fmt.Fprintln(s.Out, "listening")
		return far.serve(ctx, m.wiring.accept)
	}
	if m.connect == "" {
		go func() { _ = far.serve(ctx, m.wiring.accept) }() // ends when the wiring is closed; the near side reports errors
	}
	if m.connect != "" {
		if err := m.sayLink(s.Out); err != nil {
			return err
		}
	}
	r := &channelbench.Report{Measure: m.measure, Transport: m.transport, Suite: m.suite, Threads: m.threads, Evidence: m.evidence,
		Message: m.message, Size: m.size, Absent: map[string]string{}}
	if m.measure == "codec" {
		if m.cycles, err = openCycles(); err != nil {
			r.Absent["cycles"] = err.Error()
		}
		defer m.cycles.close()
	}
	variants, err := m.variants(ctx)
	if err != nil {
		return err
	}
	err = m.runWindows(ctx, s.Out, variants, r)
	for _, v := range variants {
		if v.session != nil {
			_ = v.session.Close() // everything that matters was sent before
		}
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(s.Out).Encode(r)
}

// sayLink prints the end of the network that one side of two is at.
func (m *measurement) sayLink(w io.Writer) error {
	if m.transport != "tcp" {
		return nil
	}
	find, address := linkTo, m.connect
	if m.listen != "" {
		find, address = linkOf, m.listen
	}
	end, err := find(address)
	return sayLink(w, end, err)
}

// check returns an error for flags that do not fit together.
func (m *measurement) check() error {
	for _, c := range []struct {
		flag, value string
		allowed     []string
	}{
		{"measure", m.measure, []string{"handshake", "echo", "stream", "codec"}},
		{"transport", m.transport, []string{"pipe", "tcp", "unix", "vsock"}},
		{"suite", m.suite, []string{"aes-gcm", "chacha20-poly1305"}},
		{"threads", m.threads, []string{"same", "cross"}},
		{"evidence", m.evidence, []string{"mock", "simulated", "configfs-tsm"}},
		{"message", m.message, []string{"bytes", "tensor"}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return fmt.Errorf("-%s %q: want one of %v", c.flag, c.value, c.allowed)
		}
	}
	switch {
	case m.size < 16 || m.size > 16<<20:
		return fmt.Errorf("-size %d: want 16 to %d", m.size, 16<<20)
	case m.message == "tensor" && m.size%(4*tensorWidth) != 0:
		return fmt.Errorf("-size %d: a tensor has a multiple of %d bytes", m.size, 4*tensorWidth)
	case m.windows < 1 || m.window < time.Millisecond || m.window > time.Minute || m.warm < 0:
		return errors.New("-windows, -window, -warm: want at least 1, 1ms to 1m, and at least 0s")
	case m.listen != "" && m.connect != "":
		return errors.New("-listen and -connect: give only one of them, because a side is either near or far")
	case (m.listen != "" || m.connect != "") && (m.transport == "pipe" || m.transport == "unix"):
		return fmt.Errorf("-transport %s: this transport does not leave the machine, so it cannot be used with -listen or -connect", m.transport)
	case m.connect != "" && m.evidence == "simulated":
		return errors.New("-evidence simulated: one process makes the keys, so run both sides in one process")
	}
	m.cipher = map[string]channel.Suite{"aes-gcm": channel.AESGCM, "chacha20-poly1305": channel.ChaChaPoly}[m.suite]
	return nil
}

// runWindows runs the windows of all variants in random order.
func (m *measurement) runWindows(ctx context.Context, out io.Writer, variants []*variant, r *channelbench.Report) error {
	order := rand.New(rand.NewPCG(m.seed, 0))
	times := make([]*durations, len(variants))
	for i, v := range variants {
		if _, _, err := v.window(max(m.warm/time.Duration(len(variants)), time.Millisecond), func(time.Duration) {}); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		r.Variants = append(r.Variants, channelbench.Variant{Name: v.name})
		times[i], v.cycles = newDurations(), 0
	}
	runtime.GC()
	fmt.Fprintln(out, "begin")
	began := monotonic()
	for range m.windows {
		for _, i := range order.Perm(len(variants)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			w := channelbench.Window{CPU: -processorSeconds()}
			for range channelbench.Parts {
				n, took, err := variants[i].window(m.window/channelbench.Parts, times[i].record)
				if err != nil {
					return fmt.Errorf("%s: %w", variants[i].name, err)
				}
				w.Operations, w.Seconds = w.Operations+n, w.Seconds+took.Seconds()
				w.Parts = append(w.Parts, took.Seconds()/float64(n))
			}
			w.CPU += processorSeconds()
			r.Variants[i].Windows = append(r.Variants[i].Windows, w)
		}
	}
	r.Seconds, r.Wrong, r.TLS = monotonic().Sub(began).Seconds(), m.wrong, m.tls
	for i, v := range variants {
		var err error
		if r.Variants[i].Histogram, err = times[i].encode(); err != nil {
			return err
		}
		r.Variants[i].Cycles = v.cycles
	}
	return nil
}

// each returns a window function that times an operation individually.
func each(operation func() (time.Duration, error)) func(time.Duration, func(time.Duration)) (uint64, time.Duration, error) {
	return func(d time.Duration, took func(time.Duration)) (n uint64, sum time.Duration, err error) {
		for began := monotonic(); ; {
			t, err := operation()
			if err != nil {
				return n, sum, err
			}
			took(t)
			n, sum = n+1, sum+t
			if monotonic().Sub(began) >= d {
				return n, sum, nil
			}
		}
	}
}
