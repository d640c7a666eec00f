package host

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ref is a buffer whose address an ioctl's argument holds at offset At.
type Ref struct {
	At   int
	Data []byte
}

// Borrowed is a file that another process has open.
type Borrowed interface {
	io.ReaderAt
	io.Closer
}

// dial connects to a socket.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

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
