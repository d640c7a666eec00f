package repair

// Repairs the write-ahead log before the database replays it: cuts an incomplete last record, and writes what is
// readable of a damaged log to a block.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/store/space"
)

// checkLog makes the log replayable. It cuts off an incomplete last record. Of a log with a hole, it writes
// everything readable to a block, and the log begins anew: otherwise new series could get the references of series
// whose names are lost, and with them their samples. held are the contents of the blocks, by folder.
func (d Folder) checkLog(held map[string]Contents) error {
	wal, head := filepath.Join(d.Dir, LogName), filepath.Join(d.Dir, HeadName)
	if err := d.checkFolders(wal, head); err != nil {
		return err
	}
	var l *logged
	var end time.Time
	var onDisk headChunks
	headless := false // the head's chunks lack their first ones
	for hidden := true; hidden; {
		end = d.LastBlockEnd()
		onDisk = readHeadChunks(head, end.UnixMilli(), d.Now())
		cover := coversOf(held)
		late := lateChunks{end: end.UnixMilli(), headChunks: onDisk}
		var err error
		l, err = lookAtLog(wal, visitor{sample: func(ref uint64, t int64) {
			late.observe(ref, t)
			cover.observe(t)
		}})
		if err != nil {
			return err
		}
		if hidden, err = d.uncover(cover, held); err != nil {
			return err
		}
		headless = late.found
	}
	l.checkReplaced(end.UnixMilli())
	if onDisk.last > l.last {
		l.endless = true
		l.broke("segments at its end are missing, with the names of series")
	}
	if len(l.broken) == 0 {
		if headless {
			if err := d.setAside(head, Loss{Kind: "head chunks", Reason: "the first of them are missing, and the log has their samples", Lost: LostNothing}); err != nil {
				return err
			}
		}
		for _, g := range l.segments {
			if g.damage != nil {
				return d.cutTail(g)
			}
		}
		return nil
	}
	found, err := d.salvage(l, end, headless)
	if err != nil {
		return err
	}
	for _, g := range l.all() {
		d.Cut(g.size - g.good)
	}
	loss := l.loss(found, end, onDisk.to, d.Interval, d.Now())
	if !Exists(wal) {
		loss.Kind = "head chunks"
		return d.setAside(head, loss)
	}
	if err := d.joinHead(wal); err != nil {
		return err
	}
	return d.setAside(wal, loss)
}

// joinHead moves the head's chunks into the log, which goes next: they must never be combined with the names of another log.
func (d Folder) joinHead(wal string) error {
	head, inside := filepath.Join(d.Dir, HeadName), filepath.Join(wal, HeadName)
	for i := 2; i <= mostOfName && Exists(inside); i++ { // a crash has left others there
		inside = filepath.Join(wal, fmt.Sprintf("%s.%d", HeadName, i))
	}
	if err := disk.Rename(head, inside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move %s to %s, because the log goes: %w: make the folder writable", head, inside, err)
	}
	return nil
}

// checkFolders puts what is not a folder, and should be one, into the quarantine: the log with the head's chunks, which
// have no names without it, or the head's chunks alone.
func (d Folder) checkFolders(wal, head string) error {
	const why = "it is not a folder"
	isNot := func(path string) bool {
		fi, err := disk.Stat(path)
		return err == nil && !fi.IsDir() || errors.Is(err, unix.ELOOP)
	}
	if isNot(wal) {
		l := Loss{Kind: "log", Reason: why, From: d.LastBlockEnd(), To: d.Now().Truncate(time.Second)}
		l.Lost = "samples " + SpanText(l.From, l.To)
		if err := d.setAside(wal, l); err != nil {
			return err
		}
	}
	if isNot(head) {
		return d.setAside(head, Loss{Kind: "head chunks", Reason: why, Lost: LostNothing})
	}
	return nil
}

// lateChunks finds out whether the head's chunks begin after samples that they should hold. The database replays no sample
// of the log that is older than the newest chunk of its series, so those would be missing.
type lateChunks struct {
	headChunks
	end   int64 // of the blocks, in Unix milliseconds
	found bool
}

func (l *lateChunks) observe(ref uint64, t int64) {
	if begin, ok := l.begin[ref]; ok && t >= l.end && t < begin {
		l.found = true
	}
}

// cover is a span of time in which a block says that it may have samples, and has none.
type cover struct {
	dir      string
	from, to int64 // in Unix milliseconds; to is not part of it
	found    int64 // a sample of the log in it; 0 without one
}

// covers are those of all blocks. The database reads no sample of the log in them, because a block should have it.
type covers struct {
	all  []cover
	last int64
}

func coversOf(held map[string]Contents) *covers {
	c := &covers{}
	for dir, h := range held {
		if m, err := readMeta(dir); err == nil && h.damage == nil && h.First <= h.Last && m.MaxTime > h.Last+1 {
			c.all = append(c.all, cover{dir: dir, from: h.Last + 1, to: m.MaxTime})
		}
	}
	return c
}

func (c *covers) observe(t int64) {
	if t == c.last { // a round has one time
		return
	}
	c.last = t
	for i := range c.all {
		if e := &c.all[i]; t >= e.from && t < e.to {
			e.found = t
		}
	}
}

// uncover writes the descriptions of the blocks anew that cover samples of the log and do not hold them, and reports
// whether there were any.
func (d Folder) uncover(c *covers, held map[string]Contents) (found bool, err error) {
	for _, e := range c.all {
		elsewhere := false
		for _, h := range held {
			elsewhere = elsewhere || e.found >= h.First && e.found <= h.Last
		}
		if e.found == 0 || elsewhere {
			continue
		}
		found = true
		if err := d.rewriteMeta(e.dir, held[e.dir], fmt.Sprintf("it says that the block ends at %s, and the log has samples from before that which the block lacks",
			time.UnixMilli(e.to).UTC().Format(time.DateTime+" UTC"))); err != nil {
			return found, err
		}
	}
	return found, nil
}

// salvaged counts what a salvage found no name for.
type salvaged struct {
	err     error // nothing could be read
	series  int   // references without a name
	samples int   // their samples
}

// ChunkFile is the size of a salvaged block's files of chunks: the usual 512 MiB may be more than the disk has.
const ChunkFile = 8 << 20

// salvage reads the rest of a log in a separate folder of second names, and writes it to a block. The data folder is
// unchanged until that block is complete. Head chunks that lack their first ones are left out: they would hide the log's
// samples.
func (d Folder) salvage(l *logged, end time.Time, headless bool) (out salvaged, err error) {
	n, err := space.Free(d.Dir)
	if err != nil {
		return out, err
	}
	if need := 2*l.size() + ChunkFile + 2<<20; n < need {
		if err := d.Reserve.Release(); err != nil {
			return out, err
		}
		if n, err = space.Free(d.Dir); err != nil {
			return out, err
		} else if n < need {
			return out, fmt.Errorf("disk of %s is full: %s free, %s needed to read a damaged log: free some space: %w", d.Dir, space.Text(n), space.Text(need), space.ErrNoSpace)
		}
	}
	stage := filepath.Join(d.Dir, QuarantineName, ".salvage")
	if err := disk.RemoveAll(stage); err != nil { // second names left by a crash
		return out, err
	}
	defer func() { err = errors.Join(err, disk.RemoveAll(stage)) }()
	if err := l.restage(filepath.Join(stage, "wal")); err != nil {
		return out, fmt.Errorf("read a damaged log: %w", err)
	}
	if err := disk.Mkdir(filepath.Join(stage, HeadName), 0o755); err != nil {
		return out, err
	}
	for _, f := range filesIn(filepath.Join(d.Dir, HeadName)) {
		if headless {
			break
		}
		if err := link(f, filepath.Join(stage, HeadName, filepath.Base(f)), -1); err != nil {
			return out, fmt.Errorf("read a damaged log: %w", err)
		}
	}
	db, err := d.Replay(stage)
	if err != nil && !FromMachine(err) {
		if err := disk.RemoveAll(filepath.Join(stage, HeadName)); err != nil {
			return out, err
		}
		db, err = d.Replay(stage)
	}
	if FromMachine(err) {
		return out, err
	} else if err != nil {
		out.err = err
		return out, nil
	}
	samples, series := db.Nameless()
	out.samples, out.series = int(samples), int(series)
	err = db.CutHead(end.UnixMilli())
	if err = errors.Join(err, db.Close()); err != nil {
		return out, fmt.Errorf("write what is left of a damaged log: %w: free some space", err)
	}
	blocks, err := disk.ReadDir(stage)
	if err != nil {
		return out, err
	}
	for _, b := range blocks {
		if !blockName.MatchString(b.Name()) {
			continue
		}
		if err := disk.Rename(filepath.Join(stage, b.Name()), filepath.Join(d.Dir, b.Name())); err != nil {
			return out, fmt.Errorf("keep what is left of a damaged log: %w", err)
		}
	}
	return out, disk.Sync(d.Dir)
}

// restage makes a folder with everything readable of a log, numbered from 0 in the order of its samples. The
// checkpoint's records are treated like any others.
func (l *logged) restage(dir string) error {
	if err := disk.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, g := range l.all() {
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
	out := slices.Concat(l.replaced, l.segments)
	var before int64
	for i := range out {
		if out[i].from != 0 {
			before = out[i].from
		}
		out[i].place = before
	}
	slices.SortStableFunc(out, func(a, b segment) int { return cmp.Compare(a.place, b.place) })
	return out
}

// link gives a file a second name. It copies its first bytes instead if size is not negative or the file system has
// no links.
func link(from, to string, size int64) error {
	if size < 0 && disk.Link(from, to) == nil {
		return nil
	}
	in, err := disk.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := disk.Create(to)
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
	out := Loss{Kind: "log", Reason: strings.Join(l.broken, "; "), Lost: LostNothing}
	var from, to int64
	begin := max(end.UnixMilli(), 0) // of the log
	hole := func(a, b int64) {
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
	before, open := l.checkpoint, false // a hole is open until the next sample
	for i, g := range order {
		if g.index > l.checkpoint {
			open = open || g.index != before+1
			before = g.index
		}
		if g.from != 0 {
			if open {
				hole(last, g.from)
			}
			last, open = max(last, g.to), false
		}
		open = open || g.damage != nil && !(g.torn && i == len(order)-1)
	}
	switch {
	case found.err != nil:
		hole(begin, now.UnixMilli())
	case len(order) == 0 || l.endless || open || slices.Contains(l.nofile, before+1):
		hole(last, now.UnixMilli())
	case found.series > 0 && to == 0:
		hole(begin, last)
	}
	last = max(last, headEnd)
	if to == 0 && found.series == 0 {
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
	out.Lost = "some samples " + SpanText(out.From, out.To)
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
