package sources

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	cpuSeconds = counter("node_cpu_seconds_total", "CPU time by mode in seconds, from /proc/stat.", "cpu", "mode")
	cpuGuest   = counter("node_cpu_guest_seconds_total", "CPU time spent in virtual machines in seconds, also counted as user or nice, from /proc/stat.", "cpu", "mode")
)

var cpu = probe.Source{
	Name:    "cpu",
	Doc:     "CPU time by CPU and mode, under node_exporter's names",
	Metrics: []*metric.Desc{cpuSeconds, cpuGuest},
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		last := map[int64]procfs.CPUStat{}
		return reading(func(_ context.Context, out emitter) error {
			fs, err := procfs.NewFS(h.Path("/proc"))
			if err != nil {
				return err
			}
			st, err := fs.Stat()
			if err != nil {
				return err
			}
			for _, n := range slices.Sorted(maps.Keys(st.CPU)) {
				c := steady(last[n], st.CPU[n])
				last[n] = c
				id := strconv.FormatInt(n, 10)
				for _, m := range []struct {
					mode  string
					value float64
				}{
					{"user", c.User}, {"nice", c.Nice}, {"system", c.System}, {"idle", c.Idle},
					{"iowait", c.Iowait}, {"irq", c.IRQ}, {"softirq", c.SoftIRQ}, {"steal", c.Steal},
				} {
					out.send(cpuSeconds, m.value, id, m.mode)
				}
				out.send(cpuGuest, c.Guest, id, "user")
				out.send(cpuGuest, c.GuestNice, id, "nice")
			}
			return nil
		}), nil
	},
}

// hotplugSeconds is how far idle time must fall to mean that the CPU went offline and
// came back, which restarts its counters.
const hotplugSeconds = 3

// steady keeps counters from decreasing. The kernel computes idle, iowait and steal on the fly
// and may show slightly less than before (proc(5) says so for iowait), which Prometheus would
// interpret as a restart from zero.
func steady(last, now procfs.CPUStat) procfs.CPUStat {
	if last.Idle-now.Idle >= hotplugSeconds {
		return now
	}
	return procfs.CPUStat{
		User: max(last.User, now.User), Nice: max(last.Nice, now.Nice), System: max(last.System, now.System),
		Idle: max(last.Idle, now.Idle), Iowait: max(last.Iowait, now.Iowait), IRQ: max(last.IRQ, now.IRQ),
		SoftIRQ: max(last.SoftIRQ, now.SoftIRQ), Steal: max(last.Steal, now.Steal),
		Guest: max(last.Guest, now.Guest), GuestNice: max(last.GuestNice, now.GuestNice),
	}
}
