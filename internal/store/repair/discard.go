package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/record"

	"github.com/teescope/teescope/internal/disk"
)

// Nothing is deleted that no other file holds, except by retention and by compaction. So blocks and logs are deleted by
// Discard alone, which compares each sample with the blocks that are meant to replace them.

// Discard deletes a block, or the log with the head's chunks, whose samples are all in other blocks. If they lack any, it
// goes into the quarantine.
func (d Folder) Discard(path string, by []string) error {
	lack, err := lacking(path, by)
	if FromMachine(err) {
		return fmt.Errorf("compare %s with the blocks that replace it: %w", path, err)
	}
	if filepath.Base(path) == LogName {
		if err := d.joinHead(path); err != nil {
			return err
		}
	}
	if err == nil && lack.samples == 0 {
		gone := d.discarded()
		if err := errors.Join(disk.RemoveAll(gone), disk.MkdirAll(gone, 0o755)); err != nil {
			return err
		}
		if err := disk.Rename(path, filepath.Join(gone, filepath.Base(path))); err != nil { // at once
			return err
		}
		return disk.RemoveAll(gone)
	}
	l := Loss{Kind: "block", Lost: "samples of an unknown time"}
	if filepath.Base(path) == LogName {
		l.Kind = "log"
	}
	if err != nil {
		l.Reason = "it could not be compared with the blocks that replace it: " + err.Error()
	} else {
		l.From, l.To = time.UnixMilli(lack.from), time.UnixMilli(lack.to)
		l.Reason = fmt.Sprintf("the blocks that replace it lack %d of its samples", lack.samples)
		l.Lost = fmt.Sprintf("samples of %d series %s", lack.series, SpanText(l.From, l.To))
	}
	return d.setAside(path, l)
}

// discarded is the folder of what is being deleted. A crash may leave it; all of it is held elsewhere.
func (d Folder) discarded() string { return filepath.Join(d.Dir, QuarantineName, ".discarded") }

// lack is what blocks do not hold of a part.
type lack struct {
	samples, series int
	from, to        int64 // the times of the first and the last one, in Unix milliseconds
}

func (l *lack) add(t int64) {
	if l.samples++; l.samples == 1 {
		l.from, l.to = t, t
	}
	l.from, l.to = min(l.from, t), max(l.to, t)
}

// lacking returns which samples of a block or a log are in none of the blocks in the folders by.
func lacking(path string, by []string) (lack, error) {
	if filepath.Base(path) == LogName {
		return lackingOfLog(path, by)
	}
	return lackingOfBlock(path, by)
}

// LogName is the folder of the log.
const LogName = "wal"

// lackingOfBlock compares the series of a block, which are sorted, with those of other blocks.
func lackingOfBlock(dir string, by []string) (out lack, err error) {
	defer RecoverError("compare blocks", &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector of a mapped file
	all, err := openBlocks([]string{dir}, math.MinInt64, math.MaxInt64)
	if err != nil {
		return out, err
	}
	defer all.close()
	m := all.blocks[0].Meta()
	held, err := openBlocks(by, m.MinTime, m.MaxTime)
	if err != nil {
		return out, err
	}
	defer held.close()
	of, in := all.series(), held.series()
	more := in.Next()
	for of.Next() {
		series := of.At()
		for more && labels.Compare(in.At().Labels(), series.Labels()) < 0 {
			more = in.Next()
		}
		var c cursor
		if more && labels.Equal(in.At().Labels(), series.Labels()) {
			c.series = in.At()
		}
		before := out.samples
		it := series.Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			if t := it.AtT(); !c.has(t) {
				out.add(t)
			}
		}
		if it.Err() != nil {
			return out, it.Err()
		}
		if out.samples > before {
			out.series++
		}
	}
	return out, errors.Join(of.Err(), in.Err())
}

// lackingOfLog compares the samples of a log, which are sorted by time, with blocks. A sample that is not later than the one
// before it in its series was not stored, or is in the log twice.
func lackingOfLog(dir string, by []string) (out lack, err error) {
	defer RecoverError("compare the log with blocks", &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector of a mapped file
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	if _, err := lookAtLog(dir, visitor{sample: func(_ uint64, t int64) { first, last = min(first, t), max(last, t) }}); err != nil || first > last {
		return out, err
	}
	held, err := openBlocks(by, first, last+1)
	if err != nil {
		return out, err
	}
	defer held.close()
	in := map[uint64][]storage.Series{} // by the hash of their labels
	set := held.series()
	for set.Next() {
		h := set.At().Labels().Hash()
		in[h] = append(in[h], set.At())
	}
	if set.Err() != nil {
		return out, set.Err()
	}
	cursors := map[uint64]*cursor{} // by reference
	_, err = lookAtLog(dir, visitor{
		series: func(r record.RefSeries) {
			if cursors[uint64(r.Ref)] != nil {
				return
			}
			c := &cursor{last: math.MinInt64}
			for _, series := range in[r.Labels.Hash()] {
				if labels.Equal(series.Labels(), r.Labels) {
					c.series = series
				}
			}
			cursors[uint64(r.Ref)] = c
		},
		sample: func(ref uint64, t int64) {
			c := cursors[ref]
			if c == nil || t <= c.last { // a series without a name is in no answer
				return
			}
			c.last = t
			if c.has(t) {
				return
			}
			if !c.lacked {
				c.lacked = true
				out.series++
			}
			out.add(t)
		},
	})
	return out, err
}

// cursor looks for samples of a series by ascending times.
type cursor struct {
	series storage.Series // nil: it has none
	it     chunkenc.Iterator
	last   int64
	lacked bool
}

func (c *cursor) has(t int64) bool {
	if c.series == nil {
		return false
	}
	if c.it == nil {
		c.it = c.series.Iterator(nil)
	}
	return c.it.Seek(t) != chunkenc.ValNone && c.it.AtT() == t
}

// heldBlocks are blocks that are open for comparisons.
type heldBlocks struct {
	blocks   []*tsdb.Block
	queriers []storage.Querier
}

// openBlocks opens those blocks that hold samples from one time to another, in Unix milliseconds.
func openBlocks(dirs []string, from, to int64) (_ *heldBlocks, err error) {
	h := &heldBlocks{}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	for _, dir := range dirs {
		m, err := readMeta(dir)
		if FromMachine(err) {
			return nil, err
		} else if err != nil || m.MinTime > to || m.MaxTime <= from {
			continue
		}
		b, err := tsdb.OpenBlock(slog.New(slog.DiscardHandler), dir, nil, nil)
		if err != nil {
			return nil, err
		}
		h.blocks = append(h.blocks, b)
		q, err := tsdb.NewBlockQuerier(b, max(from, m.MinTime), min(to, m.MaxTime))
		if err != nil {
			return nil, err
		}
		h.queriers = append(h.queriers, q)
	}
	return h, nil
}

// series returns all series, sorted.
func (h *heldBlocks) series() storage.SeriesSet {
	q := storage.NewMergeQuerier(h.queriers, nil, storage.ChainedSeriesMerge)
	return q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "", ""))
}

func (h *heldBlocks) close() {
	for _, q := range h.queriers {
		_ = q.Close()
	}
	for _, b := range h.blocks {
		_ = b.Close()
	}
}

// DropLog removes the log and the head's chunks, once blocks hold all of it.
func (d Folder) DropLog(by []string) error {
	wal := filepath.Join(d.Dir, LogName)
	if !Exists(wal) {
		return nil
	}
	return d.Discard(wal, by)
}
