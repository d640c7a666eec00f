package sources

import (
	"context"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

const sector = 512 // bytes, in /proc/diskstats whatever the device says

// diskFields are the columns of machine.DiskColumns, in that order, with the factor that makes them base units.
var diskFields = [len(machine.DiskColumns)]struct {
	desc *metric.Desc
	unit float64
}{
	{diskCounter("reads_completed", "Reads completed"), 1},
	{diskCounter("reads_merged", "Reads merged with a neighbour"), 1},
	{diskCounter("read_bytes", "Bytes read"), sector},
	{diskCounter("read_time_seconds", "Time that reads took in seconds, summed over reads"), 1e-3},
	{diskCounter("writes_completed", "Writes completed"), 1},
	{diskCounter("writes_merged", "Writes merged with a neighbour"), 1},
	{diskCounter("written_bytes", "Bytes written"), sector},
	{diskCounter("write_time_seconds", "Time that writes took in seconds, summed over writes"), 1e-3},
	{gauge("node_disk_io_now", "I/Os in flight, from /proc/diskstats.", "device"), 1},
	{diskCounter("io_time_seconds", "Time with I/O in flight in seconds"), 1e-3},
	{diskCounter("io_time_weighted_seconds", "Time with I/O in flight in seconds, weighted by how many"), 1e-3},
	{diskCounter("discards_completed", "Discards completed"), 1},
	{diskCounter("discards_merged", "Discards merged with a neighbour"), 1},
	{diskCounter("discarded_sectors", "Sectors of 512 bytes discarded"), 1},
	{diskCounter("discard_time_seconds", "Time that discards took in seconds, summed over discards"), 1e-3},
	{diskCounter("flush_requests", "Flushes completed"), 1},
	{diskCounter("flush_requests_time_seconds", "Time that flushes took in seconds, summed over flushes"), 1e-3},
}

var diskCounted = gauge(string(metric.CountedDisks), "1 if the disk is counted in totals over disks; 0 if its bytes are already counted by another disk, because it is on top of it (device mapper, md, bcache, drbd, ZFS) or is one path of a multipath NVMe disk that has its own counters. From /sys/class/block and /proc/devices, or else by name.", "device")

func diskCounter(name, what string) *metric.Desc {
	return counter("node_disk_"+name+"_total", what+", from /proc/diskstats.", "device")
}

var disk = probe.Source{
	Name: "disk",
	Doc:  "I/O by block device, under node_exporter's names",
	Metrics: func() (out []*metric.Desc) {
		for _, f := range diskFields {
			out = append(out, f.desc)
		}
		return append(out, diskCounted)
	}(),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error { return readDisks(h, out) }), nil
	},
}

// readDisks leaves out partitions, whose I/O is that of their disk, and views of memory and files.
func readDisks(h *host.Host, out emitter) error {
	b, err := h.ReadFile("/proc/diskstats")
	if err != nil {
		return err
	}
	var bad machine.Faults
	devices, err := machine.ParseDiskstats(b)
	bad.Add(err)
	roles, err := machine.ReadBlockRoles(h, devices)
	bad.Add(err)
	for i := range devices {
		d := &devices[i]
		role, err := roles.RoleOf(d)
		bad.Add(err)
		if role != machine.Disk {
			continue
		}
		for i, f := range diskFields {
			if d.Known[i] {
				out.send(f.desc, float64(d.Cells[i])*f.unit, d.Name)
			}
		}
		counted, err := roles.Counted(d)
		if err != nil {
			bad.Add(err)
			continue
		}
		out.send(diskCounted, oneIf(counted), d.Name)
	}
	return bad.Err()
}
