package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/tsdb/wlog"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/store/repair"
)

// attempts bounds how often the database is opened: each failed attempt removes at least one part.
const attempts = 100

// openSound opens the database. Parts that make it fail, or would give wrong values, go into the quarantine, and the
// rest is opened. Damage that the checks miss is named by the database's error.
func (s *Store) openSound() (*database, error) {
	if err := s.folder.Clean(); err != nil {
		return nil, err
	}
	err := s.folder.Check()
	if err != nil {
		return nil, err
	}
	s.folder.LinkHeadChunks()
	for range attempts {
		var db *database
		if db, err = openDatabase(s.opts); err == nil {
			if err := s.folder.KeepHeadChunks(); err != nil {
				return nil, errors.Join(err, db.close())
			}
			s.sayNameless(db)
			return db, nil
		}
		if repair.FromMachine(err) {
			return nil, err
		}
		if more := s.folder.SetAsideNamed(err); more != nil {
			return nil, errors.Join(err, more)
		}
	}
	return nil, err
}

// sayNameless reports samples of the log that a replay left out, because the names of their series are gone: a segment that is empty, or
// was cut at a record's end, does not show it otherwise.
func (s *Store) sayNameless(db *database) {
	if n, series := (replayed{db}).Nameless(); n > 0 {
		l := repair.Loss{Part: repair.LogName, Kind: "log", Reason: "it lacks the names of series, so a part of it was emptied", From: s.folder.LastBlockEnd(), To: s.opts.Now().Truncate(time.Second)}
		l.Lost = fmt.Sprintf("%.0f samples of %.0f series %s", n, series, repair.SpanText(l.From, l.To))
		s.recordLoss(l)
	}
}

// newFolder is the data folder, for the repair of it while no database has it open.
func (s *Store) newFolder() repair.Folder {
	return repair.Folder{
		Dir: s.opts.Dir, Block: s.opts.block, Interval: s.opts.Interval, Reserve: s.reserve, Now: s.opts.Now, Log: s.log,
		Lost: s.recordLoss, Cut: func(n int64) { s.cutBytes.Add(uint64(n)) },
		Replay: func(dir string) (repair.Database, error) {
			o := s.opts
			o.Dir, o.MaxBytes, o.Retention, o.chunkFile = dir, 0, 100*365*24*time.Hour, repair.ChunkFile
			db, err := openDatabase(o)
			if err != nil {
				return nil, err
			}
			return replayed{db}, nil
		},
	}
}

// replayed is a database as the repair sees it.
type replayed struct{ db *database }

// Nameless implements repair.Database.
func (r replayed) Nameless() (samples, series float64) {
	const name = "prometheus_tsdb_wal_replay_unknown_refs_total"
	return counterOf(r.db.reg, name, "samples"), counterOf(r.db.reg, name, "series")
}

// CutHead implements repair.Database.
func (r replayed) CutHead(from int64) error { return r.db.cutHead(from) }

// Close implements repair.Database.
func (r replayed) Close() error { return r.db.close() }

// lastSegment returns the number of the log's last segment, -1 without one.
func lastSegment(dir string) int {
	_, last, err := wlog.Segments(filepath.Join(dir, "wal"))
	if err != nil {
		return -1
	}
	return last
}

// syncLog flushes the segment being written to the disk.
func syncLog(dir string) error {
	wal := filepath.Join(dir, "wal")
	_, last, err := wlog.Segments(wal)
	if err != nil || last < 0 {
		return err
	}
	return errors.Join(disk.Sync(wlog.SegmentName(wal, last)), disk.Sync(wal))
}
