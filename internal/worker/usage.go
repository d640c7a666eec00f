package worker

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/teescope/teescope/internal/host"
)

// The CPU time that processes and the machine have used, as the kernel reports it
// (proc_pid_stat(5), proc_stat(5)). This is the environment that the worker runs in; what a
// sandbox's or an enclave's own layers use outside of it is not included.

// tick is the unit of times in /proc, in seconds: USER_HZ is 100 on every
// architecture that Go runs on.
const tick = 0.01

// lineage is a process as /proc/PID/stat shows it.
type lineage struct {
	parent int
	// seconds is the CPU time of the process, its threads, and its children that have ended and
	// were waited for.
	seconds float64
}

// parseStat reads /proc/PID/stat. The name in parentheses may contain anything, including ")"
// and blanks.
func parseStat(b []byte) (lineage, error) {
	end := bytes.LastIndexByte(b, ')')
	fields := bytes.Fields(b[end+1:])
	const parent, user, childSystem = 1, 11, 14 // positions after the name
	if end < 0 || len(fields) <= childSystem {
		return lineage{}, errors.New("it has too few fields")
	}
	var l lineage
	var err error
	if l.parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return lineage{}, err
	}
	for _, f := range fields[user : childSystem+1] {
		ticks, err := strconv.ParseUint(string(f), 10, 63)
		if err != nil {
			return lineage{}, err
		}
		l.seconds += float64(ticks) * tick
	}
	return l, nil
}

// processSeconds returns the CPU time of a process and its descendants.
func processSeconds(h *host.Host, pid int) (float64, error) {
	files, err := h.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	all := map[int]lineage{}
	for _, f := range files {
		b, err := h.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		id, err := strconv.Atoi(path.Base(path.Dir(f)))
		if err != nil {
			continue // not a process
		}
		l, err := parseStat(b)
		if err != nil {
			return 0, fmt.Errorf("parse %s: %w", f, err)
		}
		all[id] = l
	}
	if _, ok := all[pid]; !ok {
		return 0, fmt.Errorf("process %d is not in /proc", pid)
	}
	sum := 0.0
	for id, l := range all {
		for up, far := id, 0; up > 0 && far < len(all); up, far = all[up].parent, far+1 {
			if up == pid {
				sum += l.seconds
				break
			}
		}
	}
	return sum, nil
}

// machineUse is the CPU time of all CPUs since boot, in seconds.
type machineUse struct {
	busy    float64   // all but idle, waiting for a disk, and stolen
	softirq []float64 // by CPU
}

// parseMachine reads /proc/stat. It is an error if the kernel keeps no such account (gVisor
// shows zeros).
func parseMachine(b []byte) (machineUse, error) {
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	var m machineUse
	all := 0.0
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) <= softirq || !bytes.HasPrefix(f[0], []byte("cpu")) || len(f[0]) == len("cpu") {
			continue // the sum over CPUs, or another count
		}
		for i, text := range f[1:min(len(f), steal+1)] { // what follows counts the same time again
			ticks, err := strconv.ParseUint(string(text), 10, 63)
			if err != nil {
				return machineUse{}, fmt.Errorf("CPU times: %w", err)
			}
			v := float64(ticks) * tick
			all += v
			switch i + 1 {
			case softirq:
				m.softirq = append(m.softirq, v)
				fallthrough
			case user, nice, system, irq:
				m.busy += v
			}
		}
	}
	if all == 0 {
		return machineUse{}, errors.New("this kernel reports no CPU times")
	}
	return m, nil
}
