package sources

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	clocksourceInfo = gauge("tee_clocksource_info",
		"Always 1, with the kernel's clock source as a label, from sysfs current_clocksource; tsc, kvm-clock, hyperv_clocksource_tsc_page and arch_sys_counter are read inside the guest and are cheap; acpi_pm and hpet cause an exit for each reading.",
		"name")
	clocksourceAvailable = gauge("tee_clocksource_available",
		"Always 1, for each clock source that the kernel could use, from sysfs available_clocksource.", "name")
	clocksourceChanges = counter("tee_clocksource_changes_total",
		"Changes of the clock source that readings found since the monitor started; the kernel abandons tsc when it finds that tsc is unstable.")
)

const clocksourceDir = "/sys/devices/system/clocksource/clocksource0"

// clocksourceMax bounds the series of available clock sources; kernels have up to five.
const clocksourceMax = 16

var clocksource = probe.Source{
	Name:    "clocksource",
	Doc:     "The kernel's clock source, which determines the cost of reading the time",
	Metrics: []*metric.Desc{clocksourceInfo, clocksourceAvailable, clocksourceChanges},
	Cost:    "two small files at each reading",
	Blind:   "changes that are reverted between two readings",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		last, err := h.ReadString(clocksourceDir + "/current_clocksource")
		if err != nil {
			return nil, err
		}
		changes := 0
		return reading(func(_ context.Context, out emitter) error {
			name, err := h.ReadString(clocksourceDir + "/current_clocksource")
			if err != nil {
				return err
			}
			if name != last {
				changes++
				last = name
			}
			out.send(clocksourceInfo, 1, name)
			out.send(clocksourceChanges, float64(changes))
			return readAvailable(h, out)
		}), nil
	},
}

func readAvailable(h *host.Host, out emitter) error {
	s, err := h.ReadString(clocksourceDir + "/available_clocksource")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, name := range strings.Fields(s) {
		if seen[name] {
			continue
		}
		if len(seen) == clocksourceMax {
			return fmt.Errorf("read %s/available_clocksource: more than %d clock sources", clocksourceDir, clocksourceMax)
		}
		seen[name] = true
		out.send(clocksourceAvailable, 1, name)
	}
	return nil
}
