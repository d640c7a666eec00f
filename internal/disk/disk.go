// Package disk has the calls by which teescope reads and writes its own files: those of package os, and a seam at which a test makes them
// fail. The test counts the calls of some work, and repeats the work with each of them failing in turn: once, or from then on.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// Fault makes calls fail. It may be used by several goroutines.
type Fault struct {
	// At is the number of the call that fails, counted from 1; 0 is none. Onward: all later ones fail too.
	At     int64
	Onward bool
	// Err is the error of a call that fails, such as syscall.EIO.
	Err error

	calls, failed atomic.Int64
	first         atomic.Pointer[string]
}

// Calls is how many calls there were.
func (f *Fault) Calls() int64 { return f.calls.Load() }

// Failed is how many of them failed.
func (f *Fault) Failed() int64 { return f.failed.Load() }

// First is the first call that failed: "open PATH"; "" without any.
func (f *Fault) First() string {
	if s := f.first.Load(); s != nil {
		return *s
	}
	return ""
}

// injected is the fault of a test; nil in use.
var injected atomic.Pointer[Fault]

// Inject makes calls fail until end is called. One fault is injected at a time.
func Inject(f *Fault) (end func()) {
	if !injected.CompareAndSwap(nil, f) {
		panic("two faults are injected at the same time")
	}
	return func() { injected.Store(nil) }
}

// Call is the seam: it counts a call, and returns its error if it has to fail. The error is a *fs.PathError.
func Call(op, path string) error {
	f := injected.Load()
	if f == nil {
		return nil
	}
	n := f.calls.Add(1)
	if f.At == 0 || n < f.At || n > f.At && !f.Onward {
		return nil
	}
	f.failed.Add(1)
	call := op + " " + path
	f.first.CompareAndSwap(nil, &call)
	return &fs.PathError{Op: op, Path: path, Err: f.Err}
}

// File is an open file.
type File struct{ *os.File }

func file(f *os.File, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Open is os.Open.
func Open(name string) (*File, error) {
	if err := Call("open", name); err != nil {
		return nil, err
	}
	return file(os.Open(name))
}

// OpenFile is os.OpenFile.
func OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	if err := Call("open", name); err != nil {
		return nil, err
	}
	return file(os.OpenFile(name, flag, perm))
}

// Create is os.Create.
func Create(name string) (*File, error) {
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// CreateTemp is os.CreateTemp.
func CreateTemp(dir, pattern string) (*File, error) {
	if err := Call("open", dir); err != nil {
		return nil, err
	}
	return file(os.CreateTemp(dir, pattern))
}

// Read is that of io.Reader.
func (f *File) Read(b []byte) (int, error) {
	if err := Call("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

// ReadAt is that of io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	if err := Call("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// Write is that of io.Writer. A write that fails has written half, as on a full disk.
func (f *File) Write(b []byte) (int, error) {
	if err := Call("write", f.Name()); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

// WriteAt is that of io.WriterAt.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if err := Call("write", f.Name()); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], off)
		return n, err
	}
	return f.File.WriteAt(b, off)
}

// ReadFrom is that of io.ReaderFrom.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	if err := Call("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadFrom(r)
}

// Sync is that of os.File.
func (f *File) Sync() error {
	if err := Call("fsync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

// Truncate is that of os.File.
func (f *File) Truncate(size int64) error {
	if err := Call("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// ReadFile is os.ReadFile.
func ReadFile(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile is os.WriteFile.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Truncate is os.Truncate.
func Truncate(name string, size int64) error {
	if err := Call("truncate", name); err != nil {
		return err
	}
	return os.Truncate(name, size)
}

// Rename is os.Rename.
func Rename(from, to string) error {
	if err := Call("rename", from); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Remove is os.Remove.
func Remove(name string) error {
	if err := Call("unlink", name); err != nil {
		return err
	}
	return os.Remove(name)
}

// RemoveAll is os.RemoveAll.
func RemoveAll(name string) error {
	if err := Call("unlink", name); err != nil {
		return err
	}
	return os.RemoveAll(name)
}

// Mkdir is os.Mkdir.
func Mkdir(name string, perm fs.FileMode) error {
	if err := Call("mkdir", name); err != nil {
		return err
	}
	return os.Mkdir(name, perm)
}

// MkdirAll is os.MkdirAll.
func MkdirAll(name string, perm fs.FileMode) error {
	if err := Call("mkdir", name); err != nil {
		return err
	}
	return os.MkdirAll(name, perm)
}

// Stat is os.Stat.
func Stat(name string) (fs.FileInfo, error) {
	if err := Call("stat", name); err != nil {
		return nil, err
	}
	return os.Stat(name)
}

// Lstat is os.Lstat.
func Lstat(name string) (fs.FileInfo, error) {
	if err := Call("lstat", name); err != nil {
		return nil, err
	}
	return os.Lstat(name)
}

// ReadDir is os.ReadDir.
func ReadDir(name string) ([]fs.DirEntry, error) {
	if err := Call("readdir", name); err != nil {
		return nil, err
	}
	return os.ReadDir(name)
}

// Link is os.Link.
func Link(from, to string) error {
	if err := Call("link", from); err != nil {
		return err
	}
	return os.Link(from, to)
}

// Sync flushes a file or folder to the disk.
func Sync(name string) error {
	f, err := Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
