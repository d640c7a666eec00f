//go:build linux

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/locked"
)

// connection is a connection in an event loop.
type connection struct {
	*made
	index    int
	sent     uint64 // requests
	under    []request
	in, out  []byte
	writable bool // the poller was asked for writability
	last     bool // the server takes no more requests
	dead     bool
	times    *hdrhistogram.Histogram
}

// worker is one thread of the load with its share of the connections.
type worker struct {
	o         *Options
	d         Dialect
	ctx       context.Context
	base      time.Time
	rec       *record
	lines     []*connection
	sched     *schedule // nil in a closed loop
	free      ring      // slots for requests of an open loop, the longest free first
	since     int64     // when free was last empty
	poll      poller    // is woken when lines have arrived
	buf       []byte
	stop      int64 // when a stretch ends, even with requests in flight
	redials   sync.WaitGroup
	redialled locked.Value[redialled]
}

// redialled holds the lines that replace dead ones, and the failed attempts.
type redialled struct {
	arrived []*connection
	lost    failures // connections that could not be replaced, while measuring
	gone    error    // why the load cannot end by its number of requests
}

// ring is a queue of lines; it never holds more than there are slots.
type ring struct {
	slots      []*connection
	head, size int
}

func (r *ring) push(l *connection) {
	r.slots[(r.head+r.size)%len(r.slots)] = l
	r.size++
}

func (r *ring) pop() *connection {
	l := r.slots[r.head]
	r.slots[r.head] = nil
	r.head = (r.head + 1) % len(r.slots)
	r.size--
	return l
}

// wakeIndex is the index of the poller's own event.
const wakeIndex = -1

func (w *worker) open() bool { return w.sched != nil }

func (w *worker) now() int64 { return int64(time.Since(w.base)) }

// prepare makes the poller; close undoes it.
func (w *worker) prepare() (err error) {
	if w.poll, err = w.o.network().newPoller(); err != nil {
		return err
	}
	w.buf = make([]byte, 64<<10)
	for _, l := range w.lines {
		if err := w.enter(l); err != nil {
			w.close()
			return err
		}
	}
	return nil
}

func (w *worker) close() {
	w.redials.Wait()
	for _, l := range w.lines {
		if l != nil && !l.dead {
			_ = l.conn.Close()
		}
	}
	w.poll.close()
}

// begin prepares the i-th worker for a stretch of the load. Requests still unanswered
// from the last one are given up.
func (w *worker) begin(base time.Time, s stretch, i int) {
	for _, l := range w.lines {
		if !l.dead && len(l.under) > 0 {
			l.dead, l.under = true, nil
			_ = l.conn.Close()
		}
	}
	w.base = base
	w.rec.measure(s)
	w.stop = s.to + int64(w.o.patience(s))
	w.free = ring{slots: make([]*connection, len(w.lines)*w.o.Pipeline)}
	if w.o.Rate > 0 {
		w.sched = newSchedule(w.o.Rate, w.o.Poisson, w.o.Seed, i, w.o.Threads)
	}
}

// run is the event loop, from base to the end of the measured time and until its
// requests are answered, for at most its patience longer.
func (w *worker) run() error {
	// The kernel rounds sleeps of a thread up by its slack, by default 50 microseconds.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)

	for _, l := range w.lines {
		if l.dead {
			w.replace(l)
			continue
		}
		w.start(l)
	}
	events := make([]unix.EpollEvent, 256)
	const tick = int64(100 * time.Millisecond)
	look := tick
	for {
		now := w.now()
		if now >= w.stop || (now >= w.rec.to || w.rec.spent()) && w.finished(now) {
			break
		}
		if now >= look {
			if w.ctx.Err() != nil {
				return w.ctx.Err()
			}
			w.expire(now)
			look = now + tick
		}
		wait := min(look, w.stop) - now
		if w.open() {
			w.send(now)
			if w.free.size > 0 && w.owing(now) {
				wait = min(wait, w.sched.due()-w.now())
			}
		}
		n, err := w.poll.wait(events, wait)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			switch {
			case e.Fd == wakeIndex:
				if err := w.admit(); err != nil {
					return err
				}
			case w.lines[e.Fd].dead: // an earlier event closed it
			default:
				w.event(w.lines[e.Fd], e.Events)
			}
		}
	}
	w.abandon()
	w.redials.Wait()
	_, err := w.join()
	return err
}

// Grace is the default of Options.Grace.
const Grace = 2 * time.Second

// patience is the time for requests in flight at the end of a stretch. Requests of the
// warm-up get the full answer timeout: a server continues a request after its
// connection is closed, and would do so in the measured time.
func (o *Options) patience(s stretch) time.Duration {
	if s.from == s.to {
		return o.Timeout
	}
	return cmp.Or(o.Grace, Grace)
}

// owing reports whether requests of an open loop were due that will still be sent.
// Otherwise a warm-up beyond the server's capacity would last as long as its patience,
// and then abandon the last requests sent.
func (w *worker) owing(now int64) bool {
	return w.open() && !w.rec.spent() && w.sched.due() < w.rec.to && now < w.rec.to+int64(cmp.Or(w.o.Grace, Grace))
}

// finished reports whether all due requests are answered.
func (w *worker) finished(now int64) bool {
	return !w.owing(now) && !slices.ContainsFunc(w.lines, func(l *connection) bool { return len(l.under) > 0 })
}

// abandon counts the due requests without an answer.
func (w *worker) abandon() {
	now := w.now()
	if !w.open() {
		return
	}
	for _, l := range w.lines {
		for _, q := range l.under {
			w.rec.unanswered(q, now, l.times)
		}
	}
	for ; w.rec.tickets == nil && w.sched.due() < w.rec.to; w.sched.advance() {
		w.rec.unanswered(request{due: w.sched.due()}, now, w.lines[0].times)
	}
}

// enter adds a line to the loop.
func (w *worker) enter(l *connection) error {
	l.polled.impatient()
	return w.poll.add(l.polled, l.index)
}

// start sends on a line, or frees its slots for due requests.
func (w *worker) start(l *connection) {
	if !w.open() {
		w.fill(l, w.o.Pipeline)
		return
	}
	for range w.o.Pipeline {
		w.release(l, w.now())
	}
}

// release frees a slot of a line for a request.
func (w *worker) release(l *connection, now int64) {
	if w.free.size == 0 {
		w.since = now
	}
	w.free.push(l)
}

// send sends due requests, as far as there are free slots.
func (w *worker) send(now int64) {
	for w.free.size > 0 && w.sched.due() <= now && w.owing(now) {
		l := w.free.pop()
		if l.dead || l.last {
			continue // its successor has its own slots
		}
		if w.rec.allow(1) == 0 {
			return
		}
		q := request{seq: l.sent, due: w.sched.due(), sent: w.now()}
		w.sched.advance()
		w.rec.sending(q, w.since)
		l.out = l.session.Request(l.out[:0])
		l.sent++
		l.under = append(l.under, q)
		w.write(l, q.sent)
	}
}

// fill sends n requests at once, unless the measured time is over.
func (w *worker) fill(l *connection, n int) {
	now := w.now()
	if n == 0 || l.last || now >= w.rec.to {
		return
	}
	if n = w.rec.allow(n); n == 0 {
		return
	}
	l.out = l.out[:0]
	for range n {
		l.out = l.session.Request(l.out)
		l.under = append(l.under, request{seq: l.sent, due: now, sent: now})
		l.sent++
	}
	w.write(l, now)
}

func (w *worker) write(l *connection, now int64) {
	if now >= w.rec.from && now < w.rec.to {
		w.rec.sent += uint64(len(l.out))
	}
	if _, err := l.conn.Write(l.out); err != nil {
		w.part(l, err)
		return
	}
	w.watch(l)
}

// part gives up a line that takes no more requests. What the server said before it hung
// up is read first: it answers earlier requests, or says why.
func (w *worker) part(l *connection, unsent error) {
	l.last = true
	for !l.dead {
		n, err := l.conn.Read(w.buf)
		now := w.now()
		if n > 0 {
			w.handleData(l, w.buf[:n], now)
		}
		if err != nil && !l.dead {
			w.dropLine(l, now, parting(unsent, err))
		}
	}
}

// watch requests an event for writability while data waits to be written.
func (w *worker) watch(l *connection) {
	if want := l.polled.pending(); want != l.writable {
		if err := w.poll.writable(l.polled, l.index, want); err != nil {
			w.dropLine(l, w.now(), err)
			return
		}
		l.writable = want
	}
}

// event handles what epoll reported about a line.
func (w *worker) event(l *connection, events uint32) {
	if events&unix.EPOLLOUT != 0 {
		if _, err := l.polled.flush(); err != nil {
			w.part(l, err)
			return
		}
		w.watch(l)
	}
	if events&^unix.EPOLLOUT == 0 || l.dead {
		return
	}
	for !l.dead {
		n, err := l.conn.Read(w.buf)
		now := w.now()
		if n > 0 {
			w.handleData(l, w.buf[:n], now)
		}
		switch {
		case l.dead:
			return
		case errors.Is(err, errAgain):
			return
		case errors.Is(err, io.EOF):
			w.handleEnd(l, now)
			return
		case err != nil:
			w.dropLine(l, now, err)
			return
		case n < len(w.buf) && w.o.TLS == nil: // TLS may have buffered more than the kernel knows
			return
		}
	}
}

// handleData handles answers, and sends the requests they make room for.
func (w *worker) handleData(l *connection, data []byte, now int64) {
	if now >= w.rec.from && now < w.rec.to {
		w.rec.received += uint64(len(data))
	}
	if len(l.in) > 0 {
		l.in = append(l.in, data...)
		data = l.in
	}
	answered, used := 0, 0
	for {
		n, a, err := l.session.Answer(data[used:])
		used += n
		if err == nil && a.Ended && !w.answer(l, a, now) {
			err = errUnasked
		}
		if err != nil {
			if len(l.under) == 0 {
				w.rec.breach(now, err)
			}
			w.dropLine(l, now, err)
			return
		}
		if a.Ended {
			answered++
			if a.Last {
				l.last = true
			}
		} else if n == 0 {
			break
		}
	}
	l.in = append(l.in[:0], data[used:]...)
	switch {
	case len(l.in) > MostBuffered:
		w.dropLine(l, now, errTooLong)
	case l.last && len(l.under) == 0:
		w.dropLine(l, now, nil)
	case w.open():
		for range answered {
			w.release(l, now)
		}
	default:
		w.fill(l, answered)
	}
}

var (
	errUnasked = errors.New("the server sent an answer without a request")
	errClosed  = fmt.Errorf("the server closed the connection: %w", io.EOF)
)

// answer finds the request of an answer; there is none if the server sent more than was
// requested.
func (w *worker) answer(l *connection, a Answer, now int64) bool {
	for i, q := range l.under { // nearly always the first
		if q.seq != a.Seq {
			continue
		}
		l.under = append(l.under[:i], l.under[i+1:]...)
		if a.Wrong != "" {
			w.rec.fail(q, now, w.open(), fault{a.Wrong, a.Said}, l.times)
		} else {
			w.rec.answer(q, now, w.open(), l.times)
		}
		return true
	}
	return false
}

// handleEnd handles the server's end of a connection.
func (w *worker) handleEnd(l *connection, now int64) {
	if a := l.session.LastAnswer(); a.Ended {
		w.answer(l, a, now)
	}
	w.dropLine(l, now, errClosed)
}

// dropLine gives up a line: its requests have failed, and another takes its place.
func (w *worker) dropLine(l *connection, now int64, err error) {
	l.dead = true
	_ = l.conn.Close() // which removes it from the epoll set
	for _, q := range l.under {
		w.rec.fail(q, now, w.open(), err, l.times)
	}
	l.under = nil
	w.replace(l)
}

// replace starts to make a dead line's successor.
func (w *worker) replace(l *connection) {
	if w.now() < w.rec.to && !w.rec.spent() {
		w.redials.Add(1)
		go w.redial(l)
	}
}

// redial makes a line's successor, retrying until the measured time is over.
func (w *worker) redial(l *connection) {
	defer w.redials.Done()
	const first, most = time.Millisecond, 100 * time.Millisecond
	began := w.now()
	for pause := first; w.now() < w.rec.to && !w.rec.spent() && w.ctx.Err() == nil; pause = min(2*pause, most) {
		m, err := w.o.connect(w.ctx, w.d, w.o.seed(l.index)+uint64(w.now()), true)
		r := w.redialled.Lock()
		if err == nil {
			r.arrived = append(r.arrived, &connection{made: m, index: l.index, times: l.times})
			w.redialled.Unlock()
			w.poll.wake()
			return
		}
		if now := w.now(); now >= w.rec.from && now < w.rec.to {
			r.lost.add(err)
		}
		if w.rec.tickets != nil && w.now()-began > int64(w.o.Wait) {
			r.gone = w.o.goneFor(err)
			w.redialled.Unlock()
			w.poll.wake()
			return
		}
		w.redialled.Unlock()
		time.Sleep(pause)
	}
}

// goneFor is the error of a server that takes no connection any more, where a number of requests would end the load.
func (o *Options) goneFor(err error) error {
	return fmt.Errorf("the server accepted no connection for %v, before the load had made its %d requests: %w", o.Wait, o.Requests, err)
}

// join puts the lines that have arrived in place of the dead ones.
func (w *worker) join() ([]*connection, error) {
	w.poll.awake()
	r := w.redialled.Lock()
	arrived, gone := r.arrived, r.gone
	r.arrived = nil
	w.redialled.Unlock()
	if gone != nil {
		return nil, gone
	}
	for _, l := range arrived {
		// Slots of the old line may still be in the ring: they go first.
		if w.open() {
			w.forget(w.lines[l.index])
		}
		w.lines[l.index] = l
		if err := w.enter(l); err != nil {
			return nil, err
		}
	}
	return arrived, nil
}

// admit starts sending on the lines that have arrived.
func (w *worker) admit() error {
	arrived, err := w.join()
	for _, l := range arrived {
		w.start(l)
	}
	return err
}

// forget removes a line's slots from the ring.
func (w *worker) forget(l *connection) {
	for range w.free.size {
		if x := w.free.pop(); x != l {
			w.free.push(x)
		}
	}
}

// expire gives up lines that were silent for too long.
func (w *worker) expire(now int64) {
	for _, l := range w.lines {
		if !l.dead && len(l.under) > 0 && now-l.under[0].sent > int64(w.o.Timeout) {
			w.dropLine(l, now, errTimeout)
		}
	}
}
