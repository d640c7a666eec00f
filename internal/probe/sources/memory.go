package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// meminfo are the fields of /proc/meminfo by node_exporter's metric name: the field's
// name with "(x)" as "_x", and with _bytes if the field is in kB. A field that a kernel
// lacks is absent; unlisted ones are ignored, so the emitted metrics are known
// beforehand.
var meminfo = table("node_memory_", "/proc/meminfo", metric.Gauge, `
	MemTotal_bytes MemFree_bytes MemAvailable_bytes Buffers_bytes Cached_bytes SwapCached_bytes Active_bytes
	Inactive_bytes Active_anon_bytes Inactive_anon_bytes Active_file_bytes Inactive_file_bytes Unevictable_bytes
	Mlocked_bytes SwapTotal_bytes SwapFree_bytes Zswap_bytes Zswapped_bytes Dirty_bytes Writeback_bytes
	AnonPages_bytes Mapped_bytes Shmem_bytes KReclaimable_bytes Slab_bytes SReclaimable_bytes SUnreclaim_bytes
	KernelStack_bytes PageTables_bytes SecPageTables_bytes NFS_Unstable_bytes Bounce_bytes WritebackTmp_bytes
	CommitLimit_bytes Committed_AS_bytes VmallocTotal_bytes VmallocUsed_bytes VmallocChunk_bytes Percpu_bytes
	HardwareCorrupted_bytes AnonHugePages_bytes ShmemHugePages_bytes ShmemPmdMapped_bytes FileHugePages_bytes
	FilePmdMapped_bytes CmaTotal_bytes CmaFree_bytes HugePages_Total HugePages_Free HugePages_Rsvd HugePages_Surp
	Hugepagesize_bytes Hugetlb_bytes DirectMap4k_bytes DirectMap2M_bytes DirectMap1G_bytes`)

// vmstat are the fields of /proc/vmstat that node_exporter shows by default.
// They are untyped there too.
var (
	vmstatNames = []string{"oom_kill", "pgpgin", "pgpgout", "pswpin", "pswpout", "pgfault", "pgmajfault"}
	vmstat      = table("node_vmstat_", "/proc/vmstat", metric.Untyped, strings.Join(vmstatNames, " "))
)

var memory = probe.Source{
	Name:    "memory",
	Doc:     "The host's memory, from /proc/meminfo and /proc/vmstat, under node_exporter's names",
	Metrics: slices.Concat(meminfo.descs(), vmstat.descs()),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error {
			var bad machine.Faults
			b, err := h.ReadFile("/proc/meminfo")
			if err == nil {
				err = parseMeminfo(b, meminfo.emit(out))
			}
			bad.Add(err)
			const file = "/proc/vmstat"
			v, err := h.ReadFile(file)
			if err == nil {
				err = parseFlat(file, v, vmstatNames, func(i int, v float64) { out.send(vmstat.order[i], v) })
			}
			bad.Add(err)
			return bad.Err()
		}), nil
	},
}

// fields are metrics named after the fields of one file.
type fields struct {
	order []*metric.Desc
	names map[string]*metric.Desc // by name without the prefix
}

// table declares a metric for each of the names.
func table(prefix, file string, kind metric.Kind, names string) fields {
	t := fields{names: map[string]*metric.Desc{}}
	for _, n := range strings.Fields(names) {
		field, bytes := strings.CutSuffix(n, "_bytes")
		unit := ""
		if bytes {
			unit = " in bytes"
		}
		d := &metric.Desc{Name: prefix + n, Kind: kind, Help: fmt.Sprintf("Field %s of %s%s.", field, file, unit)}
		t.order = append(t.order, d)
		t.names[n] = d
	}
	return t
}

func (t fields) descs() []*metric.Desc { return t.order }

// emit returns a function that sends the fields that are in the table.
func (t fields) emit(out emitter) func(name string, v float64) {
	return func(name string, v float64) {
		if d := t.names[name]; d != nil {
			out.send(d, v)
		}
	}
}

var underscored = strings.NewReplacer("(", "_", ")", "")

// parseMeminfo reads /proc/meminfo under node_exporter's names.
func parseMeminfo(b []byte, emit func(string, float64)) error {
	return machine.ParseMeminfo(b, func(name string, v uint64, bytes bool) {
		name = underscored.Replace(name)
		if bytes {
			name += "_bytes"
		}
		emit(name, float64(v))
	})
}

// parseFlat reads lines "name 123", the format of /proc/vmstat and of many cgroup
// files. They have up to 200 lines and are read for every cgroup, so only the values of
// the given names are parsed; emit gets the index of the name.
func parseFlat(file string, b []byte, names []string, emit func(i int, v float64)) error {
	t := machine.Text{File: file}
	for line := range t.Lines(b) {
		name, val, ok := strings.Cut(line, " ")
		if !ok {
			t.Bad("%.40q has no number", line)
			continue
		}
		if i := slices.Index(names, name); i >= 0 {
			if v, ok := t.Count(name, val); ok {
				emit(i, float64(v))
			}
		}
	}
	return t.Err()
}
