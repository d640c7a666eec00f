package host

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrNotRegular is wrapped by the error of OpenRegular for what is not a regular file of a disk.
var ErrNotRegular = errors.New("not a regular file, so it is not opened")

// ErrTooLong is wrapped by the error of a read that is limited, of a file that has more.
var ErrTooLong = errors.New("the file is too long")

// ReadRegular returns the whole of a file that OpenRegular opens, and fails if it has more than limit bytes.
func ReadRegular(path string, limit int64) ([]byte, error) {
	f, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readUpTo(f, path, limit)
}

// readUpTo returns the rest of a file, and fails if that is more than limit bytes.
func readUpTo(f io.Reader, path string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: %w: it has more than %d bytes", path, ErrTooLong, limit)
	}
	return b, err
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
