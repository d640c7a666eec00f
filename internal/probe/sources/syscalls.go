package sources

import (
	"context"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var syscallsTotal = counter("tee_syscalls_total",
	"System calls entered since the monitor started, by process name and call; compat is any call of a 32-bit program (tracepoint raw_syscalls:sys_enter).",
	"process", "syscall")

var syscalls = probe.Source{
	Name:    "syscalls",
	Doc:     "system calls by process and call, counted in the kernel",
	Metrics: []*metric.Desc{syscallsTotal},
	Open: openProgram(bpf.Syscalls, func(c *bpf.Counters, emit emitter) uint64 {
		return c.Syscalls(func(process, syscall string, n uint64) {
			emit.send(syscallsTotal, float64(n), process, syscall)
		})
	}),
}

// counters is the Reader of a BPF program: what decode makes of its maps, and
// what the program missed and folded.
type counters struct {
	*bpf.Counters
	decode func(*bpf.Counters, emitter) (folded uint64)
}

// openProgram returns the Open function of a source that reads one BPF program.
func openProgram(p *bpf.Program, decode func(*bpf.Counters, emitter) uint64) func(*host.Host, []tee.Facts) (probe.Reader, error) {
	return func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := p.Open(h)
		if err != nil {
			return nil, err
		}
		return &counters{c, decode}, nil
	}
}

// Read implements probe.Reader. A hook that could not be attached is an error
// for as long as the source is open: the others still deliver.
func (c *counters) Read(_ context.Context, emit func(metric.Sample)) error {
	missed, err := c.Missed()
	if err != nil {
		return err
	}
	folded := c.decode(c.Counters, emit)
	emitter(emit).send(probe.Missed, float64(missed))
	emitter(emit).send(probe.Folded, float64(folded))
	return c.Lost
}
