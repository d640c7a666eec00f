package host

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl opens a device for reading and issues one request (ioctl(2)).
func ioctl(device string, request uint, arg []byte, refs ...Ref) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, r := range refs {
		if len(r.Data) == 0 || r.At+8 > len(arg) {
			return fmt.Errorf("ioctl %#x on %s: a buffer has no bytes, or no place in the argument: %w", request, device, unix.EINVAL)
		}
		pin.Pin(&r.Data[0])
		binary.NativeEndian.PutUint64(arg[r.At:], uint64(uintptr(unsafe.Pointer(&r.Data[0]))))
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(unsafe.Pointer(&arg[0])))
	if errno != 0 {
		return fmt.Errorf("ioctl %#x on %s: %w", request, device, errno)
	}
	return nil
}

// borrow duplicates a file of another process (pidfd_getfd(2)), which takes what
// attaching a debugger does: the same user, or CAP_SYS_PTRACE.
func borrow(pid, fd int) (Borrowed, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	own, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate file %d of process %d: %w", fd, pid, err)
	}
	return os.NewFile(uintptr(own), fmt.Sprintf("/proc/%d/fd/%d", pid, fd)), nil
}

// threadCPU is the CPU time of the calling thread (clock_gettime(2)).
func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // every kernel since 2.6.12 has this clock
	}
	return time.Duration(t.Nano())
}

// fileLimit is the limit of descriptors of this process (getrlimit(2)), 0 where it is not known. Go raises it to the
// hard limit when a program starts.
func fileLimit() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<30 {
		return 0
	}
	return int(l.Cur)
}
