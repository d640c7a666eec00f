// Package space says how much a disk has left, and holds some back for when it is full.
package space

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// ErrNoSpace means that a disk has too little left.
var ErrNoSpace = errors.New("disk is nearly full")

// Free returns how many bytes this user may still write below dir.
func Free(dir string) (int64, error) {
	f, err := host.ReadFilesystem(dir)
	return int64(min(f.Bytes(f.Bavail), 1<<62)), err
}

// Text prints a number of bytes.
func Text(n int64) string { return metric.Value(float64(n), "bytes") }

// Reserve is a file that holds space for when the disk is full.
type Reserve struct {
	Path string
	Size int64
}

func (r Reserve) allocated() bool {
	fi, err := disk.Stat(r.Path)
	return err == nil && fi.Size() == r.Size
}

// Allocate allocates the file, unless that would leave less than leave bytes.
func (r Reserve) Allocate(leave int64) error {
	if r.Size == 0 || r.allocated() {
		return nil
	}
	if n, err := Free(filepath.Dir(r.Path)); err != nil || n < r.Size+leave {
		return err
	}
	f, err := disk.OpenFile(r.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err = disk.Call("fallocate", r.Path); err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, r.Size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) { // network file systems: have no reserve rather than write zeros
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, disk.Remove(r.Path))
	}
	return nil
}

// Release returns the space to the disk.
func (r Reserve) Release() error {
	if err := disk.Remove(r.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give reserve back: %w", err)
	}
	return nil
}

// SizeOf returns the bytes used by the files below dir, except the reserve.
func SizeOf(dir, except string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == except {
			return ignoreGone(err)
		}
		fi, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		size := fi.Size()
		if st, ok := fi.Sys().(*syscall.Stat_t); ok { // a file may have holes
			size = st.Blocks * 512
		}
		n += size
		return nil
	})
	return n, err
}

// ignoreGone ignores files that a compaction has removed since.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
