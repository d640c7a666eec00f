package repair

// Inspects the segments of the write-ahead log without the database: which records are whole, where a write was
// interrupted, and where data are damaged. salvage.go acts on the result.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/wlog"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host"
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
	place    int64 // where it belongs in the order of samples: from, or that of the segment before an empty one
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

// interrupted reports whether b, the part of a segment from the offset at on in which no record ends, is what a write leaves that was not
// finished: the beginning of a record, then nothing or zeros. Anything else is damage, with which acknowledged samples may be lost.
func interrupted(b []byte, at int64) bool {
	const full, last, compressed = 1, 4, 1<<3 | 1<<4
	for len(b) > 0 {
		left := int(walPage - at%walPage)
		n := min(left, len(b))
		if b[0] == 0 || left < walFragment { // the rest of the page is not used, or was not written
			if !blank(b[:n]) {
				return false
			}
			b, at = b[n:], at+int64(n)
			continue
		}
		kind := b[0] &^ compressed
		if kind < full || kind > last {
			return false
		}
		if len(b) < walFragment {
			return true
		}
		size := walFragment + int(binary.BigEndian.Uint16(b[1:]))
		switch {
		case size > left:
			return false
		case size > len(b):
			return true
		case crc32.Checksum(b[walFragment:size], castagnoli) != binary.BigEndian.Uint32(b[3:]): // also where a power cut left blocks unwritten
			return false
		}
		b, at = b[size:], at+int64(size)
	}
	return true
}

// blank reports whether b has nothing but zeros.
func blank(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logged is the result of inspecting the log.
type logged struct {
	dir        string
	checkpoint int       // the number of the newest, -1 without one
	saved      []segment // of the newest checkpoint
	older      []segment // of older checkpoints, which a crash left
	segments   []segment // after the checkpoint, by number
	last       uint64    // the highest reference of a series
	broken     []string  // the problems; empty: the log can be replayed
	replaced   []segment // those that the checkpoint replaces, which a crash left
	nofile     []int     // numbers of segments that are not files
	endless    bool      // its end is missing

	visitor
}

// visitor is called with what a log holds, in its order; both functions may be nil.
type visitor struct {
	series func(record.RefSeries)
	sample func(ref uint64, t int64) // t is the sample's time in Unix milliseconds
}

func (l *logged) broke(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// lookAtLog reads the log from end to end. It fails if the log cannot be read for reasons other than its data.
func lookAtLog(dir string, v visitor) (*logged, error) {
	l := &logged{dir: dir, checkpoint: -1, visitor: v}
	entries, err := disk.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	} else if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var checkpoints []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && !e.Type().IsRegular() {
			l.broke("%s is not a file", e.Name())
			l.nofile = append(l.nofile, n)
		}
		number, ok := strings.CutPrefix(e.Name(), "checkpoint.")
		if n, err := strconv.Atoi(number); !ok || err != nil {
			continue
		} else if !e.IsDir() {
			l.broke("the checkpoint %s is not a folder", e.Name())
		} else {
			checkpoints = append(checkpoints, n)
		}
	}
	slices.Sort(checkpoints)
	for i, n := range checkpoints {
		if i == len(checkpoints)-1 {
			l.checkpoint = n
			if err := l.readCheckpoint(); err != nil {
				return nil, err
			}
			break
		}
		older, err := numbered(wlog.CheckpointDir(dir, n))
		if err != nil {
			return nil, err
		}
		for _, g := range older {
			if err := l.read(&g); err != nil {
				return nil, err
			}
			l.older = append(l.older, g)
		}
	}
	names, err := numbered(dir)
	if err != nil {
		return nil, err
	}
	for _, g := range names {
		if err := l.read(&g); err != nil {
			return nil, err
		}
		if g.index <= l.checkpoint {
			l.replaced = append(l.replaced, g)
		} else {
			l.segments = append(l.segments, g)
		}
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

// checkReplaced looks for samples that are in no block and should be in the newest checkpoint, in what it replaces: a
// number may be wrong. end is the end of the blocks in Unix milliseconds.
func (l *logged) checkReplaced(end int64) {
	saved := end - 1
	for _, g := range l.saved {
		saved = max(saved, g.to)
	}
	for _, g := range slices.Concat(l.older, l.replaced) {
		if name, _ := filepath.Rel(l.dir, g.path); g.to > saved {
			l.broke("segment %s has samples that the checkpoint %08d lacks", name, l.checkpoint)
		}
	}
}

// all are the segments with everything readable: the checkpoints, and then the others in the order of their samples.
func (l *logged) all() []segment { return slices.Concat(l.older, l.saved, l.inOrder()) }

// sizeAfter returns the size of the segments after the i-th.
func (l *logged) sizeAfter(i int) (n int64) {
	for _, g := range l.segments[i+1:] {
		n += g.size
	}
	return n
}

// size returns the size of everything that can be replayed.
func (l *logged) size() (n int64) {
	for _, g := range l.all() {
		n += g.good
	}
	return n
}

// numbered lists the segments in a folder.
func numbered(dir string) (out []segment, err error) {
	entries, err := disk.ReadDir(dir)
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
	f, err := disk.Open(g.path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer f.Close()
	p := records{dec: record.NewDecoder(labels.NewSymbolTable(), slog.New(slog.DiscardHandler))}
	r := wlog.NewReader(wlog.NewSegmentBufReader(&wlog.Segment{SegmentFile: f}))
	for r.Next() {
		if err := p.parse(r.Record()); err != nil {
			g.damage, g.at = err, r.Offset()
			return nil
		}
		g.good = r.Offset()
		for _, s := range p.series {
			l.last = max(l.last, uint64(s.Ref))
			if l.series != nil {
				l.series(s)
			}
		}
		for _, s := range p.samples {
			if g.from == 0 || s.T < g.from {
				g.from = s.T
			}
			g.to = max(g.to, s.T)
			if l.sample != nil {
				l.sample(uint64(s.Ref), s.T)
			}
		}
	}
	if FromMachine(r.Err()) {
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
			g.torn = !recordEnds(rest[:n], g.good) && interrupted(rest[:n], g.good)
		}
	}
	return nil
}

// records reads the records of a log.
type records struct {
	dec     record.Decoder
	series  []record.RefSeries
	samples []record.RefSample // histograms have no value here

	ints   []record.RefHistogramSample
	floats []record.RefFloatHistogramSample
}

// parse reads a record. It fails if the database could not read it.
func (p *records) parse(rec []byte) (err error) {
	defer RecoverError("read record", &err)
	p.series, p.samples = p.series[:0], p.samples[:0]
	switch p.dec.Type(rec) {
	case record.Series:
		p.series, err = p.dec.Series(rec, p.series)
	case record.Samples, record.SamplesV2:
		p.samples, err = p.dec.Samples(rec, p.samples)
	case record.HistogramSamples, record.CustomBucketsHistogramSamples, record.HistogramSamplesV2:
		p.ints, err = p.dec.HistogramSamples(rec, p.ints[:0])
		for _, h := range p.ints {
			p.samples = append(p.samples, record.RefSample{Ref: h.Ref, T: h.T})
		}
	case record.FloatHistogramSamples, record.CustomBucketsFloatHistogramSamples, record.FloatHistogramSamplesV2:
		p.floats, err = p.dec.FloatHistogramSamples(rec, p.floats[:0])
		for _, h := range p.floats {
			p.samples = append(p.samples, record.RefSample{Ref: h.Ref, T: h.T})
		}
	}
	return err
}

// cutTail shortens the last segment to its complete records, in place and so without needing space. Nothing
// acknowledged was in the rest.
func (d Folder) cutTail(g segment) error {
	if err := disk.Truncate(g.path, g.good); err != nil {
		return fmt.Errorf("cut log: %w", err)
	}
	d.Cut(g.size - g.good)
	d.Log.Warn("cut a record that was not written to its end", "file", g.path, "bytes", g.size-g.good, "err", g.damage)
	return disk.Sync(g.path)
}

// headChunks is what the head's chunks on disk say about themselves.
type headChunks struct {
	last  uint64           // the highest reference of a series
	to    int64            // the last time, in Unix milliseconds
	begin map[uint64]int64 // the first time of each series
}

// mostChunks is more than a file of chunks has in bytes.
const mostChunks = 1 << 30

// readHeadChunks reads the chunks that extend beyond a time. Of a file, it stops at the first damaged chunk.
func readHeadChunks(dir string, beyond int64, now time.Time) headChunks {
	h := headChunks{begin: map[uint64]int64{}}
	for _, name := range filesIn(dir) {
		b, err := host.ReadRegular(name, mostChunks)
		if err != nil {
			continue // the database says what is wrong with it
		}
		const header, meta = 8, 8 + 8 + 8 + 1
		for at := header; at+meta < len(b); {
			ref, mint, maxt := binary.BigEndian.Uint64(b[at:]), int64(binary.BigEndian.Uint64(b[at+8:])), int64(binary.BigEndian.Uint64(b[at+16:]))
			n, size := binary.Uvarint(b[at+meta:])
			if ref == 0 || size <= 0 || n > uint64(len(b)) {
				break
			}
			start := at
			if at += meta + size + int(n) + 4; at > len(b) || crc32.Checksum(b[start:at-4], castagnoli) != binary.BigEndian.Uint32(b[at-4:]) {
				break
			}
			if maxt >= beyond && maxt < now.Add(24*time.Hour).UnixMilli() {
				h.last, h.to = max(h.last, ref), max(h.to, maxt)
				if t, ok := h.begin[ref]; !ok || mint < t {
					h.begin[ref] = mint
				}
			}
		}
	}
	return h
}
