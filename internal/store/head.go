package store

// The open database and how it is shared. Queries and scrapes lease it, so it can be closed and replaced (after a
// repair, or when the clock went back) while they go on.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/store/repair"
	"github.com/teescope/teescope/internal/store/space"
)

// The reasons for refusing samples.
var (
	errTorn   = errors.New("log is being repaired after a failed write")
	errClosed = errors.New("store is closed")
)

// database is one opening of the files. The store may close it and open the
// next one while queries and scrapes go on, so they lease it.
type database struct {
	*tsdb.DB
	reg    *prometheus.Registry
	leases locked.Value[leases]
	idle   chan struct{} // closed once retired and the last lease is returned
	number uint64        // of the opening
}

// openings counts the databases of this process.
var openings atomic.Uint64

// leases counts the leases of a database.
type leases struct {
	open    int
	retired bool // no more are given
}

// lease keeps the database open until the matching unlease; false if it is already retired.
func (d *database) lease() bool {
	l := d.leases.Lock()
	defer d.leases.Unlock()
	if l.retired {
		return false
	}
	l.open++
	return true
}

func (d *database) unlease() {
	l := d.leases.Lock()
	defer d.leases.Unlock()
	l.open--
	if l.retired && l.open == 0 {
		close(d.idle)
	}
}

func (d *database) ordinal() uint64 { return d.number }

// retire refuses new leases and waits for those given.
func (d *database) retire() {
	l := d.leases.Lock()
	l.retired = true
	if l.open == 0 {
		close(d.idle)
	}
	d.leases.Unlock()
	<-d.idle
}

// openDatabase replays the log. It panics in its own goroutine if the disk fills up during the replay, so the caller
// must ensure that there is space.
func openDatabase(o Options) (_ *database, err error) {
	defer repair.RecoverError("open database", &err)
	to := tsdb.DefaultOptions()
	to.MinBlockDuration = o.block.Milliseconds()
	to.MaxBlockDuration = max(o.block, min(o.Retention/10, 31*24*time.Hour)).Milliseconds()
	to.NoLockfile = true // the store holds the lock across openings
	to.WALSegmentSize = walSegment
	to.WALCompression = compression.Snappy
	to.StripeSize = stripes
	to.HeadChunksWriteBufferSize = headWriteBuffer
	// The stock loop panics when it cannot write head chunks; keepUp writes them instead and checks the space first.
	to.BlockReloadInterval = math.MaxInt64
	to.BlockQuerierFunc, to.BlockChunkQuerierFunc = o.blockQuerier, o.blockChunkQuerier
	if o.chunkFile > 0 {
		to.MaxBlockChunkSegmentSize = o.chunkFile
	}
	d := &database{reg: prometheus.NewRegistry(), idle: make(chan struct{}), number: openings.Add(1)}
	to.NewCompactorFunc = newCompactor
	to.BlocksToDelete = func(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
		var head int64
		if d.DB != nil { // not while it opens
			head = d.Head().Size()
		}
		return o.outdated(blocks, time.Duration(to.MaxBlockDuration)*time.Millisecond, head)
	}
	db, err := tsdb.Open(o.Dir, o.Logger, d.reg, to, nil)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d.DB = db
	return d, nil
}

const (
	// walSegment is the unit in which old log is dropped. The stock 128 MiB
	// would keep a day of a small host's log.
	walSegment = 16 << 20
	// stripes of the series map: the stock 16,384 cost 8 MiB empty.
	stripes = 512
	// headWriteBuffer is the memory for head chunks on their way to the disk.
	headWriteBuffer = 256 << 10
)

// close closes the database. On a full disk the stock code panics while it writes the last head chunks, which the log
// holds too.
func (d *database) close() (err error) {
	defer repair.RecoverError("close database", &err)
	return d.Close()
}

// writeHeadChunks moves full chunks from memory to files. A panic leaves the
// database unfit for further writes.
func (d *database) writeHeadChunks() (err error) {
	defer repair.RecoverError("write head chunks", &err)
	d.ForceHeadMMap()
	return nil
}

// cutHead writes all of memory from a time on to a block, so the log is no longer needed.
func (d *database) cutHead(from int64) (err error) {
	defer repair.RecoverError("cut head", &err)
	h := d.Head()
	mint, maxt := max(h.MinTime(), from), h.MaxTime()
	if h.NumSeries() == 0 || mint > maxt {
		return nil
	}
	err = d.CompactHead(tsdb.NewRangeHead(h, mint, maxt))
	for _, b := range d.Blocks() {
		if b.MaxTime() > maxt { // written; only shortening the log failed
			return nil
		}
	}
	return err
}

// door is the database as the engine, the API, the rules and the scrapes see it: it leases the one that is open.
type door struct{ s *Store }

var (
	_ storage.SampleAndChunkQueryable = door{}
	_ storage.ExemplarQueryable       = door{}
	_ storage.Appendable              = door{}
)

// Querier opens a view of a span of time in milliseconds.
func (d door) Querier(mint, maxt int64) (storage.Querier, error) {
	db, err := d.s.lease()
	if err != nil {
		return nil, err
	}
	q, err := db.Querier(mint, maxt)
	if err != nil {
		db.unlease()
		return nil, err
	}
	return &leasedQuerier{Querier: q, end: sync.OnceFunc(db.unlease)}, nil
}

// ChunkQuerier is Querier for remote read.
func (d door) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	db, err := d.s.lease()
	if err != nil {
		return nil, err
	}
	q, err := db.ChunkQuerier(mint, maxt)
	if err != nil {
		db.unlease()
		return nil, err
	}
	return &leasedChunkQuerier{ChunkQuerier: q, end: sync.OnceFunc(db.unlease)}, nil
}

// ExemplarQuerier returns no exemplars; they are not stored.
func (d door) ExemplarQuerier(ctx context.Context) (storage.ExemplarQuerier, error) {
	db, err := d.s.lease()
	if err != nil {
		return nil, err
	}
	defer db.unlease()
	return db.ExemplarQuerier(ctx)
}

type leasedQuerier struct {
	storage.Querier
	end func()
}

func (q *leasedQuerier) Close() error {
	defer q.end()
	return q.Querier.Close()
}

type leasedChunkQuerier struct {
	storage.ChunkQuerier
	end func()
}

func (q *leasedChunkQuerier) Close() error {
	defer q.end()
	return q.ChunkQuerier.Close()
}

// Appender starts a transaction of scraped or recorded samples.
func (d door) Appender(ctx context.Context) storage.Appender {
	return appenderOf(ctx, d.s, &d.s.tally)
}

// tally is what all writers of a store or a queue count together.
type tally struct {
	appended, lost atomic.Uint64
	refusals       refusals
	send           *sender
	now            func() time.Time
}

// appenderOf starts a transaction of scraped or recorded samples.
func appenderOf(ctx context.Context, w writer, t *tally) storage.Appender {
	db, err := w.begin()
	if err != nil {
		return &refused{tally: t, err: err}
	}
	return &appender{Appender: db.Appender(ctx), tally: t, w: w, db: db}
}

// appender commits through the door of a store or a queue and counts the samples lost there. Its references name the database that
// gave them: scrapes keep them across the openings, and in a database with a new log the same number is another series.
type appender struct {
	storage.Appender
	*tally
	w       writer
	db      opening
	n       int
	last    int64 // time of the last sample
	refused [len(reasons)]int
}

const refBits = 44 // of a database's own references; above them is the number of its opening

// ours returns the database's own reference, 0 if another one gave it.
func (a *appender) ours(ref storage.SeriesRef) storage.SeriesRef {
	if ref>>refBits != storage.SeriesRef(a.db.ordinal())<<refBits>>refBits {
		return 0
	}
	return ref & (1<<refBits - 1)
}

// theirs returns the reference for callers. A sample that was refused is counted.
func (a *appender) theirs(ref storage.SeriesRef, err error) (storage.SeriesRef, error) {
	if err != nil {
		a.refused[reasonOf(err)]++
		return 0, err
	}
	a.n++
	return a.name(ref), nil
}

func (a *appender) name(ref storage.SeriesRef) storage.SeriesRef {
	return ref | storage.SeriesRef(a.db.ordinal())<<refBits
}

// early refuses a sample from the future: one would make the database refuse all others.
func (a *appender) early(t int64) error {
	if t > a.now().Add(futureLimit).UnixMilli() {
		return storage.ErrOutOfBounds
	}
	return nil
}

func (a *appender) Append(ref storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	if err := a.early(t); err != nil {
		return a.theirs(0, err)
	}
	a.last = max(a.last, t)
	return a.theirs(a.Appender.Append(a.ours(ref), l, t, v))
}

// hasSeries reports whether a series is in memory.
func (a *appender) hasSeries(l labels.Labels) bool {
	g, ok := a.Appender.(storage.GetRef)
	if !ok {
		return false
	}
	ref, _ := g.GetRef(l, l.Hash())
	return ref != 0
}

// room returns why scrapes get no new series, nil while there is room.
func (s *Store) room() error {
	if s.opts.Query.Memory == nil {
		return nil
	}
	db, err := s.lease()
	if err != nil {
		return nil // the sample itself is refused
	}
	defer db.unlease()
	if n, most := db.Head().NumSeries(), s.opts.Query.Memory.Series; n >= uint64(most) {
		return fmt.Errorf("the store has %d series in memory, the most that its memory allows (%s: %s): this target is not stored; drop series or targets in the configuration, or raise the limit", n, s.opts.Query.Memory.From, space.Text(s.opts.Query.Memory.Limit))
	}
	return nil
}

func (a *appender) AppendHistogram(ref storage.SeriesRef, l labels.Labels, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram) (storage.SeriesRef, error) {
	if err := a.early(t); err != nil {
		return a.theirs(0, err)
	}
	a.last = max(a.last, t)
	return a.theirs(a.Appender.AppendHistogram(a.ours(ref), l, t, h, fh))
}

func (a *appender) AppendExemplar(ref storage.SeriesRef, l labels.Labels, e exemplar.Exemplar) (storage.SeriesRef, error) {
	ref, err := a.Appender.AppendExemplar(a.ours(ref), l, e)
	return a.name(ref), err
}

func (a *appender) AppendSTZeroSample(ref storage.SeriesRef, l labels.Labels, t, st int64) (storage.SeriesRef, error) {
	ref, err := a.Appender.AppendSTZeroSample(a.ours(ref), l, t, st)
	return a.name(ref), err
}

func (a *appender) AppendHistogramSTZeroSample(ref storage.SeriesRef, l labels.Labels, t, st int64, h *histogram.Histogram, fh *histogram.FloatHistogram) (storage.SeriesRef, error) {
	ref, err := a.Appender.AppendHistogramSTZeroSample(a.ours(ref), l, t, st, h, fh)
	return a.name(ref), err
}

func (a *appender) UpdateMetadata(ref storage.SeriesRef, l labels.Labels, m metadata.Metadata) (storage.SeriesRef, error) {
	ref, err := a.Appender.UpdateMetadata(a.ours(ref), l, m)
	return a.name(ref), err
}

func (a *appender) Commit() error {
	defer a.db.unlease()
	err := a.w.finish(a.db, a.Appender)
	if err != nil {
		a.lost.Add(uint64(a.n))
		return err
	}
	a.appended.Add(uint64(a.n))
	a.send.wrote(a.n, a.last)
	for _, n := range a.refused {
		a.lost.Add(uint64(n))
	}
	a.refusals.add(a.refused)
	return nil
}

func (a *appender) Rollback() error {
	defer a.db.unlease()
	return a.w.undo(a.db, a.Appender)
}

// refused is the appender of a store that now accepts no samples: it counts them. Only the commit fails, because a scrape stops at its
// first sample with an error, and the others would not be counted.
type refused struct {
	*tally
	err error
	n   uint64
}

func (r *refused) Append(storage.SeriesRef, labels.Labels, int64, float64) (storage.SeriesRef, error) {
	r.n++
	return 0, nil
}

func (r *refused) AppendHistogram(storage.SeriesRef, labels.Labels, int64, *histogram.Histogram, *histogram.FloatHistogram) (storage.SeriesRef, error) {
	r.n++
	return 0, nil
}

func (r *refused) AppendExemplar(storage.SeriesRef, labels.Labels, exemplar.Exemplar) (storage.SeriesRef, error) {
	return 0, nil
}

func (r *refused) AppendSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64) (storage.SeriesRef, error) {
	return 0, r.err
}

func (r *refused) AppendHistogramSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64, *histogram.Histogram, *histogram.FloatHistogram) (storage.SeriesRef, error) {
	return 0, r.err
}

func (r *refused) UpdateMetadata(storage.SeriesRef, labels.Labels, metadata.Metadata) (storage.SeriesRef, error) {
	return 0, nil
}

func (r *refused) SetOptions(*storage.AppendOptions) {}

func (r *refused) Commit() error {
	r.lost.Add(r.n)
	return r.err
}

// Rollback counts nothing: who gives up a transaction has its own reason, and its samples were not to be stored.
func (r *refused) Rollback() error { return nil }
