package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Filesystem is what statfs(2) says of a file system.
type Filesystem struct {
	unix.Statfs_t
	// Device is its number, "8:1", as /proc/PID/mountinfo has it.
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
func ReadFilesystem(name string) (Filesystem, error) {
	var f Filesystem
	// All questions are about one file, whatever is mounted there between them.
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = f.read(fd)
	}
	if err != nil {
		return f, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return f, nil
}

func (f *Filesystem) read(fd int) error {
	// A FUSE file system of another user refuses this call, and answers the next with zeros (fs/fuse/inode.c).
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := unix.Fstatfs(fd, &f.Statfs_t); err != nil {
		return err
	}
	f.Device = fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	var err error
	if f.Type == unix.BTRFS_SUPER_MAGIC { // it numbers each subvolume for stat(2), but not in mountinfo
		f.Device, err = mountedDevice(fd)
	}
	return err
}

// mountedDevice is the device of the mount that an open file is on, from /proc/self/fdinfo and /proc/self/mountinfo.
func mountedDevice(fd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", err
	}
	_, id, _ := strings.Cut(string(info), "mnt_id:")
	id, _, _ = strings.Cut(strings.TrimSpace(id), "\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == id {
			return f[2], nil
		}
	}
	return "", errors.New("its mount is not listed in /proc/self/mountinfo")
}
