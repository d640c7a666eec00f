package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// The operations of errors about the places of mounts.
const (
	opStatfs  = "statfs"
	opMounted = "find mount of"
)

var ofMounts = []string{opStatfs, opMounted}

// Filesystem is what statfs(2) says of a file system.
type Filesystem struct {
	unix.Statfs_t
	// Device is its number for stat(2), "8:1". btrfs has one for each subvolume, and another in mountinfo.
	Device string
}

// Bytes converts a number of blocks. They are counted in fragments, which FUSE and virtiofs make smaller than the block
// size for I/O; file systems that have none leave their size 0 (statfs(2)).
func (f *Filesystem) Bytes(blocks uint64) float64 {
	unit := f.Frsize
	if unit == 0 {
		unit = f.Bsize
	}
	return float64(blocks) * float64(unit)
}

// ReadFilesystem returns the file system that a path of this process is on. The error is a *fs.PathError.
func ReadFilesystem(name string) (f Filesystem, err error) {
	err = at(name, opStatfs, func(fd int) error {
		// A FUSE file system of another user refuses this call, and answers the next with zeros (fs/fuse/inode.c).
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		f.Device = fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
		return unix.Fstatfs(fd, &f.Statfs_t)
	})
	return f, err
}

// readMounted returns the ID of the mount that a path of this process is on (proc_pid_fdinfo(5)).
func readMounted(name string) (id string, err error) {
	err = at(name, opMounted, func(fd int) error {
		info, err := readFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		_, after, ok := strings.Cut(string(info), "mnt_id:")
		if err == nil && !ok {
			err = errors.New("its descriptor names none")
		}
		id, _, _ = strings.Cut(strings.TrimSpace(after), "\n")
		return err
	})
	return id, err
}

// at calls do with a descriptor of a path, so all its questions are about one file, whatever is mounted between them.
func at(name, op string, do func(fd int) error) error {
	fd, err := openFile(name, unix.O_PATH)
	if err == nil {
		err = do(fd)
		unix.Close(fd)
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}
