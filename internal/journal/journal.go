// Package journal keeps on disk what a restart must not lose: files of lines, of
// which a crash can only damage the one that was being written, and, made of such
// a file, the history of findings. Notifications queue in another (see notify).
//
// It is no database: a file is read as a whole, and its owner keeps it short.
package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// File is an open file of lines. All methods but Read want one caller at a time;
// two processes may not have the same file open.
type File struct {
	path string
	f    *os.File
	end  int64 // length of the whole lines
	torn bool  // what a failed write left behind end could not be cut off
}

// Open opens a file, or makes it and its folder, and gives each whole line to
// each, without its line end. What a crash left of a last line is cut off.
func Open(path string, each func(line []byte)) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &File{path: path, f: f}
	if j.end, err = scan(f, each); err == nil {
		err = f.Truncate(j.end)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return j, nil
}

// scan gives each whole line to each and returns their length.
func scan(r io.Reader, each func(line []byte)) (end int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil // without its end, the line was cut off
		}
		if err != nil {
			return end, err
		}
		end += int64(len(line))
		each(line[:len(line)-1])
	}
}

// Read gives each line of the file to each, also while others append to it.
func (j *File) Read(each func(line []byte)) error {
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

// Append adds lines. When it returns nil they are on the disk; after an error,
// a full disk say, none of them is, and what was there before still is.
func (j *File) Append(lines ...[]byte) error {
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

// Replace puts lines in the place of all that the file holds; after an error it
// holds what it held.
func (j *File) Replace(lines ...[]byte) error {
	b, err := joined(lines)
	if err != nil {
		return fmt.Errorf("replace %s: %w", j.path, err)
	}
	f, err := replace(j.path, b)
	if err != nil {
		return err
	}
	_ = j.f.Close() // of a file that has no name any more
	j.f, j.end, j.torn = f, int64(len(b)), false
	return nil
}

// Size is the length of the file in bytes.
func (j *File) Size() int64 { return j.end }

// Close closes the file.
func (j *File) Close() error { return j.f.Close() }

func joined(lines [][]byte) ([]byte, error) {
	var b []byte
	for _, l := range lines {
		if bytes.IndexByte(l, '\n') >= 0 {
			return nil, errors.New("a line has a line end in it")
		}
		b = append(append(b, l...), '\n')
	}
	return b, nil
}

// WriteFile replaces a file as a whole: a reader, also one after a crash, sees
// the old contents or the new.
func WriteFile(path string, data []byte) error {
	f, err := replace(path, data)
	if err != nil {
		return err
	}
	return f.Close()
}

// replace writes a file beside path, syncs it and renames it into place. The name
// of the former is always the same, so that crashes do not pile them up.
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
	// The new name is in force; that a power cut may bring the old one back where
	// the folder cannot be synced is no reason to refuse it.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return f, nil
}

// ReadFile reads a file that WriteFile wrote; one that is not there, or is longer
// than limit bytes, is an error (fs.ErrNotExist the former).
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
