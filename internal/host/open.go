package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is wrapped by the error of OpenRegular for what is not a regular file of a disk.
var ErrNotRegular = errors.New("not a regular file, so it is not opened")

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

// ReadRegular returns the whole of a file that OpenRegular opens, and fails if it has more than limit bytes.
func ReadRegular(path string, limit int64) ([]byte, error) {
	f, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("read %s: it has more than %d bytes", path, limit)
	}
	return b, err
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

// leavesKernel are the links below /proc/PID that lead to files of the process's choice.
var leavesKernel = []string{"root", "cwd", "exe", "fd", "map_files", ".."}

// isKernelFile reports whether a path of the machine is one of the kernel's own files below /proc and /sys, where nobody
// can put a pipe, a device or a link.
func isKernelFile(name string) bool {
	if !strings.HasPrefix(name, "/proc/") && !strings.HasPrefix(name, "/sys/") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if slices.Contains(leavesKernel, part) {
			return false
		}
	}
	return true
}
