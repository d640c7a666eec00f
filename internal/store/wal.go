package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/wlog"
)

// cut is a piece that the repair removed from the log.
type cut struct {
	file  string
	bytes int64 // dropped
	// tail: the tear was at the log's very end, as left by a process that was killed
	// while writing; nothing acknowledged was there.
	tail bool
	err  error
}

func (c cut) String() string {
	return fmt.Sprintf("%s: dropped %d bytes: %v", c.file, c.bytes, c.err)
}

// mend makes the log readable from end to end: every segment with a damaged record is
// shortened, in place, to the whole records before it. Unlike the stock repair it needs
// no space and keeps all other segments. The stock database refuses to start on a
// damaged checkpoint; mend shortens it too.
func mend(dir string) ([]cut, error) {
	wal := filepath.Join(dir, "wal")
	if _, err := os.Stat(wal); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var cuts []cut
	from := 0
	checkpoint, idx, err := wlog.LastCheckpoint(wal)
	switch {
	case errors.Is(err, record.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("find checkpoint: %w", err)
	default:
		from = idx + 1
		c, err := mendCheckpoint(checkpoint)
		if err != nil {
			return nil, err
		}
		cuts = append(cuts, c...)
	}
	first, last, err := wlog.Segments(wal)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", wal, err)
	}
	for i := max(first, from, 0); i <= last; i++ {
		c, err := mendSegment(wlog.SegmentName(wal, i))
		if err != nil {
			return nil, err
		}
		if c != nil {
			c.tail = rest(wal, i+1, last) == 0
			cuts = append(cuts, *c)
		}
	}
	return cuts, nil
}

// rest is the size of the segments from i to last.
func rest(wal string, i, last int) (n int64) {
	for ; i <= last; i++ {
		if fi, err := os.Stat(wlog.SegmentName(wal, i)); err == nil {
			n += fi.Size()
		}
	}
	return n
}

func mendCheckpoint(dir string) ([]cut, error) {
	first, last, err := wlog.Segments(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var cuts []cut
	for i := first; i <= last && i >= 0; i++ {
		c, err := mendSegment(wlog.SegmentName(dir, i))
		if err != nil {
			return nil, err
		}
		if c != nil {
			cuts = append(cuts, *c)
		}
	}
	return cuts, nil
}

// mendSegment shortens a segment to its whole records and reports what it removed.
func mendSegment(name string) (*cut, error) {
	good, damage, err := wholeRecords(name)
	if err != nil || damage == nil {
		return nil, err
	}
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := os.Truncate(name, good); err != nil {
		return nil, fmt.Errorf("cut log: %w", err)
	}
	return &cut{file: name, bytes: fi.Size() - good, err: damage}, syncFile(name)
}

// wholeRecords returns the offset at which a segment's last whole record ends, and what
// is wrong after it.
func wholeRecords(name string) (good int64, damage, err error) {
	seg, err := wlog.OpenReadSegment(name)
	if err != nil {
		return 0, nil, fmt.Errorf("read log: %w", err)
	}
	defer seg.Close()
	r := wlog.NewReader(wlog.NewSegmentBufReader(seg))
	for r.Next() {
		good = r.Offset()
	}
	var io *os.PathError
	if errors.As(r.Err(), &io) { // the disk cannot be read, which is no reason to cut
		return 0, nil, fmt.Errorf("read log: %w", r.Err())
	}
	return good, r.Err(), nil
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
