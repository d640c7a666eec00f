package attest

import (
	"errors"
	"unsafe"

	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
	"golang.org/x/sys/unix"
)

// exchange is the device's one call (include/uapi/linux/nsm.h: NSM_IOCTL_RAW).
func exchange(fd int, request, answer []byte) (int, error) {
	const raw = 0xc0200a00
	m := [2]unix.Iovec{{Base: &request[0]}, {Base: &answer[0]}}
	m[0].SetLen(len(request))
	m[1].SetLen(len(answer))
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), raw, uintptr(unsafe.Pointer(&m))); errno != 0 {
		return 0, errno
	}
	return int(m[1].Len), nil
}

// openNSM opens the Nitro Security Module.
func openNSM(device string) (func(request, answer []byte) (int, error), error) {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return func(request, answer []byte) (int, error) { return exchange(fd, request, answer) }, nil
}

// openTPMDevice opens the kernel's TPM, or one behind a socket.
func openTPMDevice(path string) (transport.TPMCloser, error) {
	device, err := linuxudstpm.Open(path)
	if errors.Is(err, linuxudstpm.ErrFileIsNotSocket) {
		device, err = linuxtpm.Open(path)
	}
	return device, err
}
