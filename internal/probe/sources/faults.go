package sources

import (
	"runtime"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var pageFaults = counter("tee_page_faults_total",
	"Page faults since the monitor started, by process name, by space in which they happened and by cause, a partition of the x86 error code: no_page_found and write on a page that is not there, instruction_fetch from one, write_protection and protection on one that is, and other for reserved bits, protection keys, shadow stacks and SGX (tracepoints exceptions:page_fault_user and page_fault_kernel).",
	"process", "space", "cause")

var faults = probe.Source{
	Name:    "faults",
	Doc:     "page faults by process, space and cause, counted in the kernel; x86 only",
	Metrics: []*metric.Desc{pageFaults},
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if runtime.GOARCH != "amd64" {
			return nil, probe.NotHere("page faults by cause on %s: the tracepoints exist on x86 only", runtime.GOARCH)
		}
		return openFaults(h, facts)
	},
}

var openFaults = openProgram(bpf.Faults, func(c *counters, emit emitter) uint64 {
	return c.Faults(func(process string, space, cause int, n uint64) {
		emit.send(pageFaults, float64(n), c.label(process, bpf.Spaces[space], bpf.Causes[cause])...)
	})
})
