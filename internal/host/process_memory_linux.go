package host

import "golang.org/x/sys/unix"

func readMemory(pid int, address uint64, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	to := unix.Iovec{Base: &b[0]}
	to.SetLen(len(b))
	return unix.ProcessVMReadv(pid, []unix.Iovec{to}, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
}
