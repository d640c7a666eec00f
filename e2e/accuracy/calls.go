package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls counts the system calls of the threads of a process: perf counters of the kernel's tracepoint
// raw_syscalls:sys_enter (perf_event_open(2)), which share nothing with the monitor's programs. The counters are of the
// threads that there were when it was opened.
type calls []int

func openCalls(pid int) (_ calls, err error) {
	id, err := tracepoint("raw_syscalls/sys_enter")
	if err != nil {
		return nil, err
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	var c calls
	for _, t := range threads {
		thread, err := strconv.Atoi(t.Name())
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))},
			thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("count the system calls of thread %d: %w", thread, err), c.close())
		}
		c = append(c, fd)
	}
	return c, nil
}

// tracepoint is the number of a tracepoint. It mounts tracefs for as long as it reads it.
func tracepoint(name string) (uint64, error) {
	dir, err := os.MkdirTemp("", "tracefs")
	if err != nil {
		return 0, err
	}
	defer os.Remove(dir)
	if err := unix.Mount("tracefs", dir, "tracefs", unix.MS_RDONLY, ""); err != nil {
		return 0, fmt.Errorf("mount tracefs: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "events", name, "id"))
	if err = errors.Join(err, unix.Unmount(dir, 0)); err != nil {
		return 0, fmt.Errorf("read the number of tracepoint %s: %w", name, err)
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

// read returns the calls since it was opened.
func (c calls) read() (float64, error) {
	var sum float64
	for _, fd := range c {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0, fmt.Errorf("read a count of system calls: %w", err)
		}
		sum += float64(binary.NativeEndian.Uint64(b[:]))
	}
	return sum, nil
}

func (c calls) close() error {
	var errs []error
	for _, fd := range c {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}
