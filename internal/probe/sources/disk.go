package sources

import (
	"context"
	"regexp"

	"github.com/prometheus/procfs/blockdevice"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// diskIgnored are partitions and memory disks, node_exporter's default.
var diskIgnored = regexp.MustCompile(`^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$`)

const sector = 512 // bytes, in /proc/diskstats whatever the device says

// diskFields are the columns of /proc/diskstats
// (Documentation/admin-guide/iostats.rst). since is the number of columns that a line
// needs for the field to exist: 14 always, 18 from Linux 4.18, 20 from 5.5.
var diskFields = []struct {
	desc  *metric.Desc
	since int
	value func(*blockdevice.Diskstats) float64
}{
	{diskCounter("reads_completed", "Reads completed"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.ReadIOs) }},
	{diskCounter("reads_merged", "Reads merged with a neighbour"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.ReadMerges) }},
	{diskCounter("read_bytes", "Bytes read"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.ReadSectors) * sector }},
	{diskCounter("read_time_seconds", "Time that reads took in seconds, summed over reads"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.ReadTicks) / 1e3 }},
	{diskCounter("writes_completed", "Writes completed"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.WriteIOs) }},
	{diskCounter("writes_merged", "Writes merged with a neighbour"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.WriteMerges) }},
	{diskCounter("written_bytes", "Bytes written"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.WriteSectors) * sector }},
	{diskCounter("write_time_seconds", "Time that writes took in seconds, summed over writes"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.WriteTicks) / 1e3 }},
	{gauge("node_disk_io_now", "I/Os in flight, from /proc/diskstats.", "device"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.IOsInProgress) }},
	{diskCounter("io_time_seconds", "Time with I/O in flight in seconds"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.IOsTotalTicks) / 1e3 }},
	{diskCounter("io_time_weighted_seconds", "Time with I/O in flight in seconds, weighted by how many"), 14, func(d *blockdevice.Diskstats) float64 { return float64(d.WeightedIOTicks) / 1e3 }},
	{diskCounter("discards_completed", "Discards completed"), 18, func(d *blockdevice.Diskstats) float64 { return float64(d.DiscardIOs) }},
	{diskCounter("discards_merged", "Discards merged with a neighbour"), 18, func(d *blockdevice.Diskstats) float64 { return float64(d.DiscardMerges) }},
	{diskCounter("discarded_sectors", "Sectors of 512 bytes discarded"), 18, func(d *blockdevice.Diskstats) float64 { return float64(d.DiscardSectors) }},
	{diskCounter("discard_time_seconds", "Time that discards took in seconds, summed over discards"), 18, func(d *blockdevice.Diskstats) float64 { return float64(d.DiscardTicks) / 1e3 }},
	{diskCounter("flush_requests", "Flushes completed"), 20, func(d *blockdevice.Diskstats) float64 { return float64(d.FlushRequestsCompleted) }},
	{diskCounter("flush_requests_time_seconds", "Time that flushes took in seconds, summed over flushes"), 20, func(d *blockdevice.Diskstats) float64 { return float64(d.TimeSpentFlushing) / 1e3 }},
}

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
		return out
	}(),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error {
			fs, err := blockdevice.NewFS(h.Path("/proc"), h.Path("/sys"))
			if err != nil {
				return err
			}
			stats, err := fs.ProcDiskstats()
			if err != nil {
				return err
			}
			for i := range stats {
				if diskIgnored.MatchString(stats[i].DeviceName) {
					continue
				}
				for _, f := range diskFields {
					if stats[i].IoStatsCount >= f.since {
						out.send(f.desc, f.value(&stats[i]), stats[i].DeviceName)
					}
				}
			}
			return nil
		}), nil
	},
}
