package sources

import (
	"context"
	"errors"
	"runtime"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	sampledCPU = counter("tee_sampled_cpu_seconds_total",
		"CPU time in seconds since the monitor started, by process name and by what the process's threads did at the ticks of a sampling clock, 97 a second on each CPU: in user space (user; with call tls_handshake where the source tls sees one, and guest for a virtual CPU in its guest), in a system call (kernel, with its name, or tls_handshake where a handshake made it), in a page fault (fault), in an interrupt or another exception (interrupt), or as a thread of the kernel (thread); each sample counts for the time between two ticks (perf event cpu-clock).",
		"process", "mode", "call")
	sampleInterval = gauge("tee_sample_interval_seconds",
		"Time in seconds that one sample stands for, by clock: cpu for tee_sampled_cpu_seconds_total, wait for tee_sampled_wait_seconds_total, where the value is the mean of the last round. Seconds divided by this interval are the number of samples, from which the error of the seconds follows.",
		"clock")
)

var samples = probe.Source{
	Name:    "samples",
	Doc:     "CPU time by process and by use (user space, each system call, page faults, interrupts), from samples",
	Metrics: []*metric.Desc{sampledCPU, sampleInterval, retiredEvents},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures, and to open a perf event of each CPU; where kernel.perf_event_paranoid is 3, as on Debian, opening the perf event needs cap_sys_admin", Open: true},
	},
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF and CONFIG_PERF_EVENTS, x86-64 only",
	Cost: "97 ticks a second on each CPU, idle or not. On a VM where a timer interrupt is an exit, a tick takes 12.5 µs, of which the program takes 2.4 µs: 0.12 % of a core (Linux 6.18, BenchmarkTick). The source measures a tick when it is opened; the budget and teescope_source_cpu_seconds_total use that value. " +
		"64 kB for each CPU, at most 8 MiB, and 1.3 MB",
	Blind: "code that runs with interrupts off: the tick comes when interrupts are on again, so time of entering and leaving the kernel counts for the code that follows (40 of the 130 ns of an empty system call count for user space: Linux 6.18 in a VM, TestCauses); hardware interrupts (soft interrupts are visible): their time during a system call counts for the call. Under lockdown in confidentiality mode, and on processors with FRED, interrupts look like page faults, and both count as fault. The inside of enclaves counts as user space, and the end of rt_sigreturn as interrupt. While the hypervisor does not run this VM (steal), ticks are late and count as missed events",
	Open:  openSamples,
}

func openSamples(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
	if runtime.GOARCH != "amd64" {
		return nil, probe.NotHere("samples of CPU time on %s: how a thread entered the kernel is known on x86-64 only", runtime.GOARCH)
	}
	s, err := bpf.OpenSamples(h)
	if err != nil {
		return nil, err
	}
	return &sampler{
		counters: counters{
			Counters: s.Counters, labels: map[[3]string][]string{}, late: s.Late,
			full: "names that are idle for minutes are removed automatically; to empty the tables now, switch the source off and on",
			decode: func(c *counters, emit emitter) uint64 {
				folded := s.Sampled(func(process string, in bpf.Activity, call string, n float64) {
					emit.send(sampledCPU, n*bpf.SamplePeriod.Seconds(), c.label(process, string(in), call)...)
				})
				emit.send(retiredEvents, float64(s.Retired()), c.label("samples")...)
				emit.send(sampleInterval, bpf.SamplePeriod.Seconds(), c.label("cpu")...)
				return folded
			},
		},
		samples: s, host: h,
	}, nil
}

// sampler is the Reader of samples. Its clocks follow the CPUs that are online.
type sampler struct {
	counters
	samples *bpf.Samples
	host    *host.Host
}

// Read implements probe.Reader.
func (s *sampler) Read(ctx context.Context, emit func(metric.Sample)) error {
	online, following := machine.OnlineCPUs(s.host)
	if following == nil {
		following = probe.Denied(s.samples.Follow(online), "the clock of a CPU that came online needs CAP_PERFMON or, where kernel.perf_event_paranoid is 3, CAP_SYS_ADMIN: restart teescope")
	}
	err := s.counters.Read(ctx, emit)
	if rerr := s.samples.Recycle(); err != nil { // only where the table is full does it matter that it stays so
		err = errors.Join(err, rerr)
	}
	return errors.Join(err, following)
}

// Steady implements probe.Steady: all explanations rest on these samples.
func (s *sampler) Steady() {}

// Close implements probe.Reader.
func (s *sampler) Close() error { return s.samples.Close() }
