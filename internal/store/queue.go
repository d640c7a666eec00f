package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/agent"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/repair"
	"github.com/teescope/teescope/internal/store/space"
)

// Queue keeps samples only until they are sent: Prometheus' agent mode. It has no query. On disk is the log of the last
// hours, in the folder remote_write of Options.Dir, so the log of a store in the same folder stays as it is.
type Queue struct {
	opts   Options
	log    *slog.Logger
	lock   *disk.File
	place  place
	scrape *scraper
	local  *local
	stop   context.CancelFunc
	tally

	// use is held by transactions for reading, and for writing while the log is opened again.
	use  sync.RWMutex
	open *logOnly    // nil once the queue is closed
	gone bool        // it is closed, and opening the next one failed
	torn atomic.Bool // a write failed: what follows in that log may not be read

	walErrors atomic.Uint64
	trouble   troubles
	closed    sync.Once
}

// logOnly is one opening of the log.
type logOnly struct {
	*agent.DB
	use    *sync.RWMutex
	number uint64
}

func (l *logOnly) unlease() { l.use.RUnlock() }

func (l *logOnly) ordinal() uint64 { return l.number }

// queueName is the folder of the log of a Queue.
const queueName = "remote_write"

// ErrNoReceiver is the error of a configuration without remote_write, with which a queue would keep samples for nobody.
var ErrNoReceiver = errors.New("no remote_write in the configuration: without a local store, samples go only there; name a receiver (remote_write: [{url: ...}])")

// OpenQueue locks o.Dir, opens its log, and sends to the receivers of c. ctx bounds the life of background work; Close
// must be called anyway.
func OpenQueue(ctx context.Context, o Options, c *ScrapeConfig) (*Queue, error) {
	if c.Receivers() == 0 {
		return nil, ErrNoReceiver
	}
	o.flush = cmp.Or(o.flush, flushWithin)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(atLeastWarn{o.Logger.Handler()})
	if err := checkFormat(o.Dir, o.Logger); err != nil {
		return nil, err
	}
	lock, _, err := takeLock(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	q := &Queue{opts: o, log: o.Logger, lock: lock, local: newLocal(o)}
	q.now = o.Now
	q.send = newSender(o, q.dir(), q.log, func() *scrape.Manager { return q.scrape.Manager })
	if err := q.openLog(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ctx, q.stop = context.WithCancel(ctx)
	q.scrape, err = newScraper(ctx, prometheus.NewRegistry(), q.log, into{q}, nil)
	if err != nil {
		q.stop()
		return nil, errors.Join(err, q.open.Close(), lock.Close())
	}
	if err := q.ApplyConfig(c); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

func (q *Queue) dir() string { return filepath.Join(q.opts.Dir, queueName) }

// openLog opens the log, repaired to its last complete record. Samples of any time are taken, also after the clock went
// back: whether they are too old is for the receivers to say.
func (q *Queue) openLog() error {
	if err := disk.MkdirAll(q.dir(), 0o755); err != nil {
		return fmt.Errorf("make the folder of the queue: %w", err)
	}
	ao := agent.DefaultOptions()
	ao.WALSegmentSize = walSegment
	ao.WALCompression = compression.Snappy
	ao.StripeSize = stripes
	ao.NoLockfile = true // the queue holds the lock across openings
	ao.OutOfOrderTimeWindow = math.MaxInt64 / 4
	db, err := agent.Open(q.log, prometheus.NewRegistry(), q.send.begin(), q.dir(), ao)
	if err != nil {
		return fmt.Errorf("open the queue in %s: %w; delete that folder if it stays damaged: what is in it was not sent", q.dir(), err)
	}
	if err := q.place.note(q.opts.Dir, q.dir(), filepath.Join(q.dir(), repair.LogName)); err != nil {
		return errors.Join(err, db.Close())
	}
	db.SetWriteNotified(q.send)
	q.open = &logOnly{db, &q.use, openings.Add(1)}
	return nil
}

// ApplyConfig replaces receivers and targets; those that stay keep their state. A configuration without receivers is
// refused.
func (q *Queue) ApplyConfig(c *ScrapeConfig) error {
	if c.Receivers() == 0 {
		return ErrNoReceiver
	}
	if err := q.send.apply(c.config); err != nil {
		return err
	}
	return q.scrape.replaceTargets(c)
}

// begin begins a transaction. After a failed write it first opens the log again, which begins a new segment: readers do
// not get past a record that was not written to its end.
func (q *Queue) begin() (opening, error) {
	err := q.place.check()
	q.trouble.set("folder", err)
	if err != nil {
		return nil, err
	}
	n, err := space.Free(q.opts.Dir)
	if err == nil && n < q.opts.MinFree {
		err = fmt.Errorf("%w: %s left on the disk of %s; samples are refused until there is more: free some space", space.ErrNoSpace, space.Text(n), q.opts.Dir)
		q.trouble.set("space", err)
		return nil, err
	}
	q.trouble.set("space", nil)
	if q.torn.Load() {
		if err := q.putInOrder(); err != nil {
			return nil, err
		}
	}
	q.use.RLock()
	if q.open == nil || q.gone {
		q.use.RUnlock()
		return nil, errClosed
	}
	return q.open, nil
}

func (q *Queue) putInOrder() error {
	q.use.Lock()
	defer q.use.Unlock()
	if q.open == nil || !q.torn.Load() {
		return nil
	}
	if !q.gone {
		if err := q.open.Close(); err != nil {
			q.log.Warn("close the queue to open it again", "err", err)
		}
		q.gone = true
	}
	if err := q.openLog(); err != nil {
		q.trouble.set("open", err)
		return err
	}
	q.gone = false
	q.trouble.set("open", nil)
	q.trouble.set("write", nil)
	q.torn.Store(false)
	return nil
}

func (q *Queue) finish(_ opening, a storage.Appender) error { return q.note(a.Commit()) }

func (q *Queue) undo(_ opening, a storage.Appender) error { return q.note(a.Rollback()) }

// note marks the log as torn after a failed write.
func (q *Queue) note(err error) error {
	if err != nil && !q.torn.Swap(true) {
		q.walErrors.Add(1)
		q.trouble.set("write", fmt.Errorf("a write to the queue in %s failed: %w; it is opened again with the next samples", q.dir(), err))
	}
	return err
}

// Append queues one round of samples with the labels job and instance, as [Store.Append] stores one.
func (q *Queue) Append(t time.Time, samples []metric.Sample) error {
	start := time.Now()
	r := q.local.rounds.Lock()
	defer q.local.rounds.Unlock()
	at := t.UnixMilli()
	n, err := r.append(q, at, at, samples)
	var some *Refused
	if r.last = at; err != nil && !errors.As(err, &some) {
		r.last = 0
		q.local.target.Report(t, time.Since(start), err)
	} else {
		q.local.target.Report(t, time.Since(start), nil)
	}
	if some != nil {
		q.refusals.add(some.byReason)
	}
	q.appended.Add(uint64(n))
	q.lost.Add(uint64(valuesOf(samples) - n))
	q.send.wrote(n, at)
	q.trouble.set("append", err)
	return err
}

// Failure is [Store.Failure].
func (q *Queue) Failure(job, instance string) string { return q.scrape.failure(job, instance) }

// Err returns the current trouble: samples are refused.
func (q *Queue) Err() error { return q.trouble.err() }

// Refusing is [Store.Refusing].
func (q *Queue) Refusing() error { return q.trouble.refusing() }

// Collect emits those metrics of a store that a queue has, and the ones about its receivers.
func (q *Queue) Collect(emit func(metric.Sample)) {
	emit(metric.Sample{Desc: descAppended, Value: float64(q.appended.Load())})
	emit(metric.Sample{Desc: descLost, Value: float64(q.lost.Load())})
	q.refusals.collect(emit)
	emit(metric.Sample{Desc: descWALErrors, Value: float64(q.walErrors.Load())})
	if n, err := space.SizeOf(q.dir(), ""); err == nil {
		emit(metric.Sample{Desc: descBytes, Value: float64(n)})
	}
	q.send.collect(emit)
}

// Close sends what it can within seconds and releases the directory. Later calls do nothing.
func (q *Queue) Close() (err error) {
	q.closed.Do(func() {
		q.stop()
		q.scrape.close()
		q.use.Lock()
		defer q.use.Unlock()
		err = q.send.close()
		if !q.gone {
			err = errors.Join(err, q.open.Close())
		}
		q.open = nil
		if err == nil {
			err = q.lock.Truncate(0)
		}
		err = errors.Join(err, q.lock.Close())
	})
	return err
}

// into is the queue as scrapes see it.
type into struct{ q *Queue }

// Appender starts a transaction of scraped samples.
func (i into) Appender(ctx context.Context) storage.Appender {
	return appenderOf(ctx, i.q, &i.q.tally)
}

// Nothing takes the place of a store where an engine elsewhere has the samples. It only holds the lock of a folder.
type Nothing struct {
	lock  *disk.File
	place place
}

// OpenNothing locks o.Dir for what a monitor keeps besides samples.
func OpenNothing(o Options) (*Nothing, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	lock, _, err := takeLock(o.Dir, log)
	if err != nil {
		return nil, err
	}
	n := &Nothing{lock: lock}
	return n, n.place.note(o.Dir)
}

// Err returns an error that wraps ErrReplaced while the folder is not the one that was locked.
func (n *Nothing) Err() error { return n.place.check() }

// Refusing is Err: what is kept besides samples would be lost.
func (n *Nothing) Refusing() error { return n.Err() }

// Append drops a round.
func (*Nothing) Append(time.Time, []metric.Sample) error { return nil }

// ApplyConfig refuses what has no place without a store.
func (*Nothing) ApplyConfig(c *ScrapeConfig) error {
	switch {
	case len(c.Jobs()) > 0:
		return errors.New("scrape_configs: nothing is stored here, so nothing is scraped; let the engine scrape these targets, or add remote_write and --agent-mode")
	case c.Receivers() > 0:
		return errors.New("remote_write: nothing is stored here, so there is nothing to send; add --agent-mode")
	}
	return nil
}

// Collect emits nothing.
func (*Nothing) Collect(func(metric.Sample)) {}

// Failure knows of no scrape.
func (*Nothing) Failure(string, string) string { return "" }

// Close releases the folder.
func (n *Nothing) Close() error { return errors.Join(n.lock.Truncate(0), n.lock.Close()) }
