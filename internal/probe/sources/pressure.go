package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	cpuWaiting    = pressureDesc("cpu_waiting", "at least one task waited for a CPU")
	memoryWaiting = pressureDesc("memory_waiting", "at least one task waited for memory")
	memoryStalled = pressureDesc("memory_stalled", "all tasks waited for memory")
	ioWaiting     = pressureDesc("io_waiting", "at least one task waited for I/O")
	ioStalled     = pressureDesc("io_stalled", "all tasks waited for I/O")
	irqStalled    = pressureDesc("irq_stalled", "interrupts held up all tasks of a CPU")
)

func pressureDesc(what, when string) *metric.Desc {
	d := counter("node_pressure_"+what+"_seconds_total", "Time in seconds in which "+when+", from /proc/pressure.")
	d.Better = metric.Lower
	return d
}

// pressure has no line "full" for the CPU: at system level it is always zero
// (Documentation/accounting/psi.rst).
var pressure = probe.Source{
	Name:    "pressure",
	Doc:     "Pressure stall information of CPU, memory, I/O and interrupts, under node_exporter's names",
	Metrics: []*metric.Desc{cpuWaiting, memoryWaiting, memoryStalled, ioWaiting, ioStalled, irqStalled},
	Kernels: "4.20 with CONFIG_PSI; interrupts 6.1 with CONFIG_IRQ_TIME_ACCOUNTING",
	Cost:    "three or four small files a reading",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if ok, err := h.Exists("/proc/pressure"); err != nil || !ok {
			return nil, noPSI(err)
		}
		// With psi=0 some kernels have the files but refuse to read them.
		if _, err := h.ReadFile("/proc/pressure/cpu"); errors.Is(err, errors.ErrUnsupported) {
			return nil, noPSI(nil)
		}
		return reading(func(_ context.Context, out emitter) error { return readPressure(h, out) }), nil
	},
}

func noPSI(err error) error {
	if err != nil {
		return err
	}
	return &probe.Problem{
		Err:    probe.NotHere("the kernel keeps no pressure stall information"),
		Remedy: "boot with psi=1, on a kernel with CONFIG_PSI",
	}
}

func readPressure(h *host.Host, out emitter) error {
	var bad machine.Faults
	for _, r := range []struct {
		name       string
		some, full *metric.Desc
	}{{"cpu", cpuWaiting, nil}, {"memory", memoryWaiting, memoryStalled}, {"io", ioWaiting, ioStalled}, {"irq", nil, irqStalled}} {
		file := "/proc/pressure/" + r.name
		b, err := h.ReadFile(file)
		// The last is not built everywhere, and where it is the time of interrupts
		// may not be kept.
		if r.full == irqStalled && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported)) {
			continue
		}
		if err == nil {
			err = parsePressure(file, b, map[string]*metric.Desc{"some": r.some, "full": r.full}, out)
		}
		bad.Add(err)
	}
	return bad.Err()
}

// parsePressure reads lines "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", in microseconds, of those that are
// wanted.
func parsePressure(file string, b []byte, wanted map[string]*metric.Desc, out emitter) error {
	t := machine.Text{File: file}
	left := maps.Clone(wanted)
	for line := range t.Lines(b) {
		kind, _, _ := strings.Cut(line, " ")
		desc, known := left[kind]
		_, total, ok := strings.Cut(line, " total=")
		if !known || !ok {
			t.Bad("%.40q is not some or full with a total", line)
			continue
		}
		delete(left, kind)
		if desc == nil {
			continue
		}
		if n, ok := t.Count(kind+" total", total); ok {
			out.send(desc, float64(n)/1e6)
		}
	}
	for kind, desc := range left {
		if desc != nil {
			t.Add(fmt.Errorf("parse %s: the line %s is missing", file, kind))
		}
	}
	return t.Err()
}
