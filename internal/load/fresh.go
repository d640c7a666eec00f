//go:build linux

package load

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/locked"
)

// fresh is the load with a new connection for each request: as many goroutines as
// connections, each of which connects, asks, reads the answer and closes. Here the
// handshakes dominate, and Go's poller costs little.
type fresh struct {
	o     *Options
	d     Dialect
	base  time.Time
	count atomic.Uint64 // of connections, for seeds
	stretch
	tally locked.Value[tally]
	gone  atomic.Pointer[error] // why the load cannot end by its number of requests
}

// tally holds the counts of all connections and the times of their requests.
type tally struct {
	*record
	times *hdrhistogram.Histogram
}

func (f *fresh) now() int64 { return int64(time.Since(f.base)) }

// run runs one stretch of the load.
func (f *fresh) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var due chan int64 // nil in a closed loop
	paced := make(chan error, 1)
	if f.o.Rate > 0 {
		due = make(chan int64, f.o.Connections)
		go func() { paced <- f.pace(ctx, due) }()
	} else {
		paced <- nil
	}
	var slots sync.WaitGroup
	for range f.o.Connections {
		slots.Go(func() { f.slot(ctx, due, cancel) })
	}
	end := time.AfterFunc(time.Duration(f.to)+f.o.patience(f.stretch)-time.Since(f.base), cancel) // requests still in flight then are unanswered
	defer end.Stop()
	slots.Wait()
	cancel()
	err := <-paced
	if gone := f.gone.Load(); gone != nil {
		err = errors.Join(err, *gone)
	}
	return err
}

// pace waits until requests are due.
func (f *fresh) pace(ctx context.Context, due chan<- int64) error {
	defer close(due)
	runtime.LockOSThread() // the slack belongs to the thread, which ends with this goroutine
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	s := newSchedule(f.o.Rate, f.o.Poisson, f.o.Seed, 0, 1)
	for ; s.due() < f.to && f.allow(1) == 1; s.advance() {
		for wait := s.due() - f.now(); wait > 0 && ctx.Err() == nil; wait = s.due() - f.now() {
			if err := f.o.network().sleep(wait); err != nil {
				return err
			}
		}
		select {
		case due <- s.due():
		case <-ctx.Done():
			t := f.tally.Lock()
			defer f.tally.Unlock()
			now := f.now()
			for ; s.due() < min(f.to, now); s.advance() {
				t.unanswered(request{due: s.due()}, now, t.times)
			}
			return nil
		}
	}
	return nil
}

// slot makes one request after another.
func (f *fresh) slot(ctx context.Context, due <-chan int64, cancel func()) {
	const first, most = time.Millisecond, 100 * time.Millisecond
	buf, pause, reached := make([]byte, 64<<10), first, f.now()
	for ready := f.now(); ; ready = f.now() {
		q := request{due: ready}
		if due != nil {
			var more bool
			if q.due, more = <-due; !more {
				return
			}
		} else if ready >= f.to || ctx.Err() != nil || f.allow(1) == 0 {
			return
		}
		q.sent = f.now()
		if due == nil {
			q.due = q.sent
		}
		m, err := f.o.connect(ctx, f.d, f.o.Seed+f.count.Add(1), false)
		if err != nil {
			f.failed(q, ready, err, ctx)
			if f.tickets != nil && f.now()-reached > int64(f.o.Wait) {
				err = f.o.goneFor(err)
				f.gone.CompareAndSwap(nil, &err)
				cancel()
				return
			}
			time.Sleep(pause) // do not ask a refusing server in a tight loop
			pause = min(2*pause, most)
			continue
		}
		pause, reached = first, f.now()
		_ = m.conn.SetDeadline(time.Now().Add(f.o.Timeout))
		stop := context.AfterFunc(ctx, func() { _ = m.conn.SetDeadline(time.Unix(1, 0)) })
		a, sent, received, err := exchange(m, buf)
		now := f.now()
		stop()
		_ = m.conn.Close()
		f.carried(sent, received, now)
		if err != nil {
			f.failed(q, ready, err, ctx)
			continue
		}
		f.done(q, ready, now, m, a)
	}
}

// carried counts the bytes of a request and its answer, whatever the outcome.
func (f *fresh) carried(sent, received int, now int64) {
	t := f.tally.Lock()
	defer f.tally.Unlock()
	if now >= f.from && now < f.to {
		t.sent += uint64(sent)
		t.received += uint64(received)
	}
}

// done counts an answer.
func (f *fresh) done(q request, ready, now int64, m *made, a Answer) {
	t := f.tally.Lock()
	defer f.tally.Unlock()
	open := f.o.Rate > 0
	if open {
		t.sending(q, ready)
	}
	if a.Wrong != "" {
		t.fail(q, now, open, fault{a.Wrong, a.Said}, t.times)
	} else {
		t.answer(q, now, open, t.times)
	}
	if now < f.from || now >= f.to {
		return
	}
	t.connected(m)
	if m.handshake > 0 {
		t.handshakes++
		if m.resumed {
			t.resumed++
		}
	}
}

// failed counts a failed request.
func (f *fresh) failed(q request, ready int64, err error, ctx context.Context) {
	t := f.tally.Lock()
	defer f.tally.Unlock()
	now, open := f.now(), f.o.Rate > 0
	if ctx.Err() != nil { // we ended it
		if open {
			t.unanswered(q, now, t.times)
		}
		return
	}
	if open {
		t.sending(q, ready)
	}
	t.fail(q, now, open, err, t.times)
}
