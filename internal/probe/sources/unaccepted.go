package sources

import (
	"context"
	"errors"
	"io/fs"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	unacceptedBytes = gauge("tee_unaccepted_memory_bytes",
		"Memory given to the confidential VM but not yet accepted in bytes, from /proc/meminfo; it falls while the guest runs.")
	acceptedBytes = counter("tee_memory_accepted_bytes_total",
		"Memory that the confidential VM accepted since the monitor started in bytes: the sum of falls of unaccepted memory between readings of /proc/meminfo.")
)

// unaccepted exists since Linux 6.5 with CONFIG_UNACCEPTED_MEMORY, even outside confidential
// VMs, where it is zero.
var unaccepted = probe.Source{
	Name:    "unaccepted",
	Doc:     "Memory that a TDX or SEV-SNP guest has not accepted yet",
	Metrics: []*metric.Desc{unacceptedBytes, acceptedBytes},
	Kernels: "Linux 6.5 and later with CONFIG_UNACCEPTED_MEMORY",
	Cost:    "one small file at each reading",
	Blind:   "memory accepted by firmware or during boot, which is all memory with accept_memory=eager",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		last, err := readUnaccepted(h)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		accepted := 0.0
		return reading(func(_ context.Context, out emitter) error {
			v, err := readUnaccepted(h)
			if err != nil {
				out.send(acceptedBytes, accepted) // until now
				return err
			}
			// Added memory makes the value rise, and is not counted.
			if last > v {
				accepted += last - v
			}
			last = v
			out.send(unacceptedBytes, v)
			out.send(acceptedBytes, accepted)
			return nil
		}), nil
	},
}

func readUnaccepted(h *host.Host) (float64, error) {
	b, err := h.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	v := -1.0
	err = parseMeminfo(b, func(name string, x float64) {
		if name == "Unaccepted_bytes" {
			v = x
		}
	})
	if v >= 0 {
		return v, nil // whatever else is wrong there
	}
	if err == nil {
		err = &probe.Problem{Err: probe.NotHere("/proc/meminfo has no line Unaccepted"),
			Remedy: "use Linux 6.5 or later with CONFIG_UNACCEPTED_MEMORY"}
	}
	return v, err
}
