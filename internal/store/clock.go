package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/store/repair"
	"github.com/teescope/teescope/internal/store/space"
)

// A clock may be wrong and then be set right. The database takes no sample that is older than those it has: after a
// clock that was ahead it would take none until the clock gets there again, also after a restart. So when it refuses
// rounds for their time, what is later than the round is set aside, and recording goes on. If the clock was behind
// instead (a machine boots in 1970 until its time is synchronised), what was set aside comes back as soon as the clock
// jumps over it.

// futureMost is the number of such parts that are kept; a clock that goes back every minute must not fill the disk.
const futureMost = 16

// errWentBack means that the clock is so far behind the newest samples that rounds would be refused for a while.
var errWentBack = errors.New("the clock went back")

// futureLimit is how far ahead of the clock a sample of a scrape or a recording rule may be, as in Prometheus' scrapes.
const futureLimit = 10 * time.Minute

// rewind sets aside all samples of a round's time and later, in Unix milliseconds, and opens the database without them.
// Blocks and head are split there; the log is no longer needed then.
func (s *Store) rewind(round int64) error {
	m := s.mending.Lock()
	defer s.mending.Unlock()
	if m.over {
		return errClosed
	}
	db := s.db.Load()
	if db == nil {
		return tsdb.ErrNotReady
	}
	newest, t := newestOf(db), round-1
	need, err := s.splitNeeds(db, t)
	if err != nil {
		return err
	}
	now := time.UnixMilli(round)
	part := filepath.Join(s.opts.Dir, repair.QuarantineName, s.folder.FreeName("future"+now.UTC().Format(repair.PartTime)))
	l := repair.Loss{Part: filepath.Base(part), Kind: repair.Future, From: now, To: time.UnixMilli(newest), Moved: now, Behind: now.Before(s.opts.Built),
		Reason: fmt.Sprintf("the clock went back from %s to %s", now.Add(time.Duration(newest-round)*time.Millisecond).UTC().Format(time.DateTime), now.UTC().Format(time.DateTime+" UTC"))}
	l.Boot, l.Uptime = s.opts.boot()
	l.Lost = "samples " + repair.SpanText(l.From, l.To)
	var whole, replaced, unreadable []string
	err = s.reopen(need, func(db *database) error {
		db.DisableCompactions() // and wait for the running one
		if err := errors.Join(disk.MkdirAll(part, 0o755), s.folder.WriteNote(l, "")); err != nil {
			return err
		}
		for _, b := range db.Blocks() {
			switch m := b.Meta(); {
			case m.MaxTime-1 <= t:
			case m.MinTime > t:
				whole = append(whole, b.Dir())
			default:
				if err := s.split(b, m.MinTime, m.MaxTime-1, t, part); repair.FromMachine(err) {
					return err
				} else if err != nil {
					unreadable = append(unreadable, b.Dir())
					continue
				}
				replaced = append(replaced, b.Dir())
			}
		}
		return s.splitHead(db, t, part)
	}, func() error {
		for _, dir := range unreadable {
			if _, err := s.folder.SetAsideBlock(filepath.Base(dir), "it cannot be split where the clock went back"); err != nil {
				return err
			}
		}
		for _, dir := range whole {
			if err := disk.Rename(dir, filepath.Join(part, filepath.Base(dir))); err != nil {
				return fmt.Errorf("set aside samples from the future: %w: make the folder %s writable", err, part)
			}
		}
		for _, dir := range replaced {
			by := slices.Concat(repair.BlocksIn(s.opts.Dir), repair.BlocksIn(part))
			if err := s.folder.Discard(dir, slices.DeleteFunc(by, func(b string) bool { return slices.Contains(replaced, b) })); err != nil {
				return err
			}
		}
		return s.folder.DropLog(slices.Concat(repair.BlocksIn(s.opts.Dir), repair.BlocksIn(part)))
	})
	if err != nil {
		err = fmt.Errorf("set aside samples from the future: %w", err)
	}
	if len(repair.BlocksIn(part)) == 0 { // there are none yet, or only the bounds of blocks were in the way
		return errors.Join(err, disk.RemoveAll(part), disk.RemoveAll(part+".txt"))
	}
	s.measure(&l, part)
	if err := s.folder.WriteNote(l, ""); err != nil {
		s.log.Warn("write a note in the quarantine", "err", err)
	}
	s.recordLoss(l)
	s.forgetFuture()
	return err
}

// newestOf returns the time of a database's last sample, or the end of its last block.
func newestOf(db *database) int64 {
	newest := int64(math.MinInt64)
	if h := db.Head(); h.NumSeries() > 0 {
		newest = h.MaxTime()
	}
	for _, b := range db.Blocks() {
		newest = max(newest, b.Meta().MaxTime-1)
	}
	return newest
}

// splitNeeds returns the space for splitting a database at a time.
func (s *Store) splitNeeds(db *database, t int64) (int64, error) {
	n, err := s.replayNeeds()
	n += 2 * repair.ChunkFile
	for _, b := range db.Blocks() {
		if m := b.Meta(); m.MinTime <= t && m.MaxTime-1 > t {
			n += 2 * b.Size()
		}
	}
	return n, err
}

// split writes the samples of a block or of the head until t to the data folder, and the later ones to another.
func (s *Store) split(b tsdb.BlockReader, mint, maxt, t int64, later string) (err error) {
	defer repair.RecoverError("split a block", &err)
	c, err := tsdb.NewLeveledCompactorWithOptions(context.Background(), nil, s.log, []int64{s.opts.block.Milliseconds()}, nil,
		tsdb.LeveledCompactorOptions{MaxBlockChunkSegmentSize: repair.ChunkFile})
	if err != nil {
		return err
	}
	// A block's end is no part of it.
	if mint <= t {
		if _, err := c.Write(s.opts.Dir, b, mint, min(maxt, t)+1, nil); err != nil {
			return err
		}
	}
	if maxt > t {
		_, err = c.Write(later, b, max(mint, t+1), maxt+1, nil)
	}
	return err
}

// splitHead is split for the samples in memory.
func (s *Store) splitHead(db *database, t int64, later string) error {
	h := db.Head()
	if mint, maxt := h.MinTime(), h.MaxTime(); h.NumSeries() > 0 && mint <= maxt {
		return s.split(tsdb.NewRangeHead(h, mint, maxt), mint, maxt, t, later)
	}
	return nil
}

// measure completes a loss with what its blocks hold.
func (s *Store) measure(l *repair.Loss, part string) {
	from, to, series := int64(math.MaxInt64), int64(math.MinInt64), uint64(0)
	for _, dir := range repair.BlocksIn(part) {
		c, err := repair.ReadContents(dir)
		if err != nil {
			s.log.Warn("read samples that were set aside", "err", err)
			continue
		}
		from, to, series = min(from, c.First), max(to, c.Last), max(series, c.Series)
	}
	if from > to {
		return
	}
	l.From, l.To = time.UnixMilli(from), time.UnixMilli(to)
	l.Lost = fmt.Sprintf("samples of %d series %s", series, repair.SpanText(l.From, l.To))
}

// forgetFuture deletes the oldest of too many parts from the future.
func (s *Store) forgetFuture() {
	parts := slices.DeleteFunc(s.Losses(), func(l repair.Loss) bool { return l.Kind != repair.Future })
	slices.SortFunc(parts, func(a, b repair.Loss) int { return strings.Compare(a.Part, b.Part) })
	for _, l := range parts[:max(0, len(parts)-futureMost)] {
		path := filepath.Join(s.opts.Dir, repair.QuarantineName, l.Part)
		if err := errors.Join(disk.RemoveAll(path), disk.Remove(path+".txt")); err != nil {
			s.log.Warn("delete the oldest samples from the future", "part", l.Part, "err", err)
		}
	}
	s.readQuarantine()
}

// bringBack returns what was set aside as the future to its place, once the clock has jumped over it: then the clock
// was behind, and the samples are of the past. Time that was lived through since is no jump.
func (s *Store) bringBack(t int64) {
	var parts []repair.Loss
	for _, l := range s.Losses() {
		if l.Kind == repair.Future && l.To.UnixMilli() < t && s.jumpedOver(l) && !s.recorded(l.From.UnixMilli(), l.To.UnixMilli()) {
			parts = append(parts, l)
		}
	}
	if len(parts) == 0 {
		return
	}
	m := s.mending.Lock()
	defer s.mending.Unlock()
	db := s.db.Load()
	if m.over || db == nil {
		return
	}
	need, err := s.splitNeeds(db, t)
	if err == nil {
		err = s.reopen(need, func(db *database) error {
			db.DisableCompactions()
			return s.splitHead(db, math.MaxInt64-1, "")
		}, func() error {
			for _, l := range parts {
				part := filepath.Join(s.opts.Dir, repair.QuarantineName, l.Part)
				for _, b := range repair.BlocksIn(part) {
					if err := disk.Rename(b, filepath.Join(s.opts.Dir, filepath.Base(b))); err != nil {
						return err
					}
				}
				if err := errors.Join(disk.RemoveAll(part), disk.Remove(part+".txt")); err != nil {
					return err
				}
			}
			return s.folder.DropLog(repair.BlocksIn(s.opts.Dir))
		})
	}
	if err != nil {
		s.log.Warn("bring back samples that were set aside while the clock was behind; trying again", "err", err)
		return
	}
	s.readQuarantine()
	for _, l := range parts {
		s.log.Warn("the clock was behind and jumped forward; the samples that it had set aside are back", "samples", l.Lost)
	}
}

// jumpedOver reports whether less time has passed since a part was set aside than its end was away. How long a machine was
// off is not known, so after a boot only a clock that was behind for certain has jumped.
func (s *Store) jumpedOver(l repair.Loss) bool {
	id, uptime := s.opts.boot()
	return l.Behind || id != "" && l.Boot == id && uptime-l.Uptime < l.To.Sub(l.Moved)
}

// recorded reports whether samples between two times are stored.
func (s *Store) recorded(from, to int64) bool {
	db, err := s.lease()
	if err != nil {
		return true
	}
	defer db.unlease()
	if h := db.Head(); h.NumSeries() > 0 && h.MinTime() <= to && h.MaxTime() >= from {
		return true
	}
	return slices.ContainsFunc(db.Blocks(), func(b *tsdb.Block) bool { return b.Meta().MinTime <= to && b.Meta().MaxTime > from })
}

// kernelBoot is the kernel's boot, "" where it cannot be read, and the time since then with that for which the machine
// slept.
func kernelBoot() (id string, uptime time.Duration) {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return "", 0
	}
	return strings.TrimSpace(string(b)), time.Duration(ts.Nano())
}

// outdated returns the blocks that may be deleted: those that compaction has replaced, and the oldest beyond retention
// and size on the disk. Only time that was recorded after a block counts, up to longest for each block: a clock that jumps ahead
// deletes nothing, and blocks of a clock that was behind go when as much was recorded since. head is the size of the
// head.
func (o Options) outdated(blocks []*tsdb.Block, longest time.Duration, head int64) map[ulid.ULID]struct{} {
	blocks = slices.Clone(blocks)
	slices.SortFunc(blocks, func(a, b *tsdb.Block) int { return int(min(max(b.Meta().MaxTime-a.Meta().MaxTime, -1), 1)) })
	gone := map[ulid.ULID]struct{}{}
	var after int64 // what was recorded later, in milliseconds
	begin := int64(math.MaxInt64)
	for _, b := range blocks {
		m := b.Meta()
		if m.Compaction.Deletable {
			gone[m.ULID] = struct{}{}
		}
		size, err := space.SizeOf(b.Dir(), "")
		if err != nil {
			size = b.Size()
		}
		head += size
		if after >= o.Retention.Milliseconds() || o.MaxBytes > 0 && head > o.MaxBytes {
			gone[m.ULID] = struct{}{}
		}
		if end := min(m.MaxTime, begin); end > m.MinTime {
			after += min(end-m.MinTime, longest.Milliseconds())
			begin = m.MinTime
		}
	}
	return gone
}
