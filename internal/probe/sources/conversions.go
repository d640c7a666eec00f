package sources

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	conversionCalls = counter("tee_private_memory_conversions_total",
		"Calls since the monitor started that converted the confidential VM's memory from private to shared with the hypervisor, or back (functions set_memory_decrypted, set_memory_encrypted).",
		"direction")
	conversionBytes = counter("tee_private_memory_converted_bytes_total",
		"Memory in bytes whose conversion was requested.", "direction")
	conversionFailures = counter("tee_private_memory_conversion_failures_total",
		"Conversions that failed; the kernel does not reuse their memory.", "direction")
	conversionTime = &metric.Desc{Name: "tee_private_memory_conversion_duration_seconds", Kind: metric.Histogram, Labels: []string{"direction"},
		Help: "Duration of a conversion in seconds (entry and exit of the same functions)."}
	acceptCalls = counter("tee_memory_acceptances_total",
		"Calls since the monitor started that accepted memory given to the confidential VM, made by the first task that needs the memory (function accept_memory).")
	acceptTime = &metric.Desc{Name: "tee_memory_acceptance_duration_seconds", Kind: metric.Histogram,
		Help: "Duration of a call that accepted memory, in seconds (entry and exit of accept_memory)."}
)

// conversions are expensive: each goes through the hypervisor and flushes caches and
// TLBs. Drivers that convert for every I/O are a common cause of slow guests.
var conversions = probe.Source{
	Name:    "conversions",
	Doc:     "Memory of this confidential VM converted between private and shared, or accepted",
	Metrics: []*metric.Desc{conversionCalls, conversionBytes, conversionFailures, conversionTime, acceptCalls, acceptTime},
	Needs:   functionNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF, and CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS or CONFIG_KPROBES; CCA guests 6.13, acceptance 6.5 with CONFIG_UNACCEPTED_MEMORY",
	Cost:    "two runs of programs for each call: together under a microsecond, while the call takes tens of microseconds; 2.7 kB for each CPU; not measured on TEE hardware",
	Blind:   "conversions in early boot, by firmware and by a paravisor; concurrent calls that collide in a table of 256 entries are counted but not timed",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if _, err := confidentialGuest(facts); err != nil {
			return nil, err
		}
		_, err := readUnaccepted(h)
		acceptance := !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist) // the value may be bad now
		return openProgram(bpf.GuestMemory(acceptance), func(c *counters, emit emitter) uint64 {
			counts := bpf.GuestMemoryCounts{Counters: c.Counters}
			c.sendConversions("to_shared", counts.ToShared(), emit)
			c.sendConversions("to_private", counts.ToPrivate(), emit)
			if !acceptance {
				return 0
			}
			s := counts.Accepted()
			if s.Begun {
				emit.send(acceptCalls, float64(s.Calls))
			}
			if s.Ended {
				emit(metric.Sample{Desc: acceptTime, Hist: spanTime(&s)})
			}
			return 0
		})(h, facts)
	},
}

func (c *counters) sendConversions(direction string, s bpf.Span, emit emitter) {
	l := c.label(direction)
	if s.Begun {
		emit.send(conversionCalls, float64(s.Calls), l...)
		emit.send(conversionBytes, float64(s.Units)*float64(unix.Getpagesize()), l...)
	}
	if s.Ended {
		emit.send(conversionFailures, float64(s.Failed), l...)
		emit(metric.Sample{Desc: conversionTime, Labels: l, Hist: spanTime(&s)})
	}
}
