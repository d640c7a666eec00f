package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/tsdb/wlog"
)

// checkLog makes the log replayable. It cuts off an incomplete last record. Of a log with a hole, it writes
// everything readable to a block, and the log begins anew: otherwise new series could get the references of series
// whose names are lost, and with them their samples.
func (s *Store) checkLog() error {
	wal, head := filepath.Join(s.opts.Dir, "wal"), filepath.Join(s.opts.Dir, headName)
	l, err := lookAtLog(wal)
	if err != nil {
		return err
	}
	end := s.lastBlockEnd()
	refs, to := headRefs(head, end.UnixMilli(), s.opts.Now())
	if refs > l.last {
		l.endless = true
		l.broke("segments at its end are missing, with the names of series")
	}
	if len(l.broken) == 0 {
		for _, g := range l.segments {
			if g.damage != nil {
				return s.cutTail(g)
			}
		}
		return nil
	}
	found, err := s.salvage(l, end)
	if err != nil {
		return err
	}
	for _, g := range slices.Concat(l.saved, l.segments) {
		s.cutBytes.Add(uint64(g.size - g.good))
	}
	loss := l.loss(found, end, to, s.opts.Interval, s.opts.Now())
	if !exists(wal) {
		loss.Kind = "head chunks"
		return s.setAside(head, loss)
	}
	// The chunks go before the log: they must never be combined with the names of another log.
	if inside := filepath.Join(wal, headName); exists(head) {
		err := os.Rename(head, inside)
		if errors.Is(err, fs.ErrExist) { // a crash has left others there
			l := loss
			l.Kind, l.Lost = "head chunks", nothing
			err = s.setAside(head, l)
		}
		if err != nil {
			return fmt.Errorf("move %s to %s, because the log is damaged: %w: make the folder writable", head, inside, err)
		}
	}
	return s.setAside(wal, loss)
}

// salvaged counts what a salvage found no name for.
type salvaged struct {
	err     error // nothing could be read
	series  int   // references without a name
	samples int   // their samples
}

// chunkFile is the size of a salvaged block's files of chunks: the usual 512 MiB may be more than the disk has.
const chunkFile = 8 << 20

// salvage reads the rest of a log in a separate folder of second names, and writes it to a block. The data folder is
// unchanged until that block is complete.
func (s *Store) salvage(l *logged, end time.Time) (out salvaged, err error) {
	n, err := free(s.opts.Dir)
	if err != nil {
		return out, err
	}
	if need := 2*l.size() + chunkFile + 2<<20; n < need {
		if err := s.reserve.give(); err != nil {
			return out, err
		}
		if n, err = free(s.opts.Dir); err != nil {
			return out, err
		} else if n < need {
			return out, fmt.Errorf("disk of %s is full: %s free, %s needed to read a damaged log: free some space: %w", s.opts.Dir, room(n), room(need), errNoSpace)
		}
	}
	stage := filepath.Join(s.opts.Dir, quarantineName, ".salvage")
	if err := os.RemoveAll(stage); err != nil { // second names left by a crash
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	if err := l.restage(filepath.Join(stage, "wal")); err != nil {
		return out, fmt.Errorf("read a damaged log: %w", err)
	}
	if err := os.Mkdir(filepath.Join(stage, headName), 0o755); err != nil {
		return out, err
	}
	for _, f := range filesIn(filepath.Join(s.opts.Dir, headName)) {
		if err := link(f, filepath.Join(stage, headName, filepath.Base(f)), -1); err != nil {
			return out, fmt.Errorf("read a damaged log: %w", err)
		}
	}
	o := s.opts
	o.Dir, o.MaxBytes, o.Retention, o.chunkFile = stage, 0, 100*365*24*time.Hour, chunkFile
	db, err := openDatabase(o)
	if err != nil && !ours(err) {
		if err := os.RemoveAll(filepath.Join(stage, headName)); err != nil {
			return out, err
		}
		db, err = openDatabase(o)
	}
	if ours(err) {
		return out, err
	} else if err != nil {
		out.err = err
		return out, nil
	}
	out.series = int(counterOf(db.reg, "prometheus_tsdb_wal_replay_unknown_refs_total", "series"))
	out.samples = int(counterOf(db.reg, "prometheus_tsdb_wal_replay_unknown_refs_total", "samples"))
	err = db.cutHead(end.UnixMilli())
	if err = errors.Join(err, db.close()); err != nil {
		return out, fmt.Errorf("write what is left of a damaged log: %w: free some space", err)
	}
	blocks, err := os.ReadDir(stage)
	if err != nil {
		return out, err
	}
	for _, b := range blocks {
		if !blockName.MatchString(b.Name()) {
			continue
		}
		if err := os.Rename(filepath.Join(stage, b.Name()), filepath.Join(s.opts.Dir, b.Name())); err != nil {
			return out, fmt.Errorf("keep what is left of a damaged log: %w", err)
		}
	}
	return out, syncFile(s.opts.Dir)
}

// restage makes a folder with everything readable of a log, numbered from 0 in the order of its samples. The
// checkpoint's records are treated like any others.
func (l *logged) restage(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, g := range slices.Concat(l.saved, l.inOrder()) {
		size := int64(-1)
		if g.damage != nil {
			size = g.good
		}
		if err := link(g.path, wlog.SegmentName(dir, i), size); err != nil {
			return err
		}
	}
	return nil
}

// inOrder returns the segments in the order of their samples. A wrong segment number does not affect it.
func (l *logged) inOrder() []segment {
	out := slices.Clone(l.segments)
	var before int64
	for i := range out {
		if out[i].from == 0 {
			out[i].from, out[i].to = before, before
		}
		before = out[i].from
	}
	slices.SortStableFunc(out, func(a, b segment) int { return int(min(max(a.from-b.from, -1), 1)) })
	return out
}

// link gives a file a second name. It copies its first bytes instead if size is not negative or the file system has
// no links.
func link(from, to string, size int64) error {
	if size < 0 && os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	var r io.Reader = in
	if size >= 0 {
		r = io.LimitReader(in, size)
	}
	_, err = io.Copy(out, r)
	return errors.Join(err, out.Close())
}

// loss returns what is missing from a log with a hole: the times between the segments around each hole and, for
// series whose names were in one, everything later.
func (l *logged) loss(found salvaged, end time.Time, headEnd int64, interval time.Duration, now time.Time) Loss {
	out := Loss{Kind: "log", Reason: strings.Join(l.broken, "; "), Lost: nothing}
	var from, to int64
	begin := max(end.UnixMilli(), 0) // of the log
	unknown := false
	hole := func(a, b int64) {
		if b == 0 { // no sample is known after it
			unknown = true
		}
		if a = max(a, begin); b-a > 2*interval.Milliseconds() {
			if to == 0 || a < from {
				from = a
			}
			to = max(to, b)
		}
	}
	var last int64 // what is known up to here
	for _, g := range l.saved {
		last = max(last, g.to)
	}
	order := l.inOrder()
	before := l.checkpoint
	for i, g := range order {
		if g.index != before+1 {
			hole(last, g.from)
		}
		before, last = g.index, max(last, g.to)
		if g.damage != nil && !(g.torn && i == len(order)-1) {
			next := now.UnixMilli()
			if i+1 < len(order) {
				next = order[i+1].from
			}
			hole(last, next)
		}
	}
	switch {
	case found.err != nil:
		hole(begin, now.UnixMilli())
	case len(order) == 0 || l.endless:
		hole(last, now.UnixMilli())
	case found.series > 0 && to == 0:
		hole(begin, last)
	}
	last = max(last, headEnd)
	if to == 0 && found.series == 0 {
		if unknown {
			out.Lost = "perhaps samples, of a time that is not known"
		}
		return out
	}
	at := func(ms int64) time.Time {
		if ms <= 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	if to == 0 {
		to = last
	}
	out.From, out.To = at(from), at(to)
	out.Lost = "some samples " + span(out.From, out.To)
	if found.err != nil {
		out.Reason += "; nothing of it could be read: " + found.err.Error()
	}
	if found.series > 0 {
		out.Lost += fmt.Sprintf("; of %d series also later ones", found.series)
		if last > to {
			out.To = at(last)
			out.Lost += ", until " + out.To.UTC().Format(time.DateTime) + " UTC"
		}
	}
	return out
}
