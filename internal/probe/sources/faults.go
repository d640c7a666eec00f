package sources

import (
	"runtime"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var pageFaults = counter("tee_page_faults_total",
	"Page faults since the monitor started, by process name, by space in which they happened and by cause, decoded from the x86 error code. On a page that is not present: no_page_found (a read), write, instruction_fetch. On a present page: write_protection, protection. other: reserved bits, protection keys, shadow stacks and SGX (tracepoints exceptions:page_fault_user and page_fault_kernel).",
	"process", "space", "cause")

var pidFaults = counter("tee_pid_page_faults_total",
	"Page faults since the source was narrowed to process ids, by id, name of the process now, space and cause; also included in tee_page_faults_total (tracepoints exceptions:page_fault_user and page_fault_kernel).",
	"pid", "process", "space", "cause")

var faults = probe.Source{
	Name:    "faults",
	Doc:     "Page faults by process, space and cause, counted in the kernel; x86 only",
	Metrics: []*metric.Desc{pageFaults, pidFaults, retiredEvents},
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF, x86 only",
	Cost: "per fault: see the table of event costs in docs/lab/performance.md. " +
		"105 kB for each CPU, at most 8 MiB",
	Blind: "the instruction and cause of faults inside production enclaves (only the enclave's page range is visible); a guest's faults on memory that its hypervisor has not mapped (EPT or NPT violations): only the host can count them, as exits of the virtual machine",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if runtime.GOARCH != "amd64" {
			return nil, probe.NotHere("page faults by cause on %s: the tracepoints exist on x86 only", runtime.GOARCH)
		}
		return openFaults(h, facts)
	},
}

var openFaults = openByProcess(bpf.Faults, nil, func(c *counters, emit emitter) uint64 {
	counts := bpf.FaultCounts{Counters: c.Counters}
	folded := counts.ByProcess(func(process string, space, cause int, n uint64) {
		emit.send(pageFaults, float64(n), c.label(process, bpf.Spaces[space], bpf.Causes[cause])...)
	})
	counts.Own(func(pid int, process string, space, cause int, n uint64) {
		emit.send(pidFaults, float64(n), c.label(strconv.Itoa(pid), process, bpf.Spaces[space], bpf.Causes[cause])...)
	})
	return folded
})
