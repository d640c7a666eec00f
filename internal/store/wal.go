package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/wlog"
)

// segment is a file of the log.
type segment struct {
	path  string
	index int
	size  int64
	good  int64 // end of its last complete record
	// damage is the problem after good, with its place.
	damage   error
	at       int64
	torn     bool  // the damage is an interrupted write: no record ends after it
	from, to int64 // the times of its first and last samples, in milliseconds; 0 without samples
}

// walPage is the unit in which the log is written. A fragment of a record does not reach
// into the next page; it begins with its type, its length and its checksum.
const (
	walPage     = 32 << 10
	walFragment = 7
)

// recordEnds reports whether a record ends in b, the part of a segment from the offset at on, whatever lies between.
func recordEnds(b []byte, at int64) bool {
	const full, last, compressed = 1, 4, 1<<3 | 1<<4
	for i := 0; i+walFragment <= len(b); i++ {
		if t := b[i] &^ compressed; t != full && t != last {
			continue
		}
		n := int(binary.BigEndian.Uint16(b[i+1:]))
		end := i + walFragment + n
		if n == 0 || end > len(b) || (at+int64(i))%walPage+int64(walFragment+n) > walPage {
			continue
		}
		if crc32.Checksum(b[i+walFragment:end], castagnoli) == binary.BigEndian.Uint32(b[i+3:]) {
			return true
		}
	}
	return false
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logged is the result of inspecting the log.
type logged struct {
	dir        string
	checkpoint int       // its number, -1 without one
	saved      []segment // of the checkpoint
	segments   []segment // after the checkpoint, by number
	last       uint64    // the highest reference of a series
	broken     []string  // the problems; empty: the log can be replayed
	endless    bool      // its end is missing
}

func (l *logged) broke(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// lookAtLog reads the log from end to end. It fails if the log cannot be read for reasons other than its data.
func lookAtLog(dir string) (*logged, error) {
	l := &logged{dir: dir, checkpoint: -1}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	} else if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil && !e.Type().IsRegular() {
			l.broke("%s is not a file", e.Name())
		}
		number, ok := strings.CutPrefix(e.Name(), "checkpoint.")
		if n, err := strconv.Atoi(number); !ok || err != nil {
			continue
		} else if !e.IsDir() {
			l.broke("the checkpoint %s is not a folder", e.Name())
		} else if n > l.checkpoint {
			l.checkpoint = n
		}
	}
	if l.checkpoint >= 0 {
		if err := l.readCheckpoint(); err != nil {
			return nil, err
		}
	}
	names, err := numbered(dir)
	if err != nil {
		return nil, err
	}
	for _, g := range names {
		if g.index <= l.checkpoint {
			continue // replaced by the checkpoint
		}
		if err := l.read(&g); err != nil {
			return nil, err
		}
		l.segments = append(l.segments, g)
	}
	l.checkNumbers(names)
	for i, g := range l.segments {
		if g.damage != nil && (!g.torn || l.sizeAfter(i) > 0) {
			l.broke("segment %s is damaged at byte %d of %d: %v", filepath.Base(g.path), g.at, g.size, g.damage)
		}
	}
	return l, nil
}

// readCheckpoint reads the segments of the checkpoint.
func (l *logged) readCheckpoint() error {
	dir := wlog.CheckpointDir(l.dir, l.checkpoint)
	saved, err := numbered(dir)
	if err != nil {
		return err
	}
	var size int64
	for i, g := range saved {
		if err := l.read(&g); err != nil {
			return err
		}
		if g.index != i {
			l.broke("segment %08d of the checkpoint is missing", i)
		}
		if g.damage != nil {
			l.broke("the checkpoint %s is damaged at byte %d of %d of %s: %v", filepath.Base(dir), g.at, g.size, filepath.Base(g.path), g.damage)
		}
		size += g.size
		l.saved = append(l.saved, g)
	}
	if size == 0 {
		l.broke("the checkpoint %s is empty", filepath.Base(dir))
	}
	return nil
}

// checkNumbers looks for missing segments: without their names of series, a later sample could be attributed to
// another series.
func (l *logged) checkNumbers(all []segment) {
	want := l.checkpoint + 1
	if len(l.segments) == 0 {
		if l.checkpoint >= 0 && (len(all) == 0 || all[len(all)-1].index < l.checkpoint) {
			l.broke("the segments behind the checkpoint are missing")
		}
		return
	}
	if l.checkpoint < 0 && l.segments[0].index > 0 {
		l.broke("the checkpoint is missing")
		want = l.segments[0].index
	}
	for _, g := range l.segments {
		switch {
		case g.index != want:
			l.broke("segment %08d is missing", want)
		case filepath.Base(g.path) != fmt.Sprintf("%08d", g.index):
			l.broke("segment %s has a name that is not one", filepath.Base(g.path))
		}
		want = g.index + 1
	}
	for i := 1; i < len(all); i++ {
		if all[i-1].index <= l.checkpoint && all[i].index != all[i-1].index+1 && all[i-1].index < l.checkpoint {
			l.broke("segment %08d is missing", all[i-1].index+1) // its records are in the checkpoint
		}
	}
}

// sizeAfter returns the size of the segments after the i-th.
func (l *logged) sizeAfter(i int) (n int64) {
	for _, g := range l.segments[i+1:] {
		n += g.size
	}
	return n
}

// size returns the size of everything that can be replayed.
func (l *logged) size() (n int64) {
	for _, g := range slices.Concat(l.saved, l.segments) {
		n += g.good
	}
	return n
}

// numbered lists the segments in a folder.
func numbered(dir string) (out []segment, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || !e.Type().IsRegular() {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		out = append(out, segment{path: filepath.Join(dir, e.Name()), index: n, size: fi.Size()})
	}
	slices.SortStableFunc(out, func(a, b segment) int { return a.index - b.index })
	return out, nil
}

// read reads a segment: where its complete records end, the damage after that, and its time range.
func (l *logged) read(g *segment) error {
	f, err := os.Open(g.path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer f.Close()
	dec := record.NewDecoder(labels.NewSymbolTable(), nil)
	var series []record.RefSeries
	r := wlog.NewReader(wlog.NewSegmentBufReader(&wlog.Segment{SegmentFile: f}))
	for r.Next() {
		g.good = r.Offset()
		switch rec := r.Record(); dec.Type(rec) {
		case record.Series:
			if series, err = dec.Series(rec, series[:0]); err != nil {
				g.damage, g.at = err, r.Offset()
				return nil
			}
			for _, s := range series {
				l.last = max(l.last, uint64(s.Ref))
			}
		case record.Samples:
			if t, ok := baseTime(rec); ok {
				if g.from == 0 || t < g.from {
					g.from = t
				}
				g.to = max(g.to, t)
			}
		}
	}
	if ours(r.Err()) {
		return fmt.Errorf("read log: %w", r.Err())
	}
	var where *wlog.CorruptionErr
	if g.damage = r.Err(); errors.As(g.damage, &where) {
		g.damage, g.at = where.Err, min(where.Offset, g.size)
	}
	if g.damage != nil {
		rest := make([]byte, g.size-g.good)
		if n, err := f.ReadAt(rest, g.good); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read log: %w", err)
		} else {
			g.torn = !recordEnds(rest[:n], g.good)
		}
	}
	return nil
}

// baseTime returns the time of the first sample of a record of samples, which begins with its type, a reference and
// that time. A round has one time.
func baseTime(rec []byte) (int64, bool) {
	if len(rec) < 17 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(rec[9:])), true
}

// cutTail shortens the last segment to its complete records, in place and so without needing space. Nothing
// acknowledged was in the rest.
func (s *Store) cutTail(g segment) error {
	if err := os.Truncate(g.path, g.good); err != nil {
		return fmt.Errorf("cut log: %w", err)
	}
	s.cutBytes.Add(uint64(g.size - g.good))
	s.log.Warn("cut a record that was not written to its end", "file", g.path, "bytes", g.size-g.good, "err", g.damage)
	return syncFile(g.path)
}

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
	return errors.Join(syncFile(wlog.SegmentName(wal, last)), syncFile(wal))
}

// headRefs returns the highest reference of a series among the head's chunks on disk that extend beyond a time, and
// the last time in them. It stops at a damaged file; the database checks the checksums.
func headRefs(dir string, beyond int64, now time.Time) (last uint64, to int64) {
	for _, name := range filesIn(dir) {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		const header, meta = 8, 8 + 8 + 8 + 1
		for at := header; at+meta < len(b); {
			ref, maxt := binary.BigEndian.Uint64(b[at:]), int64(binary.BigEndian.Uint64(b[at+16:]))
			n, size := binary.Uvarint(b[at+meta:])
			if ref == 0 || size <= 0 || n > uint64(len(b)) {
				break
			}
			at += meta + size + int(n) + 4
			if at > len(b) {
				break
			}
			if maxt >= beyond && maxt < now.Add(24*time.Hour).UnixMilli() {
				last, to = max(last, ref), max(to, maxt)
			}
		}
	}
	return last, to
}
