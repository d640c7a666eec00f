package host

import (
	"errors"
	"fmt"
)

// ReadMemory reads a process's memory from an address on into b, and returns how many bytes it could read. The kernel allows
// it to those who may trace the process (process_vm_readv(2)). A fixture has no memory.
func (h *Host) ReadMemory(pid int, address uint64, b []byte) (int, error) {
	if !h.IsLocal() {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, errors.ErrUnsupported)
	}
	n, err := readMemory(pid, address, b)
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return n, nil
}
