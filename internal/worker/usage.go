package worker

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

// The CPU time that processes and the machine have used, as the kernel reports it
// (proc_pid_stat(5), proc_stat(5)). This is the environment that the worker runs in; what a
// sandbox's or an enclave's own layers use outside of it is not included.

// lineage is a process as /proc/PID/stat shows it.
type lineage struct {
	parent int
	// seconds is the CPU time of the process, its threads, and its children that have ended and
	// were waited for.
	seconds float64
}

// parseStat reads /proc/PID/stat.
func parseStat(b []byte) (lineage, error) {
	const parent, user, system, childUser, childSystem = 4, 14, 15, 16, 17 // proc_pid_stat(5)
	n, err := machine.ParseProcess("stat", string(b), parent, user, system, childUser, childSystem)
	if err != nil {
		return lineage{}, err
	}
	l := lineage{parent: int(n[0])}
	for _, ticks := range n[1:] {
		l.seconds += float64(ticks) / machine.TicksPerSecond
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
	stolen  float64   // by the host
	softirq []float64 // by CPU
}

// parseMachine reads /proc/stat. It is an error if the kernel keeps no such account (gVisor
// shows zeros).
func parseMachine(b []byte) (machineUse, error) {
	var m machineUse
	all := 0.0
	err := machine.ParseStat(b, func(c machine.CPUTimes) {
		for i, mode := range machine.CPUModes {
			v := float64(c.Ticks[i]) / machine.TicksPerSecond
			switch mode {
			case "guest", "guest_nice": // also in user and nice
				continue
			case "softirq":
				m.softirq = append(m.softirq, v)
				m.busy += v
			case "user", "nice", "system", "irq":
				m.busy += v
			case "steal":
				m.stolen += v
			}
			all += v
		}
	}, nil)
	if err != nil {
		return machineUse{}, err
	}
	if all == 0 {
		return machineUse{}, errors.New("this kernel reports no CPU times")
	}
	return m, nil
}
