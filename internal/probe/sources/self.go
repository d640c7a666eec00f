package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	overheadCPU = counter("teescope_overhead_cpu_seconds_total",
		"CPU time that teescope uses in seconds, by part. userspace is its own process (/proc/self/stat) without page. page is the work for open pages and queries over HTTP: CPU time of the threads that answer, without garbage collection. body is teescope's BPF programs: the number of runs times the mean time of a run; the programs time one run of 256. dispatch is the kernel's work to call the programs: 2.5 times its cost in a loop when they were attached, because a load displaces it from the caches; the trap of a uprobe and the tick of the sampling clock count as measured. body and dispatch are estimates, and absent until the cost of a run has been measured.",
		"part")
	memoryBytes = gauge("teescope_memory_bytes",
		"Memory in bytes that teescope uses: rss is its process's resident memory (/proc/self/status), bpf_maps the kernel's accounting of its maps.",
		"kind")
)

var self = probe.Source{
	Name:    "self",
	Doc:     "What teescope itself uses: CPU time in its process and in its BPF programs, and memory",
	Metrics: []*metric.Desc{overheadCPU, memoryBytes},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load an empty program that measures the cost of calling a program", Optional: true, Open: true},
	},
	Kernels: "Any for user space; 5.11 for the programs.",
	Cost:    "10 µs a reading (measured). For the runs of a program, three readings of the clock in 256 runs.",
	Blind:   "The cost of other tools' programs, and cache pollution caused by teescope.",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		s := &selfReader{host: h}
		if h.IsLocal() {
			s.meter, s.noMeter = bpf.NewMeter(h)
		}
		return s, nil
	},
}

type selfReader struct {
	host *host.Host
	user float64 // the last value of userspace
	// meter is nil if BPF programs cannot be loaded; noMeter says why.
	meter   *bpf.Meter
	noMeter error
}

// Read implements probe.Reader.
func (s *selfReader) Read(_ context.Context, emit func(metric.Sample)) error {
	send := emitter(emit).send
	stat, statErr := s.host.ReadFile("/proc/self/stat")
	if statErr == nil {
		var cpu float64
		if cpu, statErr = machine.ProcessSeconds("/proc/self/stat", string(stat)); statErr == nil {
			page := s.host.Pages.CPU().Seconds()
			// The process's time has ticks of 10 ms, that of pages has none: the counter must
			// not fall because of the difference.
			s.user = max(s.user, cpu-page)
			send(overheadCPU, s.user, "userspace")
			if s.host.Pages != nil {
				send(overheadCPU, page, "page")
			}
		}
	}
	status, statusErr := s.host.ReadFile("/proc/self/status")
	if statusErr == nil {
		var rss uint64
		if rss, statusErr = residentBytes(status); statusErr == nil {
			send(memoryBytes, float64(rss), "rss")
		}
	}
	if s.meter == nil {
		return errors.Join(statErr, statusErr, s.noMeter)
	}
	c := s.meter.Costs()
	send(memoryBytes, float64(c.Maps), "bpf_maps")
	if c.Known {
		emit(metric.Sample{Desc: overheadCPU, Labels: []string{"body"}, Value: c.Body, Trust: metric.Estimated})
		emit(metric.Sample{Desc: overheadCPU, Labels: []string{"dispatch"}, Value: c.Dispatch, Trust: metric.Estimated})
	}
	return errors.Join(statErr, statusErr)
}

// Close implements probe.Reader.
func (s *selfReader) Close() error { return nil }

// residentBytes returns VmRSS of /proc/PID/status.
func residentBytes(status []byte) (uint64, error) {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			number, _ := bytes.CutSuffix(bytes.TrimSpace(rest), []byte(" kB"))
			kib, err := strconv.ParseUint(string(number), 10, 53)
			if err != nil {
				return 0, fmt.Errorf("parse VmRSS of /proc/self/status: %.40q is not a number of kB", bytes.TrimSpace(rest))
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("parse /proc/self/status: no VmRSS")
}
