package store

// Checks the blocks of a data folder before the database opens them. Damaged ones go into the quarantine, so the
// database opens with the rest instead of failing.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tombstones"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host"
)

// attempts bounds how often the database is opened: each failed attempt removes at least one part.
const attempts = 100

var (
	blockName    = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`) // a ULID
	corruptBlock = regexp.MustCompile(`corrupted block ([0-9A-Z]{26}): (.*)`)
	headDamage   = regexp.MustCompile(`head chunk|mmap files|invalid magic number|invalid chunk format`)
)

// openSound opens the database. Parts that make it fail, or would give wrong values, go into the quarantine, and the
// rest is opened. Damage that the checks miss is named by the database's error.
func (s *Store) openSound() (*database, error) {
	if err := disk.RemoveAll(s.discarded()); err != nil {
		return nil, err
	}
	if err := s.keepHeadChunks(); err != nil { // links left by a crash
		return nil, err
	}
	held, err := s.checkBlocks()
	if err != nil {
		return nil, err
	}
	if err := s.checkLog(held); err != nil {
		return nil, err
	}
	s.keepLinks()
	for range attempts {
		var db *database
		if db, err = openDatabase(s.opts); err == nil {
			if err := s.keepHeadChunks(); err != nil {
				return nil, errors.Join(err, db.close())
			}
			s.sayNameless(db)
			return db, nil
		}
		if ours(err) {
			return nil, err
		}
		if more := s.setAsideNamed(err); more != nil {
			return nil, errors.Join(err, more)
		}
	}
	return nil, err
}

// sayNameless reports samples of the log that a replay left out, because the names of their series are gone: a segment that is empty, or
// was cut at a record's end, does not show it otherwise.
func (s *Store) sayNameless(db *database) {
	count := func(of string) float64 { return counterOf(db.reg, "prometheus_tsdb_wal_replay_unknown_refs_total", of) }
	if n := count("samples"); n > 0 {
		l := Loss{Part: walName, Kind: "log", Reason: "it lacks the names of series, so a part of it was emptied", From: s.lastBlockEnd(), To: s.opts.Now().Truncate(time.Second)}
		l.Lost = fmt.Sprintf("%.0f samples of %.0f series %s", n, count("series"), span(l.From, l.To))
		s.lose(l)
	}
}

// ours reports whether an error comes from the machine and not from damaged data, so
// that moving data away does not help.
func ours(err error) bool {
	for _, e := range []error{unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// setAsideNamed puts the parts that an error of opening names into the quarantine. If it names none, first the log
// goes, then all blocks, so the monitor starts.
func (s *Store) setAsideNamed(err error) error {
	if found := corruptBlock.FindAllStringSubmatch(err.Error(), -1); found != nil {
		for _, m := range found {
			if _, err := s.setAsideBlock(m[1], m[2]); err != nil {
				return err
			}
		}
		return nil
	}
	head, wal := filepath.Join(s.opts.Dir, headName), filepath.Join(s.opts.Dir, walName)
	moveHead := func(l Loss) error {
		if err := s.keepHeadChunks(); err != nil { // while it is seen which of them are gone
			return err
		}
		return s.setAside(head, l)
	}
	if exists(head) && headDamage.MatchString(err.Error()) {
		return moveHead(Loss{Kind: "head chunks", Reason: err.Error(), Lost: nothing})
	}
	if exists(wal) {
		l := Loss{Kind: "log", Reason: err.Error()}
		l.From, l.To = s.lastBlockEnd(), s.opts.Now().Truncate(time.Second)
		l.Lost = "samples " + span(l.From, l.To)
		if exists(head) { // without the log, its chunks have no names
			if err := moveHead(l); err != nil {
				return err
			}
		}
		return s.setAside(wal, l)
	}
	blocks := s.blockFolders()
	if len(blocks) == 0 {
		return errors.New("nothing is left to move away")
	}
	for _, b := range blocks {
		if _, err := s.setAsideBlock(b, err.Error()); err != nil {
			return err
		}
	}
	return nil
}

// setAsideBlock puts a block into the quarantine, or only its tombstones if those are damaged, and reports which.
// Tombstones are always empty, because the store deletes no series.
func (s *Store) setAsideBlock(name, reason string) (stays bool, err error) {
	dir := filepath.Join(s.opts.Dir, name)
	if err := readTombstones(dir); err != nil && !ours(err) {
		return true, s.setAside(filepath.Join(dir, tombstones.TombstonesFilename), Loss{Kind: "tombstones", Reason: err.Error(), Lost: nothing})
	}
	l := Loss{Kind: "block", Reason: reason}
	m, err := readMeta(dir)
	if err != nil {
		// Its name holds the time of writing, so all data is older.
		if t, ok := ulidTime(name); ok {
			l.To = t
		}
		l.Lost = "samples " + span(l.From, l.To)
		return false, s.setAside(dir, l)
	}
	l.From, l.To = time.UnixMilli(m.MinTime), time.UnixMilli(m.MaxTime)
	l.Lost = fmt.Sprintf("samples of %d series %s", m.Stats.NumSeries, span(l.From, l.To))
	return false, s.setAside(dir, l)
}

// readTombstones reads a block's tombstones; a block without any has none.
func readTombstones(dir string) error {
	if fi, err := disk.Stat(filepath.Join(dir, tombstones.TombstonesFilename)); err == nil && !fi.Mode().IsRegular() {
		return errors.New("they are not a file")
	}
	_, _, err := tombstones.ReadTombstones(dir)
	return err
}

// checkNames puts into the quarantine what has a block's name and is not a folder. The database would leave it out without a word.
func (s *Store) checkNames() error {
	entries, err := disk.ReadDir(s.opts.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !blockName.MatchString(e.Name()) {
			continue
		}
		l := Loss{Kind: "block", Reason: "it is not a folder"}
		if t, ok := ulidTime(e.Name()); ok { // of writing, so all data is older
			l.To = t
		}
		l.Lost = "samples " + span(l.From, l.To)
		if err := s.setAside(filepath.Join(s.opts.Dir, e.Name()), l); err != nil {
			return err
		}
	}
	return nil
}

// checkBlocks puts into the quarantine the blocks that cannot be opened, and those with damage that the database
// overlooks when it opens them. It runs before opening, because a database that fails to open leaves files open.
// It returns what the blocks that stay hold, by their folders.
func (s *Store) checkBlocks() (map[string]contents, error) {
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	held := map[string]contents{}
	for _, name := range s.blockFolders() {
		dir := filepath.Join(s.opts.Dir, name)
		c, err := s.checkMeta(dir)
		if err != nil {
			return nil, err
		}
		held[dir] = c
		check := func() error {
			err := checkBlock(dir)
			if err == nil && c.first > c.last { // what its description says cannot be compared
				err = cmp.Or(c.damage, errors.New("its index names no samples"))
			}
			return err
		}
		err = check()
		if ours(err) {
			return nil, fmt.Errorf("read block %s: %w", name, err)
		} else if err == nil {
			continue
		}
		stays, err := s.setAsideBlock(name, err.Error())
		if err == nil && stays { // only its tombstones were damaged, or there is more damage
			if err = check(); err != nil {
				_, err = s.setAsideBlock(name, err.Error())
			}
		}
		if err != nil {
			return nil, err
		}
	}
	err := s.keepParents()
	maps.DeleteFunc(held, func(dir string, _ contents) bool { return !exists(dir) })
	return held, err
}

// checkBlock opens a block and closes it. It also finds an unreadable description, which the database ignores
// although later compactions fail on it, and a missing file of chunks, instead of which the database would read the
// next one.
func checkBlock(dir string) (err error) {
	defer recovered("open block", &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector of a mapped file
	if _, err := readMeta(dir); err != nil {
		return fmt.Errorf("read %s: %w", metaName, err)
	}
	files, err := disk.ReadDir(filepath.Join(dir, "chunks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	i := 0
	for _, f := range files {
		n, err := strconv.ParseUint(f.Name(), 10, 64)
		if err != nil {
			continue
		}
		if i++; n != uint64(i) || len(f.Name()) != 6 {
			return fmt.Errorf("its file of chunks %06d is missing", i)
		}
	}
	if err := readTombstones(dir); err != nil {
		return fmt.Errorf("read its tombstones: %w", err)
	}
	b, err := tsdb.OpenBlock(nil, dir, nil, nil)
	if err != nil {
		return err
	}
	return b.Close()
}

// blockFolders are the names of the blocks' folders, in order.
func (s *Store) blockFolders() (out []string) {
	entries, err := disk.ReadDir(s.opts.Dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && blockName.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// lastBlockEnd returns the time at which the blocks end and the log begins; zero without blocks.
func (s *Store) lastBlockEnd() (end time.Time) {
	for _, name := range s.blockFolders() {
		if m, err := readMeta(filepath.Join(s.opts.Dir, name)); err == nil && time.UnixMilli(m.MaxTime).After(end) {
			end = time.UnixMilli(m.MaxTime)
		}
	}
	return end
}

// exists reports whether something is at a path, or may be: it cannot be looked at.
func exists(path string) bool {
	_, err := disk.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// headName is the folder of the chunks of the head.
const headName = "chunks_head"

// filesIn returns the paths of what is in a folder, sorted; nothing if it cannot be listed.
func filesIn(dir string) []string {
	var out []string
	entries, _ := disk.ReadDir(dir)
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out
}

// linked is the folder of second names for the files of the head's chunks.
func (s *Store) linked() string { return filepath.Join(s.opts.Dir, quarantineName, ".head") }

// keepLinks links the files of the head's chunks under a second name while the database opens, because opening
// deletes damaged ones.
func (s *Store) keepLinks() {
	files := filesIn(filepath.Join(s.opts.Dir, headName))
	if len(files) == 0 || disk.MkdirAll(s.linked(), 0o755) != nil {
		return
	}
	for _, f := range files {
		_ = disk.Link(f, filepath.Join(s.linked(), filepath.Base(f))) // without links the database's own repair deletes them
	}
}

// keepHeadChunks puts the files that the database deleted into the quarantine. The log has their data too.
func (s *Store) keepHeadChunks() error {
	kept := s.linked()
	gone := 0
	for _, f := range filesIn(kept) {
		a, err := disk.Stat(f)
		b, none := disk.Stat(filepath.Join(s.opts.Dir, headName, filepath.Base(f)))
		switch {
		case err == nil && none == nil && os.SameFile(a, b), // not a new one of that name
			isBlank(f):
			_ = disk.Remove(f)
		default:
			gone++
		}
	}
	if gone == 0 {
		return disk.RemoveAll(kept)
	}
	return s.setAside(kept, Loss{Part: headName, Kind: "head chunks", Reason: "their checksums do not match", Lost: nothing})
}

// isBlank reports whether a file holds nothing but zeros, as one does that was allocated and not written.
func isBlank(name string) bool {
	b, err := host.ReadRegular(name, mostChunks)
	return err == nil && blank(b)
}

// ulidTime returns the time in a ULID: its first ten characters are milliseconds in Crockford's base 32.
func ulidTime(name string) (time.Time, bool) {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var ms int64
	for _, c := range []byte(name[:10]) {
		i := slices.Index([]byte(digits), c)
		if i < 0 {
			return time.Time{}, false
		}
		ms = ms<<5 | int64(i)
	}
	return time.UnixMilli(ms), true
}
