package repair

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

// Contents are what a block's index says about the block.
type Contents struct {
	First, Last    int64 // the times of its first and last samples, in Unix milliseconds; first > last without samples
	Series, chunks uint64
	damage         error // of an entry of the index: the block may hold more than this
}

// ReadContents reads a block's index. It fails if the index cannot be opened, or has no sound list of the series. If only
// the list of all is damaged, those with a name are listed.
func ReadContents(dir string) (c Contents, err error) {
	defer RecoverError("read index", &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector of a mapped file
	c.First, c.Last = math.MaxInt64, math.MinInt64
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
		c.Series++
		c.chunks += uint64(len(metas))
		if len(metas) > 0 { // in the order of their times
			c.First, c.Last = min(c.First, metas[0].MinTime), max(c.Last, metas[len(metas)-1].MaxTime)
		}
	}
	if err := all.Err(); err != nil {
		c.damage = err
	}
	return c, nil
}

// contradict returns what a block's description says that its index denies, "" if they agree. The database lets a block
// begin and end at a multiple of the span of its smallest blocks, in milliseconds, next to its samples.
func (c Contents) contradict(m tsdb.BlockMeta, span int64) string {
	if c.First > c.Last {
		return ""
	}
	outside := m.MinTime > c.First || m.MaxTime <= c.Last
	beyond := m.MinTime < floor(c.First, span) || m.MaxTime > floor(c.Last, span)+span
	switch {
	case outside, beyond && c.damage == nil:
		return fmt.Sprintf("it says that the block holds samples %s, and the index has samples %s",
			span2(m.MinTime, m.MaxTime), span2(c.First, c.Last))
	case c.damage == nil && (m.Stats.NumSeries != c.Series || m.Stats.NumChunks != c.chunks):
		return fmt.Sprintf("it says that the block holds %d series in %d chunks, and the index has %d in %d", m.Stats.NumSeries, m.Stats.NumChunks, c.Series, c.chunks)
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
func span2(from, to int64) string { return SpanText(time.UnixMilli(from), time.UnixMilli(to)) }

// checkMeta compares a block's description with its index, and writes it anew if it is missing, unreadable or wrong. It
// does nothing if the index is unreadable or names no samples. It fails if the folder cannot be read or written.
func (d Folder) checkMeta(dir string) (Contents, error) {
	c, err := ReadContents(dir)
	if FromMachine(err) {
		return c, fmt.Errorf("read block %s: %w", filepath.Base(dir), err)
	} else if err != nil || c.First > c.Last {
		return c, nil
	}
	m, err := readMeta(dir)
	switch {
	case FromMachine(err):
		return c, fmt.Errorf("read block %s: %w", filepath.Base(dir), err)
	case err != nil && c.damage != nil:
		return c, nil
	case err != nil:
		return c, d.rewriteMeta(dir, c, err.Error())
	}
	if why := c.contradict(m, d.Block.Milliseconds()); why != "" {
		return c, d.rewriteMeta(dir, c, why)
	}
	return c, nil
}

// rewriteMeta writes a block's description anew from its index. The number of samples, which the index does not have, is
// left out.
func (d Folder) rewriteMeta(dir string, c Contents, why string) error {
	id, err := ulid.ParseStrict(filepath.Base(dir))
	if err != nil {
		return err
	}
	return d.replaceMeta(dir, tsdb.BlockMeta{
		ULID: id, MinTime: c.First, MaxTime: c.Last + 1, Version: 1,
		Stats:      tsdb.BlockStats{NumSeries: c.Series, NumChunks: c.chunks},
		Compaction: tsdb.BlockMetaCompaction{Level: 1, Sources: []ulid.ULID{id}},
	}, why)
}

// replaceMeta writes a block's description, and puts the old one into the quarantine. Nothing changes on a full disk.
func (d Folder) replaceMeta(dir string, m tsdb.BlockMeta, why string) error {
	b, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, metaName)
	next := path + ".tmp"
	write := func() error { return errors.Join(disk.WriteFile(next, b, 0o644), disk.Sync(next)) }
	if err = write(); errors.Is(err, unix.ENOSPC) {
		if err = d.Reserve.Release(); err == nil {
			err = write()
		}
	}
	if err != nil {
		return fmt.Errorf("write %s anew, because %s: %w: free some space, or make the folder writable", path, why, err)
	}
	if Exists(path) {
		if err := d.setAside(path, Loss{Kind: "description", Reason: why, Lost: LostNothing}); err != nil {
			return err
		}
	} else {
		d.Log.Warn("the description of a block was missing and is written anew from its index", "file", path)
	}
	if err := errors.Join(disk.Rename(next, path), disk.Sync(dir)); err != nil {
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
func (d Folder) keepParents() error {
	for _, name := range d.blockFolders() {
		dir := filepath.Join(d.Dir, name)
		m, err := readMeta(dir)
		if err != nil {
			continue // it is gone
		}
		for _, p := range m.Compaction.Parents {
			parent := filepath.Join(d.Dir, p.ULID.String())
			if !Exists(parent) {
				continue
			}
			lack, err := lacking(parent, []string{dir})
			if FromMachine(err) {
				return err
			}
			if err == nil && lack.samples == 0 && parent != dir {
				if err := d.Discard(parent, []string{dir}); err != nil {
					return err
				}
				continue
			}
			why := "it says that the block replaces " + p.ULID.String() + ", which has other samples"
			if err != nil {
				why = "it says that the block replaces " + p.ULID.String() + ", and they could not be compared: " + err.Error()
			}
			m.Compaction.Parents = nil
			if err := d.replaceMeta(dir, m, why); err != nil {
				return err
			}
			break
		}
	}
	return nil
}
