package repair

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

var (
	blockName    = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`) // a ULID
	corruptBlock = regexp.MustCompile(`corrupted block ([0-9A-Z]{26}): (.*)`)
	headDamage   = regexp.MustCompile(`head chunk|mmap files|invalid magic number|invalid chunk format`)
)

// FromMachine reports whether an error comes from the machine and not from damaged data, so
// that moving data away does not help.
func FromMachine(err error) bool {
	for _, e := range []error{unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// SetAsideNamed puts the parts that an error of opening names into the quarantine. If it names none, first the log
// goes, then all blocks, so the monitor starts.
func (d Folder) SetAsideNamed(err error) error {
	if found := corruptBlock.FindAllStringSubmatch(err.Error(), -1); found != nil {
		for _, m := range found {
			if _, err := d.SetAsideBlock(m[1], m[2]); err != nil {
				return err
			}
		}
		return nil
	}
	head, wal := filepath.Join(d.Dir, HeadName), filepath.Join(d.Dir, LogName)
	moveHead := func(l Loss) error {
		if err := d.KeepHeadChunks(); err != nil { // while it is seen which of them are gone
			return err
		}
		return d.setAside(head, l)
	}
	if Exists(head) && headDamage.MatchString(err.Error()) {
		return moveHead(Loss{Kind: "head chunks", Reason: err.Error(), Lost: LostNothing})
	}
	if Exists(wal) {
		l := Loss{Kind: "log", Reason: err.Error()}
		l.From, l.To = d.LastBlockEnd(), d.Now().Truncate(time.Second)
		l.Lost = "samples " + SpanText(l.From, l.To)
		if Exists(head) { // without the log, its chunks have no names
			if err := moveHead(l); err != nil {
				return err
			}
		}
		return d.setAside(wal, l)
	}
	blocks := d.blockFolders()
	if len(blocks) == 0 {
		return errors.New("no damaged file is left that could be set aside")
	}
	for _, b := range blocks {
		if _, err := d.SetAsideBlock(b, err.Error()); err != nil {
			return err
		}
	}
	return nil
}

// SetAsideBlock puts a block into the quarantine, or only its tombstones if those are damaged, and reports which.
// Tombstones are always empty, because the store deletes no series.
func (d Folder) SetAsideBlock(name, reason string) (stays bool, err error) {
	dir := filepath.Join(d.Dir, name)
	if err := readTombstones(dir); err != nil && !FromMachine(err) {
		return true, d.setAside(filepath.Join(dir, tombstones.TombstonesFilename), Loss{Kind: "tombstones", Reason: err.Error(), Lost: LostNothing})
	}
	l := Loss{Kind: "block", Reason: reason}
	m, err := readMeta(dir)
	if err != nil {
		// Its name holds the time of writing, so all data is older.
		if t, ok := ulidTime(name); ok {
			l.To = t
		}
		l.Lost = "samples " + SpanText(l.From, l.To)
		return false, d.setAside(dir, l)
	}
	l.From, l.To = time.UnixMilli(m.MinTime), time.UnixMilli(m.MaxTime)
	l.Lost = fmt.Sprintf("samples of %d series %s", m.Stats.NumSeries, SpanText(l.From, l.To))
	return false, d.setAside(dir, l)
}

// readTombstones reads a block's tombstones; a block without any has none.
func readTombstones(dir string) (err error) {
	defer RecoverError("read tombstones", &err) // the database's reader panics at a file of fewer than ten bytes
	if fi, err := disk.Stat(filepath.Join(dir, tombstones.TombstonesFilename)); err == nil && !fi.Mode().IsRegular() {
		return errors.New("they are not a file")
	}
	_, _, err = tombstones.ReadTombstones(dir)
	return err
}

// checkNames puts into the quarantine what has a block's name and is not a folder. The database would leave it out without a word.
func (d Folder) checkNames() error {
	entries, err := disk.ReadDir(d.Dir)
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
		l.Lost = "samples " + SpanText(l.From, l.To)
		if err := d.setAside(filepath.Join(d.Dir, e.Name()), l); err != nil {
			return err
		}
	}
	return nil
}

// checkBlocks puts into the quarantine the blocks that cannot be opened, and those with damage that the database
// overlooks when it opens them. It runs before opening, because a database that fails to open leaves files open.
// It returns what the blocks that stay hold, by their folders.
func (d Folder) checkBlocks() (map[string]Contents, error) {
	if err := d.checkNames(); err != nil {
		return nil, err
	}
	held := map[string]Contents{}
	for _, name := range d.blockFolders() {
		dir := filepath.Join(d.Dir, name)
		c, err := d.checkMeta(dir)
		if err != nil {
			return nil, err
		}
		held[dir] = c
		check := func() error {
			err := checkBlock(dir)
			if err == nil && c.First > c.Last { // what its description says cannot be compared
				err = cmp.Or(c.damage, errors.New("its index names no samples"))
			}
			return err
		}
		err = check()
		if FromMachine(err) {
			return nil, fmt.Errorf("read block %s: %w", name, err)
		} else if err == nil {
			continue
		}
		stays, err := d.SetAsideBlock(name, err.Error())
		if err == nil && stays { // only its tombstones were damaged, or there is more damage
			if err = check(); err != nil {
				_, err = d.SetAsideBlock(name, err.Error())
			}
		}
		if err != nil {
			return nil, err
		}
	}
	err := d.keepParents()
	maps.DeleteFunc(held, func(dir string, _ Contents) bool { return !Exists(dir) })
	return held, err
}

// checkBlock opens a block and closes it. It also finds an unreadable description, which the database ignores
// although later compactions fail on it, and a missing file of chunks, instead of which the database would read the
// next one.
func checkBlock(dir string) (err error) {
	defer RecoverError("open block", &err)
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
func (d Folder) blockFolders() (out []string) {
	entries, err := disk.ReadDir(d.Dir)
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

// LastBlockEnd returns the time at which the blocks end and the log begins; zero without blocks.
func (d Folder) LastBlockEnd() (end time.Time) {
	for _, name := range d.blockFolders() {
		if m, err := readMeta(filepath.Join(d.Dir, name)); err == nil && time.UnixMilli(m.MaxTime).After(end) {
			end = time.UnixMilli(m.MaxTime)
		}
	}
	return end
}

// Exists reports whether something is at a path, or may be: it cannot be looked at.
func Exists(path string) bool {
	_, err := disk.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// HeadName is the folder of the chunks of the head.
const HeadName = "chunks_head"

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
func (d Folder) linked() string { return filepath.Join(d.Dir, QuarantineName, ".head") }

// LinkHeadChunks links the files of the head's chunks under a second name while the database opens, because opening
// deletes damaged ones.
func (d Folder) LinkHeadChunks() {
	files := filesIn(filepath.Join(d.Dir, HeadName))
	if len(files) == 0 || disk.MkdirAll(d.linked(), 0o755) != nil {
		return
	}
	for _, f := range files {
		_ = disk.Link(f, filepath.Join(d.linked(), filepath.Base(f))) // without links the database's own repair deletes them
	}
}

// KeepHeadChunks puts the files that the database deleted into the quarantine. The log has their data too.
func (d Folder) KeepHeadChunks() error {
	kept := d.linked()
	gone := 0
	for _, f := range filesIn(kept) {
		a, err := disk.Stat(f)
		b, none := disk.Stat(filepath.Join(d.Dir, HeadName, filepath.Base(f)))
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
	return d.setAside(kept, Loss{Part: HeadName, Kind: "head chunks", Reason: "their checksums do not match", Lost: LostNothing})
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

// BlocksIn lists the blocks in a folder.
func BlocksIn(folder string) (out []string) {
	entries, _ := disk.ReadDir(folder)
	for _, e := range entries {
		if blockName.MatchString(e.Name()) {
			out = append(out, filepath.Join(folder, e.Name()))
		}
	}
	return out
}
