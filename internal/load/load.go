//go:build linux

package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/locked"
)

// lateAfter is the delay after which a request counts as sent late.
const lateAfter = int64(time.Millisecond)

// Options describe a load.
type Options struct {
	Protocol *Protocol
	Ask      Ask
	// Network is "tcp" or "unix".
	Network, Address string
	// TLS is nil for none. If it has a session cache, sessions are resumed.
	TLS *tls.Config
	// Fresh makes a new connection for each request.
	Fresh bool
	// Connections is the number of open connections, Pipeline the number of requests in
	// flight on each.
	Connections, Pipeline, Threads int
	// Rate in requests per second makes the loop open; 0 means a closed loop.
	Rate    float64
	Poisson bool
	Seed    uint64
	// Requests, if above 0, is the number of requests after the warm-up; it then ends the load, and Measure
	// does not. Failed ones count too. A server that takes no connection for Wait is an error.
	Requests uint64
	// Warm is the warm-up before Measure. Wait is the longest wait for a server that is
	// not ready, Timeout that for one answer. Start, if above 0, replaces Wait until the server has answered once, however wrongly.
	Warm, Measure, Wait, Timeout, Start time.Duration
	// Waiting, if not nil, is told once what the load waits for, if the server is slow to start.
	Waiting func(what string)
	// Grace is how long requests in flight at the end of Measure may take to be answered; 0 is 2 s.
	Grace time.Duration
	// Populate fills the server with the data that the protocol requests.
	Populate bool
	// Statistics asks the server for its statistics; nil does not. It asks Address,
	// unless StatisticsAddress is set.
	Statistics        *Statistics
	StatisticsAddress string
	// Counting, if not nil, is called before the first and after the last request in
	// Report.Counted, with none in flight; the load waits for it.
	Counting func(ctx context.Context, begins bool) error

	instead network // of the kernel's, in tests
}

// Statistics is a way to read a server's own counters, one file each in load/protocols.
type Statistics struct {
	Name, Doc string
	// Read returns numbers and words under the server's names. Gauges are the names of
	// the numbers that are levels; all others are counters.
	Read   func(context.Context, *Options) (numbers map[string]float64, words map[string]string, err error)
	Gauges []string
	// Late: the server counts a connection's requests when it ends. It is asked before
	// the load makes its connections and after it has closed them.
	Late bool
}

// Enough windows to detect a warm-up in them.
const windows = 50

const longestLoad = 24 * time.Hour

func (o *Options) window() time.Duration {
	return max(o.Measure/windows, time.Millisecond)
}

// seed is the seed of the i-th connection.
func (o *Options) seed(i int) uint64 { return o.Seed*1_000_003 + uint64(i) }

// check returns the first invalid option.
func (o *Options) check() error {
	switch {
	case o.Connections < 1 || o.Connections > MostConnections:
		return fmt.Errorf("%d connections: want 1 to %d", o.Connections, MostConnections)
	case o.Pipeline < 1 || o.Pipeline > MostPipeline:
		return fmt.Errorf("pipeline of %d: want 1 to %d", o.Pipeline, MostPipeline)
	case o.Threads < 1 || o.Threads > o.Connections:
		return fmt.Errorf("%d threads: want 1 to %d, the number of connections", o.Threads, o.Connections)
	case o.Fresh && o.Pipeline > 1:
		return errors.New("a pipeline needs connections that are reused: leave out pipeline or no-keep-alive")
	case !(o.Rate >= 0) || o.Rate > MostRate:
		return fmt.Errorf("a rate of %g: want requests per second up to %g, or 0 for a closed loop", o.Rate, MostRate)
	case o.Requests > 0 && (o.Warm < 0 || o.Warm > longestLoad):
		return fmt.Errorf("a warm-up of %v: want 0 to a day", o.Warm)
	case o.Requests == 0 && (o.Warm < 0 || o.Measure < windows*time.Millisecond || o.Warm+o.Measure > longestLoad):
		return fmt.Errorf("measure %v after %v: want at least %v and at most a day", o.Measure, o.Warm, windows*time.Millisecond)
	case o.Wait <= 0 || o.Timeout <= 0 || o.Start < 0:
		return fmt.Errorf("wait %v, timeout %v and start %v: want times above 0, or a start of 0 for none", o.Wait, o.Timeout, o.Start)
	}
	return nil
}

// Run waits for the server, fills it, warms it up, measures it and reports.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Ask.Fresh = o.Fresh
	d, err := o.Protocol.Open(o.Ask)
	if err != nil {
		return nil, fmt.Errorf("protocol %s: %w", o.Protocol.Name, err)
	}
	if err := descriptors(o.Connections); err != nil {
		return nil, err
	}
	cores := min(o.Threads, runtime.NumCPU())
	// One more than the load's threads: the goroutines that watch the clock, read the
	// server's statistics and reconnect must not wait for them.
	runtime.GOMAXPROCS(cores + 1)
	if o.Fresh { // its goroutines run on any of them
		cores = min(cores+1, runtime.NumCPU())
	}
	filled, err := o.fill(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := o.ready(ctx, d); err != nil {
		return nil, err
	}
	r := &Report{Protocol: o.Protocol.Name, Loop: "closed", Connections: o.Connections, Pipeline: o.Pipeline,
		Seconds: o.Measure.Seconds(), Width: o.window().Seconds(), Cores: cores}
	if o.Rate > 0 {
		r.Loop, r.Arrivals, r.Rate, r.LateAfter = "open", "constant", o.Rate, float64(lateAfter)/1e9
		if o.Poisson {
			r.Arrivals = "poisson"
		}
	}
	c := &course{o: &o, r: r}
	if err := c.askLate(ctx); err != nil {
		return nil, err
	}
	run := o.loops
	if o.Fresh {
		run = o.freshly
	}
	rec, times, err := run(ctx, d, c)
	if err == nil {
		err = c.askLate(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.Answered = filled + rec.answered
	if o.Requests > 0 {
		r.Seconds = time.Duration(rec.last).Seconds()
		r.Width = time.Duration(rec.width).Seconds()
		rec.complete()
	}
	if err := r.fill(rec, times, o.Rate > 0); err != nil {
		return nil, err
	}
	r.Digest = d.Digest()
	return r, nil
}

// fill fills the server with data.
func (o *Options) fill(ctx context.Context, d Dialect) (uint64, error) {
	if !o.Populate {
		return 0, nil
	}
	p, ok := d.(Populator)
	if !ok {
		return 0, fmt.Errorf("protocol %s has no data to fill a server with", o.Protocol.Name)
	}
	// The data that it requests does not exist yet, so any answer means that it is
	// ready.
	w := o.awaited()
	for {
		m, err := o.connect(ctx, d, 0, false)
		if err == nil {
			n, perr := p.Populate(ctx, prompt{m.conn, o.Timeout})
			if perr = errors.Join(perr, m.conn.Close()); perr == nil {
				return n, nil
			}
			err = fmt.Errorf("fill the server with data: %w", perr)
			// A port forwarder accepts connections before the server listens, then closes them.
			if kind := kindOf(err); n > 0 || kind != "closed" && kind != "reset" {
				return n, err
			}
		}
		if err = w.whyNotAgain(ctx, err); err != nil {
			return 0, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// prompt is a connection on which each answer has to come within a time.
type prompt struct {
	net.Conn
	within time.Duration
}

func (p prompt) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.within)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// loops runs the load over persistent connections.
func (o *Options) loops(ctx context.Context, d Dialect, c *course) (*record, *hdrhistogram.Histogram, error) {
	workers := make([]*worker, o.Threads)
	for i := range workers {
		workers[i] = &worker{o: o, d: d, ctx: ctx, rec: newRecord(), redialled: locked.New(redialled{lost: newFailures()})}
	}
	for i := range o.Connections {
		w := workers[i%o.Threads]
		w.lines = append(w.lines, nil)
	}
	if err := o.connectAll(ctx, d, workers); err != nil {
		return nil, nil, err
	}
	for i, w := range workers {
		if err := w.prepare(); err != nil {
			for _, w := range workers[:i] {
				w.close()
			}
			return nil, nil, err
		}
	}
	answered := func() (n uint64) {
		for _, w := range workers {
			n += w.rec.answered
		}
		return n
	}
	err := c.run(ctx, func(s stretch, watch func(base time.Time) error) (uint64, error) {
		before, base := answered(), time.Now()
		errs := make([]error, len(workers)+1)
		var all sync.WaitGroup
		for i, w := range workers {
			w.begin(base, s, i)
			all.Go(func() { errs[i] = w.run() })
		}
		errs[len(workers)] = watch(base)
		all.Wait()
		return answered() - before, errors.Join(errs...)
	})
	total := newRecord()
	times := newHistogram()
	for _, w := range workers {
		w.close()
		w.rec.errors.merge(w.redialled.Lock().lost)
		w.redialled.Unlock()
		total.merge(w.rec)
		for _, l := range w.lines {
			times.Merge(l.times)
		}
	}
	return total, times, err
}

// connecting is how many connections are made in parallel, and so how many threads wait
// for handshakes.
const connecting = 32

// connectAll makes the connections of all workers.
func (o *Options) connectAll(ctx context.Context, d Dialect, workers []*worker) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gate := make(chan struct{}, connecting)
	var all sync.WaitGroup
	var mu sync.Mutex // of the records
	for i := range o.Connections {
		w, at := workers[i%o.Threads], i/o.Threads
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			if ctx.Err() != nil {
				return
			}
			m, err := o.connect(ctx, d, o.seed(i), true)
			if err != nil {
				cancel(fmt.Errorf("make connection %d of %d: %w", i+1, o.Connections, err))
				return
			}
			w.lines[at] = &connection{made: m, index: at, times: newHistogram()}
			mu.Lock()
			w.rec.connected(m)
			mu.Unlock()
		})
	}
	all.Wait()
	err := context.Cause(ctx)
	if err != nil {
		for _, w := range workers {
			for _, l := range w.lines {
				if l != nil {
					_ = l.conn.Close()
				}
			}
		}
	}
	return err
}

// freshly runs the load with a new connection for each request.
func (o *Options) freshly(ctx context.Context, d Dialect, c *course) (*record, *hdrhistogram.Histogram, error) {
	rec, times := newRecord(), newHistogram()
	f := &fresh{o: o, d: d, tally: locked.New(tally{rec, times})}
	err := c.run(ctx, func(s stretch, watch func(base time.Time) error) (uint64, error) {
		before := rec.answered
		f.base, f.stretch = time.Now(), s
		rec.measure(s)
		watched := make(chan error, 1)
		go func() { watched <- watch(f.base) }()
		err := f.run(ctx)
		return rec.answered - before, errors.Join(err, <-watched)
	})
	return rec, times, err
}

// difference is the growth of counters, and the current levels.
func (s *Statistics) difference(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range after {
		b, ok := before[name]
		switch {
		case slices.Contains(s.Gauges, name):
			out[name] = v
		case ok && v >= b: // a counter that restarted has no difference
			out[name] = v - b
		}
	}
	return out
}

// cpuSeconds is the CPU time of this process (getrusage(2)).
func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail for the process itself
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime)).Seconds()
}

// fill puts the counts into the report.
func (r *Report) fill(c *record, times *hdrhistogram.Histogram, open bool) error {
	r.Requests, r.Due, r.Errors, r.Words = c.requests, c.due, c.errors.count, c.errors.words
	r.Sent, r.Received, r.Late = c.sent, c.received, c.late
	r.Handshakes, r.Resumed, r.Windows = c.handshakes, c.resumed, c.windows
	service := times
	var err error
	if open {
		service = c.service
		if r.Response, err = encode(times); err != nil {
			return err
		}
		if r.Lag, err = encode(c.lag); err != nil {
			return err
		}
	}
	if r.Service, err = encode(service); err != nil {
		return err
	}
	if r.Connect, err = encode(c.connect); err != nil {
		return err
	}
	r.Handshake, err = encode(c.handshakeTime)
	return err
}
