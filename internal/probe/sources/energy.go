package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// raplZones are the parts of a processor that have an energy counter, by the name
// of their powercap zone without its number.
var raplZones = map[string]*metric.Desc{
	"package": raplDesc("package", "a processor package"),
	"core":    raplDesc("core", "a package's cores"),
	"uncore":  raplDesc("uncore", "the parts of a package other than cores (often graphics)"),
	"dram":    raplDesc("dram", "a package's memory"),
	"psys":    raplDesc("psys", "the whole platform"),
}

func raplDesc(zone, what string) *metric.Desc {
	return counter("node_rapl_"+zone+"_joules_total", "Energy used by "+what+" in joules, from /sys/class/powercap.", "index", "path")
}

var energy = probe.Source{
	Name:    "energy",
	Doc:     "Energy of processors and memory from RAPL (Intel and AMD), under node_exporter's names",
	Metrics: []*metric.Desc{raplZones["package"], raplZones["core"], raplZones["uncore"], raplZones["dram"], raplZones["psys"]},
	Needs: []probe.Need{{Capability: "cap_dac_read_search",
		For: "energy_uj, which only root may read since Linux 5.10, because it leaks other users' secrets (CVE-2020-8694)"}},
	Kernels: "3.13 with CONFIG_INTEL_RAPL, 5.8 for AMD",
	Cost:    "three small files a zone; a machine has two to six zones",
	Blind:   "the energy of virtual machines, which have no counters, and of single processes or enclaves; everything outside processor and memory. While SGX is in use, the processor adds noise to the counters (Intel's filtering after PLATYPUS)",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		zones, err := h.Glob(raplZonePattern)
		switch {
		case err != nil:
			return nil, err
		case len(zones) == 0:
			return nil, probe.NotHere("no energy counters in /sys/class/powercap: a virtual machine, or the module intel_rapl_msr is not loaded")
		}
		r := &rapl{host: h, zones: map[string]*raplCounter{}}
		return reading(r.read), nil
	},
}

// raplZonePattern leaves out intel-rapl-mmio, which counts the same packages through
// another interface and would count them twice.
const raplZonePattern = "/sys/class/powercap/intel-rapl:*"

type rapl struct {
	host  *host.Host
	zones map[string]*raplCounter // by path
}

// raplCounter is a counter that continues when the kernel's wraps to zero.
type raplCounter struct{ last, base uint64 }

// add adds a reading, in microjoules, of a counter that wraps at limit, which takes
// minutes at full load. A decrease from further below the limit means that the counter
// was reset, and this one restarts too.
func (c *raplCounter) add(v, limit uint64) uint64 {
	switch {
	case v >= c.last:
	case c.last >= limit/4*3:
		c.base += limit
	default:
		c.base = 0
	}
	c.last = v
	return c.base + v
}

func (r *rapl) read(_ context.Context, out emitter) error {
	dirs, err := r.host.Glob(raplZonePattern)
	if err == nil && len(dirs) == 0 {
		err = errors.New("list /sys/class/powercap: the energy counters are gone")
	}
	used := map[string]int{}
	for _, dir := range dirs {
		name, nerr := r.host.ReadString(dir + "/name")
		if nerr != nil {
			err = cmp.Or(err, nerr)
			continue
		}
		if name == "" {
			err = cmp.Or(err, fmt.Errorf("read %s/name: it is empty", dir))
		}
		desc, index := raplZone(name, used)
		if desc == nil {
			continue // a zone of a later kernel
		}
		limit, lerr := r.host.ReadUint(dir + "/max_energy_range_uj")
		v, verr := r.host.ReadUint(dir + "/energy_uj")
		if errors.Is(verr, fs.ErrPermission) {
			verr = &probe.Problem{Err: verr, Remedy: "run as root or with CAP_DAC_READ_SEARCH; since Linux 5.10 only root may read the counter, because it leaks other users' secrets"}
		}
		err = cmp.Or(err, verr, lerr)
		if r.zones[dir] == nil {
			r.zones[dir] = &raplCounter{}
		}
		// Without its limit a counter that fell may have wrapped or not.
		if verr != nil || lerr != nil && v < r.zones[dir].last {
			continue
		}
		out.send(desc, float64(r.zones[dir].add(v, limit))/1e6, strconv.Itoa(index), dir)
	}
	return err
}

// raplZone splits a zone's name as node_exporter does: "package-1" is number 1, and for
// names without a number the first is 0. A die's zone ("package-0-die-1") is a package,
// numbered in the order of appearance.
func raplZone(name string, used map[string]int) (*metric.Desc, int) {
	kind, rest, numbered := strings.Cut(name, "-")
	index := used[kind]
	if n, err := strconv.ParseUint(rest, 10, 16); numbered && err == nil {
		index = int(n)
	}
	used[kind] = index + 1
	return raplZones[kind], index
}
