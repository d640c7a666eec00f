package sources

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
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

// unknown is a value that could not be read; an error says why. It makes what is computed from it unknown, and is not
// sent.
var unknown = math.NaN()

// number reads a file with one number. It is unknown for "max" and "-1", which mean no limit: then limited is false.
func (c *cgroups) number(dir, file string) (v float64, limited bool, err error) {
	s, err := c.ReadString(path.Join(dir, file))
	if err != nil || s == "max" || s == "-1" {
		return unknown, false, err
	}
	n, err := machine.ParseCount(s)
	if err != nil {
		return unknown, false, fmt.Errorf("parse %s: %w", path.Join(dir, file), err)
	}
	return float64(n), true, nil
}

// flat reads some fields of a flat keyed file. The error names those that are unknown.
func (c *cgroups) flat(dir, file string, keys ...string) ([]float64, error) {
	name := path.Join(dir, file)
	b, err := c.ReadFile(name)
	if err != nil {
		return slices.Repeat([]float64{unknown}, len(keys)), err
	}
	return pickFlat(name, b, keys)
}

func pickFlat(file string, b []byte, keys []string) ([]float64, error) {
	out := slices.Repeat([]float64{unknown}, len(keys))
	var bad machine.Faults
	bad.Add(parseFlat(file, b, keys, func(i int, v float64) { out[i] = v }))
	for i, k := range keys {
		if math.IsNaN(out[i]) && bad.Err() == nil {
			bad.Add(fmt.Errorf("parse %s: no field %s", file, k))
		}
	}
	return out, bad.Err()
}

func cpuV1(c *cgroups, g *group, _ *round, send sender) error {
	dir := g.v1["cpuacct"]
	usage, _, err := c.number(dir, "cpuacct.usage")
	v, verr := c.flat(dir, "cpuacct.stat", "user", "system")
	sendCPU(send, usage/1e9, v[0]/machine.TicksPerSecond, v[1]/machine.TicksPerSecond)
	return cmp.Or(err, verr)
}

func cpuV2(c *cgroups, g *group, _ *round, send sender) error {
	v, err := c.flat(g.v2, "cpu.stat", "usage_usec", "user_usec", "system_usec")
	sendCPU(send, v[0]/1e6, v[1]/1e6, v[2]/1e6)
	return err
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
	period, _, perr := c.number(dir, "cpu.cfs_period_us")
	v, verr := c.flat(dir, "cpu.stat", "nr_periods", "nr_throttled", "throttled_time")
	if limited || err != nil {
		sendQuota(send, quota, period, v[0], v[1], v[2]/1e9)
	}
	return cmp.Or(err, perr, verr)
}

func quotaV2(c *cgroups, g *group, _ *round, send sender) error {
	if g.top {
		return nil
	}
	file := path.Join(g.v2, "cpu.max")
	s, err := c.ReadString(file)
	if err != nil {
		return err
	}
	quota, period, limited, err := parseCPUMax(s)
	if err != nil {
		err = fmt.Errorf("parse %s: %w", file, err)
	}
	if !limited {
		return err
	}
	v, verr := c.flat(g.v2, "cpu.stat", "nr_periods", "nr_throttled", "throttled_usec")
	sendQuota(send, quota, period, v[0], v[1], v[2]/1e6)
	return cmp.Or(err, verr)
}

// parseCPUMax reads "QUOTA PERIOD" or "max PERIOD", in microseconds. With the error, what is bad is unknown.
func parseCPUMax(s string) (quota, period float64, limited bool, err error) {
	q, p, _ := strings.Cut(s, " ")
	n, err := machine.ParseCount(p)
	if period = float64(n); err != nil {
		period = unknown
	}
	if q == "max" {
		return 0, period, false, err
	}
	m, qerr := machine.ParseCount(q)
	if qerr != nil {
		return unknown, period, true, qerr
	}
	return float64(m), period, true, err
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
	v, verr := c.flat(dir, "memory.stat", "total_rss", "total_cache", "total_inactive_file",
		"total_pgfault", "total_pgmajfault", "pgfault", "pgmajfault")
	limit, _, lerr := c.number(dir, "memory.limit_in_bytes")
	sendMemory(send, usage, v)
	send(ctrMemFailures, v[5], "pgfault", "container")
	send(ctrMemFailures, v[6], "pgmajfault", "container")
	if limit < noLimitV1 {
		send(ctrMemLimit, limit)
	}
	return cmp.Or(err, verr, lerr)
}

func memoryV2(c *cgroups, g *group, _ *round, send sender) error {
	v, verr := c.flat(g.v2, "memory.stat", "anon", "file", "inactive_file", "pgfault", "pgmajfault")
	if g.top {
		usage, err := hostMemory(c.Host)
		sendMemory(send, usage, v)
		return cmp.Or(err, verr)
	}
	usage, _, err := c.number(g.v2, "memory.current")
	limit, _, lerr := c.number(g.v2, "memory.max")
	sendMemory(send, usage, v)
	send(ctrMemLimit, limit)
	return cmp.Or(err, verr, lerr)
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
		return unknown, err
	}
	total, free := unknown, unknown
	err = parseMeminfo(b, func(name string, v float64) {
		switch name {
		case "MemTotal_bytes":
			total = v
		case "MemFree_bytes":
			free = v
		}
	})
	if usage := total - free; usage >= 0 {
		return usage, nil // whatever else is wrong there
	}
	return unknown, cmp.Or(err, fmt.Errorf("parse /proc/meminfo: MemTotal is %v and MemFree %v", total, free))
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
	send(ctrThreads, n)
	return err
}

func ioV1(c *cgroups, g *group, r *round, send sender) error {
	if c.v1IO == "" {
		return nil
	}
	file := path.Join(g.v1["blkio"], c.v1IO)
	b, err := c.ReadFile(file)
	if err != nil {
		return err
	}
	return parseBlkio(file, b, func(device, operation string, v float64) {
		switch operation {
		case "Read":
			send(ctrReads, v, r.disk(device))
		case "Write":
			send(ctrWrites, v, r.disk(device))
		}
	})
}

// parseBlkio reads lines "8:0 Read 4096"; the last, "Total 4096", is left out.
func parseBlkio(file string, b []byte, emit func(device, operation string, v float64)) error {
	t := machine.Text{File: file}
	seen := map[[2]string]bool{}
	for line := range t.Lines(b) {
		w := strings.Fields(line)
		if len(w) == 2 && w[0] == "Total" {
			continue
		}
		if len(w) != 3 || !isDevice(w[0]) {
			t.Bad("%.40q is not DEVICE OPERATION NUMBER", line)
			continue
		}
		key := [2]string{w[0], w[1]}
		if seen[key] {
			t.Bad("%s %.40s a second time", w[0], w[1])
			continue
		}
		seen[key] = true
		if v, ok := t.Count(w[0]+" "+w[1], w[2]); ok {
			emit(w[0], w[1], float64(v))
		}
	}
	return t.Err()
}

func ioV2(c *cgroups, g *group, r *round, send sender) error {
	file := path.Join(g.v2, "io.stat")
	b, err := c.ReadFile(file)
	if err != nil {
		return err
	}
	return parseIOStat(file, b, func(device string, read, written float64) {
		send(ctrReads, read, r.disk(device))
		send(ctrWrites, written, r.disk(device))
	})
}

// parseIOStat reads lines "8:0 rbytes=1 wbytes=2 rios=3 ...". A line may hold only the device. Some kernels write the
// name before they know whether there is anything to say, so several devices may precede the numbers, which are those of
// the last.
func parseIOStat(file string, b []byte, emit func(device string, read, written float64)) error {
	t := machine.Text{File: file, MayBeEmpty: true}
	seen := map[string]bool{}
	for line := range t.Lines(b) {
		w := strings.Fields(line)
		first := slices.IndexFunc(w, func(s string) bool { return strings.Contains(s, "=") })
		if first < 0 && isDevice(w[len(w)-1]) {
			continue
		}
		if first <= 0 || !isDevice(w[first-1]) || seen[w[first-1]] {
			t.Bad("%.40q is not DEVICE NAME=NUMBER..., with each device once", line)
			continue
		}
		device := w[first-1]
		seen[device] = true
		values := map[string]float64{}
		for _, field := range w[first:] {
			key, val, ok := strings.Cut(field, "=")
			switch {
			case !ok:
				t.Bad("%s: %.40q is not NAME=NUMBER", device, field)
			case key == "rbytes" || key == "wbytes":
				values[key] = unknown
				if v, ok := t.Count(device+" "+key, val); ok {
					values[key] = float64(v)
				}
			}
		}
		switch len(values) {
		case 1: // cut off: the number that is there may be too
			t.Bad("%s has only one of rbytes and wbytes", device)
		case 2:
			emit(device, values["rbytes"], values["wbytes"])
		}
	}
	return t.Err()
}

// isDevice reports whether a cell is the number of a device, "8:0".
func isDevice(cell string) bool {
	major, minor, ok := strings.Cut(cell, ":")
	_, err1 := strconv.ParseUint(major, 10, 32)
	_, err2 := strconv.ParseUint(minor, 10, 32)
	return ok && err1 == nil && err2 == nil
}

// disk is cAdvisor's device label: the device file, or the number if /proc/diskstats
// does not list it.
func (r *round) disk(number string) string {
	if name, ok := r.disks[number]; ok {
		return name
	}
	return number
}
