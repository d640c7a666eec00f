package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
)

// readFile is os.ReadFile without Go's poller: files of sysfs and some of /proc can be polled and are always ready, so each that
// is opened with it wakes the thread that waits for all others. It fails if the file has more than limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	if err := disk.Call("open", path); err != nil {
		return nil, err
	}
	fd, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path) // a blocking one is not polled
	defer f.Close()
	if err := disk.Call("read", path); err != nil {
		return nil, err
	}
	return readUpTo(f, path, limit)
}

// openFile is open(2) without Go's poller, closed on exec.
func openFile(path string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// ownedBy returns the user of a file of this process's root, and its mode. It does not follow a link.
func ownedBy(name string) (uid int, mode fs.FileMode, ok bool) {
	fi, err := os.Lstat(name)
	if err != nil {
		return 0, 0, false
	}
	uid, ok = ownerOf(fi)
	return uid, fi.Mode(), ok
}

// ownerOf returns the user of a file.
func ownerOf(fi fs.FileInfo) (uid int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// kernelFileSystems are those whose regular files may block a reader or change when they are read (trace_pipe, kmsg).
var kernelFileSystems = []uint32{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC}

// OpenRegular opens a regular file of this process's file system for reading, and returns it with its attributes. It is for
// paths that a user or another process chose: opening a device, a pipe or a socket can block or have effects
// (/dev/watchdog), so what the path leads to is looked at first (O_PATH, open(2)), and that file, not its name, is opened.
// It never waits, not even for a lease. The error is a *fs.PathError.
func OpenRegular(path string) (*os.File, unix.Stat_t, error) {
	var f *os.File
	var st unix.Stat_t
	err := at(path, "open", func(fd int) error {
		var on unix.Statfs_t
		if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &on)); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG || slices.Contains(kernelFileSystems, uint32(on.Type)) {
			return ErrNotRegular
		}
		own, err := openFile("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return err
		}
		// A blocking descriptor is not given to Go's poller.
		if err := unix.SetNonblock(own, false); err != nil {
			unix.Close(own)
			return err
		}
		f = os.NewFile(uintptr(own), path)
		return nil
	})
	return f, st, err
}

// Open is OpenRegular for a path of the machine.
func (h *Host) Open(name string) (*os.File, unix.Stat_t, error) {
	if err := h.fault("read", name); err != nil {
		return nil, unix.Stat_t{}, err
	}
	defer h.enter(name)()
	f, st, err := OpenRegular(h.Path(name))
	return f, st, h.errAt(err)
}

// at calls do with a descriptor of a path, so all its questions are about one file, whatever is mounted between them.
func at(name, op string, do func(fd int) error) error {
	if err := disk.Call(op, name); err != nil {
		return err
	}
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

// readMounted returns the ID of the mount that a path of this process is on (proc_pid_fdinfo(5)).
func readMounted(name string) (id string, err error) {
	err = at(name, opMounted, func(fd int) error {
		info, err := readFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd), 1<<16)
		_, after, ok := strings.Cut(string(info), "mnt_id:")
		if err == nil && !ok {
			err = errors.New("its descriptor names none")
		}
		id, _, _ = strings.Cut(strings.TrimSpace(after), "\n")
		return err
	})
	return id, err
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
		return unix.Fstatfs(fd, &f.statfs)
	})
	return f, err
}

// folderOnly makes open(2) refuse what is not a folder, and not wait.
const folderOnly = unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC

// statfs is what statfs(2) returns.
type statfs = unix.Statfs_t

// mount mounts a virtual file system (mount(2)).
func mount(fstype, target string) error {
	return unix.Mount(fstype, target, fstype, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}
