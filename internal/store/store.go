package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/repair"
	"github.com/teescope/teescope/internal/store/space"
)

// Store is an open store. All methods may be called from several goroutines.
type Store struct {
	opts    Options
	log     *slog.Logger
	lock    *disk.File
	place   place
	reserve space.Reserve
	folder  repair.Folder
	reg     *prometheus.Registry // of what outlives a database: engine, scrapes, rules
	engine  *Engine
	pages   *Engine // of the API and of pages: their slow calls never delay rules
	scrape  *scraper
	rules   *recorder
	local   *local
	started time.Time
	tally

	db atomic.Pointer[database] // nil while none is open

	// commits serialises the writes to the log, so none follows a failed one.
	commits locked.Value[commits]
	mending locked.Value[mending]

	walErrors, checkpointErrors, cutBytes atomic.Uint64
	bytes                                 atomic.Int64
	unclean                               bool

	// losses are the damaged parts, by name.
	losses locked.Value[[]repair.Loss]
	skips  locked.Value[map[string]*skipped] // what queries left out, by block

	trouble troubles
	stop    context.CancelFunc
	done    sync.WaitGroup
	closed  sync.Once
}

// Open locks o.Dir, repairs and replays its contents and starts the recording rules. ctx bounds the life of
// background work; Close must be called anyway.
func Open(ctx context.Context, o Options) (*Store, error) {
	def := DefaultOptions()
	if o.block == 0 {
		o.block = def.block
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.boot == nil {
		o.boot = kernelBoot
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(atLeastWarn{o.Logger.Handler()})
	if err := checkFormat(o.Dir, o.Logger); err != nil {
		return nil, err
	}
	lock, unclean, err := takeLock(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts: o, log: o.Logger, lock: lock, unclean: unclean, started: o.Now(),
		reserve: space.Reserve{Path: filepath.Join(o.Dir, "reserve"), Size: o.Reserve},
		reg:     prometheus.NewRegistry(),
	}
	s.opts.blockQuerier, s.opts.blockChunkQuerier = s.blockQuerier, s.blockChunkQuerier
	s.folder = s.newFolder()
	s.local, s.now = newLocal(o), o.Now
	s.send = newSender(o, o.Dir, s.log, func() *scrape.Manager { return s.scrape.Manager })
	s.readQuarantine()
	db, err := s.openFiles()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.db.Store(db)
	if err := s.reserve.Allocate(o.MinFree); err != nil {
		s.log.Warn("hold no reserve", "err", err)
	}
	if o.Query.Interval == 0 {
		o.Query.Interval = o.Interval
	}
	own := o.Query
	own.Memory = nil // what rules ask for is known
	s.engine = NewEngine(own, s.reg, o.Logger)
	s.pages = NewEngine(o.Query.ofPages(), nil, nil) // it would log a faulty query with its stack, of which anybody can send many
	ctx, s.stop = context.WithCancel(ctx)
	if s.scrape, err = newScraper(ctx, s.reg, s.log, door{s}, s.room); err != nil {
		s.stop()
		return nil, errors.Join(err, db.close(), lock.Close())
	}
	if s.rules, err = newRecorder(ctx, s); err != nil {
		s.stop()
		s.scrape.close()
		return nil, errors.Join(err, db.close(), lock.Close())
	}
	s.done.Go(func() { s.keepUp(ctx) })
	s.done.Go(func() { s.giveBack(ctx) })
	return s, nil
}

// openFiles opens the database without its damaged parts. It gives the reserve back first if the replay might need
// it.
func (s *Store) openFiles() (*database, error) {
	need, err := s.replayNeeds()
	if err != nil {
		return nil, err
	}
	if n, err := space.Free(s.opts.Dir); err != nil {
		return nil, err
	} else if n < need {
		if err := s.reserve.Release(); err != nil {
			return nil, err
		}
		if n, err = space.Free(s.opts.Dir); err != nil {
			return nil, err
		} else if n < need {
			return nil, fmt.Errorf("disk of %s is full: %s free, %s needed to start: free some space: %w",
				s.opts.Dir, space.Text(n), space.Text(need), space.ErrNoSpace)
		}
	}
	db, err := s.openSound()
	if err != nil {
		return nil, err
	}
	if err := s.place.note(s.opts.Dir, filepath.Join(s.opts.Dir, repair.LogName)); err != nil {
		return nil, errors.Join(err, db.close())
	}
	db.SetWriteNotified(s.send)
	return db, nil
}

// replayNeeds returns the space for the chunks that a replay of the log writes: at most the size of the log, plus the
// needs of opening.
func (s *Store) replayNeeds() (int64, error) {
	n, err := space.SizeOf(filepath.Join(s.opts.Dir, "wal"), "")
	return n/2 + 2<<20, err
}

// lease returns the open database, to be given back with unlease.
func (s *Store) lease() (*database, error) {
	if db := s.db.Load(); db != nil && db.lease() {
		return db, nil
	}
	return nil, tsdb.ErrNotReady
}

// leaseToWrite is lease for a new transaction. It fails while the log is torn, the disk nearly full, or the data folder gone.
func (s *Store) leaseToWrite() (*database, error) {
	if err := s.inPlace(); err != nil {
		return nil, err
	}
	n, err := space.Free(s.opts.Dir)
	if err == nil && n < s.opts.MinFree {
		err = fmt.Errorf("%w: %s left on the disk of %s; samples are refused until there is more: free some space", space.ErrNoSpace, space.Text(n), s.opts.Dir)
		s.trouble.set("space", err)
		return nil, err
	}
	s.trouble.set("space", nil)
	c := s.commits.Lock()
	defer s.commits.Unlock()
	db, err := s.lease()
	if err == nil && c.torn == db {
		db.unlease()
		return nil, errTorn
	}
	return db, err
}

// inPlace returns an error while the data folder is not the one that was opened.
func (s *Store) inPlace() error {
	err := s.place.check()
	s.trouble.set("folder", err)
	return err
}

// commit writes a transaction to the log. After a failure nothing more is written to this database.
func (s *Store) commit(db *database, a storage.Appender) error {
	c := s.commits.Lock()
	defer s.commits.Unlock()
	if c.torn == db {
		return errors.Join(errTorn, a.Rollback())
	}
	if err := a.Commit(); err != nil {
		c.tear(s, db, err)
		return err
	}
	return nil
}

// rollback undoes a transaction. It also writes the series created by it to the log.
func (s *Store) rollback(db *database, a storage.Appender) error {
	c := s.commits.Lock()
	defer s.commits.Unlock()
	err := a.Rollback()
	if err != nil {
		c.tear(s, db, err)
	}
	return err
}

// commits records their outcome: torn is the database whose log is damaged after its last complete record.
type commits struct{ torn *database }

// tear marks a database as unfit for further writes.
func (c *commits) tear(s *Store, db *database, err error) {
	if c.torn != db {
		c.torn = db
		s.walErrors.Add(1)
		s.log.Warn("write to the log failed, it is put in order", "err", err)
	}
	s.trouble.set("write", fmt.Errorf("a write to the log in %s failed: %w; samples are refused until it is in order", s.opts.Dir, err))
}

// isTorn reports whether the open database accepts no more samples.
func (s *Store) isTorn() bool {
	c := s.commits.Lock()
	defer s.commits.Unlock()
	return c.torn != nil && c.torn == s.db.Load()
}

// mending is locked during the repair of the log and while the store is closed.
type mending struct {
	over bool // the store is closed
}

// putInOrder repairs the log after a failed write and reopens the database. Until the disk has space for that, the
// old one keeps answering queries.
func (s *Store) putInOrder() error {
	m := s.mending.Lock()
	defer s.mending.Unlock()
	if m.over {
		return errClosed
	}
	if err := s.inPlace(); err != nil {
		return err // nothing is opened in a folder that is not locked
	}
	if s.db.Load() != nil && !s.isTorn() {
		return nil
	}
	need, err := s.replayNeeds()
	if err != nil {
		return err
	}
	return s.reopen(need, nil, nil)
}

// reopen closes the database and opens it again, if the disk has so much space. Before and after the closing it calls
// two functions, which may be nil; nobody else has the database then. Mending is locked.
func (s *Store) reopen(need int64, open func(*database) error, closed func() error) error {
	if err := s.reserve.Release(); err != nil {
		return err
	}
	if n, err := space.Free(s.opts.Dir); err != nil {
		return err
	} else if n < max(need, s.opts.MinFree) {
		return fmt.Errorf("%w: %s left", space.ErrNoSpace, space.Text(n))
	}
	var failed error
	before := lastSegment(s.opts.Dir)
	if db := s.db.Load(); db != nil {
		s.db.Store(nil)
		db.retire()
		if open != nil {
			failed = open(db)
		}
		if err := db.close(); err != nil {
			s.log.Warn("close the database to open it again", "err", err)
		}
	}
	if failed == nil && closed != nil {
		failed = closed()
	}
	next, err := s.openFiles()
	if err != nil {
		s.trouble.set("open", fmt.Errorf("the store could not be opened again: %w", err))
		return errors.Join(failed, err)
	}
	s.trouble.set("open", nil)
	s.trouble.set("write", nil)
	s.commits.Lock().torn = nil
	s.commits.Unlock()
	if lastSegment(s.opts.Dir) <= before { // each opening continues the log with a new segment
		s.send.restart()
	}
	s.db.Store(next)
	return failed
}

// keepUp does the periodic work.
func (s *Store) keepUp(ctx context.Context) {
	every := time.NewTicker(s.opts.SyncInterval)
	defer every.Stop()
	var minute time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			if err := s.putInOrder(); err != nil {
				continue
			}
			s.trouble.set("sync", syncLog(s.opts.Dir))
			if now.Sub(minute) >= time.Minute {
				minute = now
				s.eachMinute()
			}
		}
	}
}

func (s *Store) eachMinute() {
	db, err := s.lease()
	if err != nil {
		return
	}
	defer db.unlease()
	if n, err := space.Free(s.opts.Dir); err == nil && n >= s.opts.MinFree {
		if err := db.writeHeadChunks(); err != nil {
			s.commits.Lock().tear(s, db, err)
			s.commits.Unlock()
			return
		}
	}
	if err := s.reserve.Allocate(2 * s.opts.MinFree); err != nil {
		s.log.Warn("hold no reserve", "err", err)
	}
	if n, err := space.SizeOf(s.opts.Dir, s.reserve.Path); err == nil {
		s.bytes.Store(n)
	}
	s.readQuarantine()
	s.watchCheckpoints(db)
}

// watchCheckpoints looks for a log that the database can no longer shorten because an old segment is damaged: it
// would grow until the disk is full. Memory holds all of the log, so a block is cut from it; then the damaged segment
// can go.
func (s *Store) watchCheckpoints(db *database) {
	n := uint64(counter(db.reg, "prometheus_tsdb_checkpoint_creations_failed_total"))
	if n == 0 {
		return
	}
	s.checkpointErrors.Add(1)
	c := s.commits.Lock() // nothing may be acknowledged that the block lacks
	defer s.commits.Unlock()
	if err := db.cutHead(math.MinInt64); err != nil {
		s.log.Warn("the log cannot be shortened and no block cut from memory, trying again", "err", err)
		return
	}
	c.tear(s, db, errors.New("the log could not be shortened"))
}

// Close writes pending data and releases the directory. Later calls do nothing.
func (s *Store) Close() (err error) {
	s.closed.Do(func() {
		s.stop()
		s.rules.close()
		s.scrape.close()
		s.done.Wait()
		err = s.send.close()
		held := s.mending.Lock()
		defer s.mending.Unlock()
		held.over = true
		db := s.db.Swap(nil)
		if db != nil {
			db.retire()
			if n, ferr := space.Free(s.opts.Dir); ferr == nil && n < s.opts.MinFree {
				err = errors.Join(err, s.reserve.Release())
			}
			err = errors.Join(err, db.close())
		}
		err = errors.Join(err, s.engine.Close(), s.pages.Close())
		if err == nil {
			err = s.lock.Truncate(0)
		}
		err = errors.Join(err, s.lock.Close())
	})
	return err
}

// Err returns the current trouble: samples are refused, or data was damaged at start.
func (s *Store) Err() error { return s.trouble.err() }

// Refusing returns why the store takes no samples now: its folder is gone, its disk is full, or a write failed. It is nil while it
// takes them, also where it refuses single ones.
func (s *Store) Refusing() error { return s.trouble.refusing() }

// Query evaluates expr at a point in time; see Eval for what it returns.
func (s *Store) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	return Eval(ctx, s.engine, door{s}, expr, at)
}

// QueryRange evaluates expr at every step from one time to another; see EvalRange
// for what it returns.
func (s *Store) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
	return EvalRange(ctx, s.engine, door{s}, expr, from, to, step)
}

// troubles are the current problems, by subject.
type troubles struct {
	mu sync.Mutex
	m  map[string]error
}

func (t *troubles) set(subject string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.m, subject)
		return
	}
	if t.m == nil {
		t.m = map[string]error{}
	}
	t.m[subject] = err
}

func (t *troubles) get(subject string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[subject]
}

// refusalSubjects are the troubles with which nothing is stored, in order of importance.
var refusalSubjects = []string{"folder", "space", "open", "write"}

// refusing returns the most important trouble with which nothing is stored.
func (t *troubles) refusing() error {
	for _, subject := range refusalSubjects {
		if err := t.get(subject); err != nil {
			return err
		}
	}
	return nil
}

// err returns the troubles in order of importance.
func (t *troubles) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, subject := range append(slices.Clone(refusalSubjects), "append", "sync", "damaged") {
		err := t.m[subject]
		if err == nil || subject == "append" && len(errs) > 0 { // a refused round only repeats the cause
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// atLeastWarn drops Prometheus' informational messages.
type atLeastWarn struct{ slog.Handler }

func (h atLeastWarn) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h atLeastWarn) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeastWarn{h.Handler.WithAttrs(a)}
}

func (h atLeastWarn) WithGroup(name string) slog.Handler {
	return atLeastWarn{h.Handler.WithGroup(name)}
}
