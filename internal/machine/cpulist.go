package machine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// MaxCPUs bounds what a garbled list can ask for; NR_CPUS is at most 8192.
const MaxCPUs = 8192

// ParseCPUList reads "0-3,5", the form of /sys/devices/system/cpu/online.
func ParseCPUList(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		to := from
		if isRange {
			if to, err = strconv.ParseUint(last, 10, 16); err != nil {
				return nil, fmt.Errorf("%q: %w", part, err)
			}
		}
		if to < from || to >= MaxCPUs || len(out)+int(to-from) >= MaxCPUs {
			return nil, fmt.Errorf("%q: want a range of CPUs below %d", part, MaxCPUs)
		}
		for cpu := from; cpu <= to; cpu++ {
			out = append(out, int(cpu))
		}
	}
	return out, nil
}

// ReadCPUList reads a file that holds a list of CPUs. An empty list reads as an
// empty line or as "(null)", by kernel version.
func ReadCPUList(h *host.Host, file string) ([]int, error) {
	s, err := h.ReadString(file)
	if err != nil || s == "" || s == "(null)" {
		return nil, err
	}
	list, err := ParseCPUList(s)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	return list, nil
}

// OnlineCPUs lists the CPUs that the kernel schedules on.
func OnlineCPUs(h *host.Host) ([]int, error) { return ReadCPUList(h, CPUDir+"online") }
