package sources

import (
	"context"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	cpuSeconds = counter("node_cpu_seconds_total", "CPU time by mode in seconds, from /proc/stat.", "cpu", "mode")
	cpuGuest   = counter("node_cpu_guest_seconds_total", "CPU time spent in virtual machines in seconds, also counted as user or nice, from /proc/stat.", "cpu", "mode")
)

// guestModes are the modes of CPU time of the second metric; all others are of the first.
var guestModes = map[string]string{"guest": "user", "guest_nice": "nice"}

var cpu = probe.Source{
	Name:    "cpu",
	Doc:     "CPU time by CPU and mode, under node_exporter's names",
	Metrics: []*metric.Desc{cpuSeconds, cpuGuest},
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		last := map[int]machine.CPUTimes{}
		return reading(func(_ context.Context, out emitter) error {
			b, err := h.ReadFile("/proc/stat")
			if err != nil {
				return err
			}
			return machine.ParseStat(b, func(now machine.CPUTimes) {
				now = steady(last[now.CPU], now)
				last[now.CPU] = now
				id := strconv.Itoa(now.CPU)
				for i, mode := range machine.CPUModes {
					desc := cpuSeconds
					if of, guest := guestModes[mode]; guest {
						desc, mode = cpuGuest, of
					}
					if now.Known[i] {
						out.send(desc, float64(now.Ticks[i])/machine.TicksPerSecond, id, mode)
					}
				}
			}, nil)
		}), nil
	},
}

// hotplugTicks is how far idle time must fall to mean that the CPU went offline and
// came back, which restarts its counters.
const hotplugTicks = 3 * machine.TicksPerSecond

// steady keeps counters from decreasing. The kernel computes idle, iowait and steal on the fly
// and may show slightly less than before (proc(5) says so for iowait), which Prometheus would
// interpret as a restart from zero.
func steady(last, now machine.CPUTimes) machine.CPUTimes {
	const idle = 3 // of machine.CPUModes
	if now.Known[idle] && last.Ticks[idle] >= now.Ticks[idle]+hotplugTicks {
		return now
	}
	for i := range now.Ticks {
		now.Ticks[i] = max(last.Ticks[i], now.Ticks[i])
	}
	return now
}
