package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// calls counts the system calls of the threads of a process: perf counters of the kernel's tracepoint
// raw_syscalls:sys_enter (perf_event_open(2)), which share nothing with the monitor's programs.
type calls []host.PerfGroup

func openCalls(pid int) (calls, error) {
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
		g, err := host.Local().Perf(host.PerfTarget{Thread: thread}, host.PerfEvent{Type: unix.PERF_TYPE_TRACEPOINT, Config: id})
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c = append(c, g)
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
	for _, g := range c {
		r, err := g.Read()
		if err != nil {
			return 0, err
		}
		sum += float64(r.Values[0])
	}
	return sum, nil
}

func (c calls) close() error {
	var errs []error
	for _, g := range c {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}
