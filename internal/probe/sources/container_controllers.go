package sources

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

type sender func(d *metric.Desc, v float64, labels ...string)

// resource is one controller's part of a cgroup.
type resource struct {
	v1, v2         string // controllers; v2 "" is always there
	readV1, readV2 func(*cgroups, *group, *round, sender) error
}

var resources = []resource{
	{"cpuacct", "", cpuV1, cpuV2},
	{"cpu", "cpu", quotaV1, quotaV2},
	{"memory", "memory", memoryV1, memoryV2},
	{"pids", "pids", threadsV1, threadsV2},
	{"blkio", "io", ioV1, ioV2},
}

// number reads a file with one number; ok is false for "max" and "-1", which mean no
// limit.
func (c *cgroups) number(dir, file string) (v float64, ok bool, err error) {
	s, err := c.ReadString(path.Join(dir, file))
	if err != nil || s == "max" || s == "-1" {
		return 0, false, err
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("parse %s: %w", file, err)
	}
	return float64(n), true, nil
}

// flat reads some fields of a flat keyed file; all must be there.
func (c *cgroups) flat(dir, file string, keys ...string) ([]float64, error) {
	b, err := c.ReadFile(path.Join(dir, file))
	if err != nil {
		return nil, err
	}
	v, err := pickFlat(b, keys)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path.Join(dir, file), err)
	}
	return v, nil
}

func pickFlat(b []byte, keys []string) ([]float64, error) {
	out, seen := make([]float64, len(keys)), 0
	err := parseFlat(b, keys, func(i int, v float64) {
		out[i] = v
		seen |= 1 << i
	})
	for i, k := range keys {
		if err == nil && seen&(1<<i) == 0 {
			err = fmt.Errorf("no field %s", k)
		}
	}
	return out, err
}

const clockTicks = 100 // USER_HZ, the same on all Linux

func cpuV1(c *cgroups, g *group, _ *round, send sender) error {
	dir := g.v1["cpuacct"]
	usage, _, err := c.number(dir, "cpuacct.usage")
	if err != nil {
		return err
	}
	v, err := c.flat(dir, "cpuacct.stat", "user", "system")
	if err != nil {
		return err
	}
	sendCPU(send, usage/1e9, v[0]/clockTicks, v[1]/clockTicks)
	return nil
}

func cpuV2(c *cgroups, g *group, _ *round, send sender) error {
	v, err := c.flat(g.v2, "cpu.stat", "usage_usec", "user_usec", "system_usec")
	if err != nil {
		return err
	}
	sendCPU(send, v[0]/1e6, v[1]/1e6, v[2]/1e6)
	return nil
}

func sendCPU(send sender, usage, user, system float64) {
	send(ctrCPU, usage, "total")
	send(ctrCPUUser, user)
	send(ctrCPUSystem, system)
}

// quotaV1 and quotaV2 are silent without a quota, as cAdvisor is.
func quotaV1(c *cgroups, g *group, _ *round, send sender) error {
	if !c.v1Quota {
		return nil
	}
	dir := g.v1["cpu"]
	quota, limited, err := c.number(dir, "cpu.cfs_quota_us")
	if err != nil {
		return err
	}
	period, _, err := c.number(dir, "cpu.cfs_period_us")
	if err != nil {
		return err
	}
	v, err := c.flat(dir, "cpu.stat", "nr_periods", "nr_throttled", "throttled_time")
	if err == nil && limited {
		sendQuota(send, quota, period, v[0], v[1], v[2]/1e9)
	}
	return err
}

func quotaV2(c *cgroups, g *group, _ *round, send sender) error {
	if g.top {
		return nil
	}
	s, err := c.ReadString(path.Join(g.v2, "cpu.max"))
	if err != nil {
		return err
	}
	quota, period, limited, err := parseCPUMax(s)
	if err != nil || !limited {
		return err
	}
	v, err := c.flat(g.v2, "cpu.stat", "nr_periods", "nr_throttled", "throttled_usec")
	if err == nil {
		sendQuota(send, quota, period, v[0], v[1], v[2]/1e6)
	}
	return err
}

// parseCPUMax reads "QUOTA PERIOD" or "max PERIOD", in microseconds.
func parseCPUMax(s string) (quota, period float64, limited bool, err error) {
	q, p, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(p, 10, 64)
	if err != nil {
		return 0, 0, false, fmt.Errorf("parse cpu.max: %w", err)
	}
	if q == "max" {
		return 0, float64(n), false, nil
	}
	m, err := strconv.ParseUint(q, 10, 64)
	if err != nil {
		return 0, 0, false, fmt.Errorf("parse cpu.max: %w", err)
	}
	return float64(m), float64(n), true, nil
}

func sendQuota(send sender, quota, period, periods, throttled, seconds float64) {
	send(ctrQuota, quota)
	send(ctrPeriod, period)
	send(ctrPeriods, periods)
	send(ctrThrottled, throttled)
	send(ctrThrottledS, seconds)
}

// noLimitV1 is the v1 memory limit that means none: the kernel shows the largest number
// of pages in bytes, slightly below 2^63.
const noLimitV1 = 1 << 62

func memoryV1(c *cgroups, g *group, _ *round, send sender) error {
	dir := g.v1["memory"]
	usage, _, err := c.number(dir, "memory.usage_in_bytes")
	if err != nil {
		return err
	}
	v, err := c.flat(dir, "memory.stat", "total_rss", "total_cache", "total_inactive_file",
		"total_pgfault", "total_pgmajfault", "pgfault", "pgmajfault")
	if err != nil {
		return err
	}
	limit, _, err := c.number(dir, "memory.limit_in_bytes")
	if err != nil {
		return err
	}
	sendMemory(send, usage, v)
	send(ctrMemFailures, v[5], "pgfault", "container")
	send(ctrMemFailures, v[6], "pgmajfault", "container")
	if limit < noLimitV1 {
		send(ctrMemLimit, limit)
	}
	return nil
}

func memoryV2(c *cgroups, g *group, _ *round, send sender) error {
	v, err := c.flat(g.v2, "memory.stat", "anon", "file", "inactive_file", "pgfault", "pgmajfault")
	if err != nil {
		return err
	}
	if g.top {
		usage, err := hostMemory(c.Host)
		if err == nil {
			sendMemory(send, usage, v)
		}
		return err
	}
	usage, _, err := c.number(g.v2, "memory.current")
	if err != nil {
		return err
	}
	limit, limited, err := c.number(g.v2, "memory.max")
	if err != nil {
		return err
	}
	sendMemory(send, usage, v)
	if limited {
		send(ctrMemLimit, limit)
	}
	return nil
}

// sendMemory takes rss, cache, inactive cache, faults and major faults.
func sendMemory(send sender, usage float64, v []float64) {
	send(ctrMemUsage, usage)
	send(ctrMemWorking, max(0, usage-v[2]))
	send(ctrMemRSS, v[0])
	send(ctrMemCache, v[1])
	send(ctrMemFailures, v[3], "pgfault", "hierarchy")
	send(ctrMemFailures, v[4], "pgmajfault", "hierarchy")
}

// hostMemory stands in for memory.current, which the v2 root lacks.
func hostMemory(h *host.Host) (float64, error) {
	b, err := h.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	var total, free float64
	err = parseMeminfo(b, func(name string, v float64) {
		switch name {
		case "MemTotal_bytes":
			total = v
		case "MemFree_bytes":
			free = v
		}
	})
	return total - free, err
}

func threadsV1(c *cgroups, g *group, _ *round, send sender) error {
	return c.threads(g.v1["pids"], g.v1["pids"] == c.v1["pids"].mount, send)
}

func threadsV2(c *cgroups, g *group, _ *round, send sender) error {
	return c.threads(g.v2, g.top, send)
}

func (c *cgroups) threads(dir string, top bool, send sender) error {
	n, _, err := c.number(dir, "pids.current")
	if top && errors.Is(err, fs.ErrNotExist) { // the real root has no such file
		return nil
	}
	if err == nil {
		send(ctrThreads, n)
	}
	return err
}

func ioV1(c *cgroups, g *group, r *round, send sender) error {
	if c.v1IO == "" {
		return nil
	}
	b, err := c.ReadFile(path.Join(g.v1["blkio"], c.v1IO))
	if err != nil {
		return err
	}
	return parseBlkio(b, func(device, operation string, v float64) {
		switch operation {
		case "Read":
			send(ctrReads, v, r.disk(device))
		case "Write":
			send(ctrWrites, v, r.disk(device))
		}
	})
}

// parseBlkio reads lines "8:0 Read 4096"; the last, "Total 4096", is left out.
func parseBlkio(b []byte, emit func(device, operation string, v float64)) error {
	for line := range bytes.Lines(b) {
		w := strings.Fields(string(line))
		if len(w) == 2 && w[0] == "Total" {
			continue
		}
		if len(w) != 3 {
			return fmt.Errorf("parse blkio file: line %q", line)
		}
		v, err := strconv.ParseUint(w[2], 10, 64)
		if err != nil {
			return fmt.Errorf("parse blkio file: %w", err)
		}
		emit(w[0], w[1], float64(v))
	}
	return nil
}

func ioV2(c *cgroups, g *group, r *round, send sender) error {
	b, err := c.ReadFile(path.Join(g.v2, "io.stat"))
	if err != nil {
		return err
	}
	return parseIOStat(b, func(device string, read, written float64) {
		send(ctrReads, read, r.disk(device))
		send(ctrWrites, written, r.disk(device))
	})
}

// parseIOStat reads lines "8:0 rbytes=1 wbytes=2 rios=3 ...". A line may hold only the
// device.
func parseIOStat(b []byte, emit func(device string, read, written float64)) error {
	for line := range bytes.Lines(b) {
		w := strings.Fields(string(line))
		if len(w) < 2 {
			continue
		}
		var bytes [2]uint64
		seen := false
		for _, field := range w[1:] {
			key, val, _ := strings.Cut(field, "=")
			i := slices.Index([]string{"rbytes", "wbytes"}, key)
			if i < 0 {
				continue
			}
			v, err := strconv.ParseUint(val, 10, 64)
			if err != nil {
				return fmt.Errorf("parse io.stat: %s: %w", key, err)
			}
			bytes[i], seen = v, true
		}
		if seen {
			emit(w[0], float64(bytes[0]), float64(bytes[1]))
		}
	}
	return nil
}

// disk is cAdvisor's device label: the device file, or the number if /proc/diskstats
// does not list it.
func (r *round) disk(number string) string {
	if name, ok := r.disks[number]; ok {
		return name
	}
	return number
}
