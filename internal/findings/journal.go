package findings

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host"
)

// Journal is an open file of lines. A crash damages at most the last line. It is always read in full, so its owner
// keeps it short. All methods but Read need one caller at a time; two processes must not open the same file.
type Journal struct {
	path string
	f    *disk.File
	end  int64 // length of the whole lines
	torn bool  // the remains of a failed write after end could not be cut off

	// Kept is the file with what was there before and cannot be read, "" without any; and Cut the length of a last line without its end.
	Kept string
	Cut  int64
}

// OpenJournal opens a file, or creates it and its folder, and passes each complete line to each, without its line
// end. It leaves out an incomplete last line, which the next write cuts off. What is in the place of the file or the folder, and is none, is
// renamed.
func OpenJournal(path string, each func(line []byte)) (*Journal, error) {
	if _, err := host.MoveAside(filepath.Dir(path), true); err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	kept, err := host.MoveAside(path, false)
	if err != nil {
		return nil, err
	}
	f, err := disk.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: path, f: f, Kept: kept}
	if err := j.load(each); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return j, nil
}

// load reads all lines, and notes an incomplete last one. That stays until the next write, so WriteChanges still copies it.
func (j *Journal) load(each func(line []byte)) (err error) {
	if j.end, err = scan(j.f, each); err != nil {
		return err
	}
	fi, err := j.f.Stat()
	if err != nil {
		return err
	}
	j.Cut = fi.Size() - j.end
	j.torn = j.Cut > 0
	return nil
}

// KeepDamaged copies the file as it is to PATH.damaged, or to PATH.damaged.2 and so on where that is taken by something else, and sets Kept: for
// one with lines that cannot be read, before it is written again. Without room for a copy, or with mostCopies of them, there is none.
func (j *Journal) KeepDamaged() {
	b, err := host.ReadRegular(j.path, mostKept)
	if err != nil {
		return
	}
	name := j.path + ".damaged"
	for i := 2; i <= mostCopies+1; i++ {
		had, err := host.ReadRegular(name, mostKept)
		switch {
		case err == nil && bytes.Equal(had, b):
			j.Kept = name
			return
		case errors.Is(err, fs.ErrNotExist):
			if WriteFile(name, b) == nil {
				j.Kept = name
			}
			return
		}
		name = fmt.Sprintf("%s.damaged.%d", j.path, i)
	}
}

const (
	// mostKept is the longest file of which a copy is kept, in bytes.
	mostKept = 64 << 20
	// mostCopies is how many copies are kept.
	mostCopies = 5
)

// scan passes each whole line to each and returns their length.
func scan(r io.Reader, each func(line []byte)) (end int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil // a line without its end is incomplete
		}
		if err != nil {
			return end, err
		}
		end += int64(len(line))
		each(unsealed(line[:len(line)-1]))
	}
}

// Read passes each line of the file to each. Others may append at the same time.
func (j *Journal) Read(each func(line []byte)) error {
	f, err := disk.Open(j.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := scan(f, each); err != nil {
		return fmt.Errorf("read %s: %w", j.path, err)
	}
	return nil
}

// Append adds lines. When it returns nil they are on disk. After an error, such as a full disk, none of them is, and
// the earlier lines are intact.
func (j *Journal) Append(lines ...[]byte) error {
	if j.torn {
		if err := j.f.Truncate(j.end); err != nil {
			return fmt.Errorf("append to %s: cut off a failed write: %w", j.path, err)
		}
		j.torn = false
	}
	b, err := joined(lines)
	if err == nil {
		if _, err = j.f.WriteAt(b, j.end); err == nil {
			err = j.f.Sync()
		}
		if err != nil {
			j.torn = j.f.Truncate(j.end) != nil
		}
	}
	if err != nil {
		return fmt.Errorf("append to %s: %w", j.path, err)
	}
	j.end += int64(len(b))
	return nil
}

// Replace replaces all lines of the file; after an error the file is unchanged.
func (j *Journal) Replace(lines ...[]byte) error {
	b, err := joined(lines)
	if err != nil {
		return fmt.Errorf("replace %s: %w", j.path, err)
	}
	f, err := replace(j.path, b)
	if err != nil {
		return err
	}
	_ = j.f.Close() // its file has lost its name
	j.f, j.end, j.torn = f, int64(len(b)), false
	return nil
}

// Size is the length of the file in bytes.
func (j *Journal) Size() int64 { return j.end }

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }

// sumFormat is the last member of a line that is a JSON object: the checksum of the line without it. Readers that do not know it skip it.
const sumFormat = `,"sum":"%08x"}`

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed is a line with its checksum.
func sealed(line []byte) []byte {
	if len(line) < 3 || line[len(line)-1] != '}' {
		return line
	}
	return fmt.Appendf(bytes.Clone(line[:len(line)-1]), sumFormat, crc32.Checksum(line, castagnoli))
}

// unsealed is a line without its checksum, nil if that does not match. Earlier versions wrote none.
func unsealed(line []byte) []byte {
	const length = len(`,"sum":"00000000"}`)
	at := len(line) - length
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(`,"sum":"`)) {
		return line
	}
	whole := append(bytes.Clone(line[:at]), '}')
	if !bytes.Equal(sealed(whole), line) {
		return nil
	}
	return whole
}

func joined(lines [][]byte) ([]byte, error) {
	var b []byte
	for _, l := range lines {
		if bytes.IndexByte(l, '\n') >= 0 {
			return nil, errors.New("a line contains a line end")
		}
		b = append(append(b, sealed(l)...), '\n')
	}
	return b, nil
}

// WriteFile replaces a file as a whole: a reader sees the old contents or the new,
// even after a crash.
func WriteFile(path string, data []byte) error {
	f, err := replace(path, data)
	if err != nil {
		return err
	}
	return f.Close()
}

// replace writes a file next to path, syncs it and renames it into place. Its name is
// always the same, so crashes do not leave many.
func replace(path string, data []byte) (*disk.File, error) {
	next := path + ".new"
	f, err := disk.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = disk.Rename(next, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("replace %s: %w", path, err), f.Close(), disk.Remove(next))
	}
	// The new name is in force. If the folder cannot be synced, a power cut may bring the old file back; that is no
	// reason to fail.
	if dir, err := disk.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return f, nil
}

// ReadFile reads a file that WriteFile wrote. It fails if the file is longer than limit bytes; for a missing file the
// error wraps fs.ErrNotExist.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("read %s: longer than %d bytes", path, limit)
	}
	return b, err
}
