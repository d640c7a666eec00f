package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host"
)

// A block's meta.json has no checksum, and the database deletes by it: of the log, all samples before the end that it
// states; of the blocks, those that it names as its parents. The index has checksums. So what meta.json says is
// compared with the index before the database opens, and is written anew from there if it is wrong.

// contents are what a block's index says about the block.
type contents struct {
	first, last    int64 // the times of its first and last samples, in Unix milliseconds; first > last without samples
	series, chunks uint64
	damage         error // of an entry of the index: the block may hold more than this
}

// readContents reads a block's index. It fails if the index cannot be opened, or has no sound list of the series. If only
// the list of all is damaged, those with a name are listed.
func readContents(dir string) (c contents, err error) {
	defer recovered("read index", &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector of a mapped file
	c.first, c.last = math.MaxInt64, math.MinInt64
	ix, err := index.NewFileReader(filepath.Join(dir, "index"), index.DecodePostingsRaw)
	if err != nil {
		return c, err
	}
	defer ix.Close()
	ctx := context.Background()
	name, value := index.AllPostingsKey()
	all, err := ix.Postings(ctx, name, value)
	if err != nil {
		c.damage = err
		names, err := ix.LabelValues(ctx, model.MetricNameLabel, nil)
		if err != nil {
			return c, err
		}
		if all, err = ix.Postings(ctx, model.MetricNameLabel, names...); err != nil {
			return c, err
		}
	}
	var lset labels.ScratchBuilder
	var metas []chunks.Meta
	for all.Next() {
		if err := ix.Series(all.At(), &lset, &metas); err != nil {
			c.damage = err
			continue
		}
		c.series++
		c.chunks += uint64(len(metas))
		if len(metas) > 0 { // in the order of their times
			c.first, c.last = min(c.first, metas[0].MinTime), max(c.last, metas[len(metas)-1].MaxTime)
		}
	}
	if err := all.Err(); err != nil {
		c.damage = err
	}
	return c, nil
}

// contradict returns what a block's description says that its index denies, "" if they agree. The database lets a block
// begin and end at a multiple of the span of its smallest blocks, in milliseconds, next to its samples.
func (c contents) contradict(m tsdb.BlockMeta, span int64) string {
	if c.first > c.last {
		return ""
	}
	outside := m.MinTime > c.first || m.MaxTime <= c.last
	beyond := m.MinTime < floor(c.first, span) || m.MaxTime > floor(c.last, span)+span
	switch {
	case outside, beyond && c.damage == nil:
		return fmt.Sprintf("it says that the block holds samples %s, and the index has samples %s",
			span2(m.MinTime, m.MaxTime), span2(c.first, c.last))
	case c.damage == nil && (m.Stats.NumSeries != c.series || m.Stats.NumChunks != c.chunks):
		return fmt.Sprintf("it says that the block holds %d series in %d chunks, and the index has %d in %d", m.Stats.NumSeries, m.Stats.NumChunks, c.series, c.chunks)
	case m.Compaction.Deletable:
		return "it says that the block is empty, and the index has samples"
	}
	return ""
}

// floor returns the largest multiple of step that is not above t.
func floor(t, step int64) int64 {
	if r := t % step; r < 0 {
		return t - r - step
	} else {
		return t - r
	}
}

// span2 says a range of time in Unix milliseconds.
func span2(from, to int64) string { return span(time.UnixMilli(from), time.UnixMilli(to)) }

// checkMeta compares a block's description with its index, and writes it anew if it is missing, unreadable or wrong. It
// does nothing if the index is unreadable or names no samples. It fails if the folder cannot be read or written.
func (s *Store) checkMeta(dir string) (contents, error) {
	c, err := readContents(dir)
	if ours(err) {
		return c, fmt.Errorf("read block %s: %w", filepath.Base(dir), err)
	} else if err != nil || c.first > c.last {
		return c, nil
	}
	m, err := readMeta(dir)
	switch {
	case ours(err):
		return c, fmt.Errorf("read block %s: %w", filepath.Base(dir), err)
	case err != nil && c.damage != nil:
		return c, nil
	case err != nil:
		return c, s.rewriteMeta(dir, c, err.Error())
	}
	if why := c.contradict(m, s.opts.block.Milliseconds()); why != "" {
		return c, s.rewriteMeta(dir, c, why)
	}
	return c, nil
}

// rewriteMeta writes a block's description anew from its index. The number of samples, which the index does not have, is
// left out.
func (s *Store) rewriteMeta(dir string, c contents, why string) error {
	id, err := ulid.ParseStrict(filepath.Base(dir))
	if err != nil {
		return err
	}
	return s.replaceMeta(dir, tsdb.BlockMeta{
		ULID: id, MinTime: c.first, MaxTime: c.last + 1, Version: 1,
		Stats:      tsdb.BlockStats{NumSeries: c.series, NumChunks: c.chunks},
		Compaction: tsdb.BlockMetaCompaction{Level: 1, Sources: []ulid.ULID{id}},
	}, why)
}

// replaceMeta writes a block's description, and puts the old one into the quarantine. Nothing changes on a full disk.
func (s *Store) replaceMeta(dir string, m tsdb.BlockMeta, why string) error {
	b, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, metaName)
	next := path + ".tmp"
	write := func() error { return errors.Join(disk.WriteFile(next, b, 0o644), syncFile(next)) }
	if err = write(); errors.Is(err, unix.ENOSPC) {
		if err = s.reserve.release(); err == nil {
			err = write()
		}
	}
	if err != nil {
		return fmt.Errorf("write %s anew, because %s: %w: free some space, or make the folder writable", path, why, err)
	}
	if exists(path) {
		if err := s.setAside(path, Loss{Kind: "description", Reason: why, Lost: nothing}); err != nil {
			return err
		}
	} else {
		s.log.Warn("the description of a block was missing and is written anew from its index", "file", path)
	}
	if err := errors.Join(disk.Rename(next, path), syncFile(dir)); err != nil {
		return fmt.Errorf("write %s anew: %w", path, err)
	}
	return nil
}

// metaName is the file with a block's description of itself.
const metaName = "meta.json"

// readMeta reads a block's description of itself.
func readMeta(dir string) (m tsdb.BlockMeta, err error) {
	path := filepath.Join(dir, metaName)
	if fi, err := disk.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return m, errors.New("it is not a file")
	}
	b, err := host.ReadRegular(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return m, errors.New("it is missing")
	} else if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, err
	}
	if m.ULID.String() != filepath.Base(dir) || m.MinTime >= m.MaxTime || m.Version != 1 {
		return m, errors.New("it does not describe this block")
	}
	return m, nil
}

// keepParents lets no block name parents that hold more than it does: the database deletes the parents of a block, which
// it leaves if it is stopped in a compaction.
func (s *Store) keepParents() error {
	for _, name := range s.blockFolders() {
		dir := filepath.Join(s.opts.Dir, name)
		m, err := readMeta(dir)
		if err != nil {
			continue // it is gone
		}
		for _, p := range m.Compaction.Parents {
			parent := filepath.Join(s.opts.Dir, p.ULID.String())
			if !exists(parent) {
				continue
			}
			lack, err := lacking(parent, []string{dir})
			if ours(err) {
				return err
			}
			if err == nil && lack.samples == 0 && parent != dir {
				if err := s.discard(parent, []string{dir}); err != nil {
					return err
				}
				continue
			}
			why := "it says that the block replaces " + p.ULID.String() + ", which has other samples"
			if err != nil {
				why = "it says that the block replaces " + p.ULID.String() + ", and they could not be compared: " + err.Error()
			}
			m.Compaction.Parents = nil
			if err := s.replaceMeta(dir, m, why); err != nil {
				return err
			}
			break
		}
	}
	return nil
}
