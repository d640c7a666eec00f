package findings

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Journal is an open file of lines. A crash damages at most the last line. It is always read in full, so its owner
// keeps it short. All methods but Read need one caller at a time; two processes must not open the same file.
type Journal struct {
	path string
	f    *os.File
	end  int64 // length of the whole lines
	torn bool  // the remains of a failed write after end could not be cut off
}

// OpenJournal opens a file, or creates it and its folder, and passes each complete line to each, without its line
// end. It cuts off an incomplete last line.
func OpenJournal(path string, each func(line []byte)) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: path, f: f}
	if j.end, err = scan(f, each); err == nil {
		err = f.Truncate(j.end)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return j, nil
}

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
		each(line[:len(line)-1])
	}
}

// Read passes each line of the file to each. Others may append at the same time.
func (j *Journal) Read(each func(line []byte)) error {
	f, err := os.Open(j.path)
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

func joined(lines [][]byte) ([]byte, error) {
	var b []byte
	for _, l := range lines {
		if bytes.IndexByte(l, '\n') >= 0 {
			return nil, errors.New("a line contains a line end")
		}
		b = append(append(b, l...), '\n')
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
func replace(path string, data []byte) (*os.File, error) {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("replace %s: %w", path, err), f.Close(), os.Remove(next))
	}
	// The new name is in force. If the folder cannot be synced, a power cut may bring the old file back; that is no
	// reason to fail.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return f, nil
}

// ReadFile reads a file that WriteFile wrote. It fails if the file is longer than limit bytes; for a missing file the
// error wraps fs.ErrNotExist.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
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
