package sources

import (
	"context"
	"math"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
)

// reading is a Reader that holds nothing open.
type reading func(context.Context, emitter) error

// Read implements probe.Reader.
func (r reading) Read(ctx context.Context, emit func(metric.Sample)) error { return r(ctx, emit) }

// Close implements probe.Reader.
func (reading) Close() error { return nil }

// emitter hands out samples.
type emitter func(metric.Sample)

// send hands out a value. NaN stands for one that could not be read, which the reading's error explains: it is not sent.
func (e emitter) send(d *metric.Desc, v float64, labels ...string) {
	if !math.IsNaN(v) {
		e(metric.Sample{Desc: d, Labels: labels, Value: v})
	}
}

func counter(name, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Counter, Labels: labels}
}

func gauge(name, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Labels: labels}
}

// atMost marks a metric whose values have a limit that no hardware passes.
func atMost(most float64, d *metric.Desc) *metric.Desc {
	d.Most = most
	return d
}

// witness is the process whose mounts and network stand for the host's: process 1, so a
// container with the host's PID namespace sees what the host sees, or this process if
// /proc hides it (hidepid).
func witness(h *host.Host) string {
	if ok, err := h.Exists("/proc/1"); ok && err == nil {
		return "/proc/1"
	}
	return "/proc/self"
}

// cgroupMounts are the hierarchies of control groups that the witness sees. With the error, which lists lines that are no
// mount, it returns the rest.
func cgroupMounts(h *host.Host) ([]machine.CgroupMount, error) {
	file := witness(h) + "/mountinfo"
	b, err := h.ReadFile(file)
	if err != nil {
		return nil, err
	}
	mounts, err := machine.ParseMounts(file, b)
	return machine.CgroupMounts(mounts), err
}
