package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// Metrics common to the in-tree driver's functions and the out-of-tree drivers'
// statistics; only one of the two is open on a machine.
var (
	sgxEnclaves = gauge("tee_sgx_enclaves",
		"Enclaves that exist, from the SGX driver; in-tree, those counted since the monitor started plus earlier ones that /proc/PID/maps shows.")
	enclavesCreated     = counter("tee_sgx_enclaves_created_total", "Enclaves created (ECREATE), from the SGX driver.")
	enclavesInitialized = counter("tee_sgx_enclaves_initialized_total", "Enclaves initialized (EINIT), from the SGX driver.")
	enclavesRemoved     = counter("tee_sgx_enclaves_removed_total", "Enclaves removed, from the SGX driver; in-tree, including those opened but never created.")
	pagesAllocated      = counter("tee_sgx_epc_pages_allocated_total", "EPC pages handed out by the allocator, from the SGX driver.")
	pagesAdded          = counter("tee_sgx_epc_pages_added_total", "Pages added to enclaves (EADD), from the SGX driver; in-tree, pages allocated to be added.")
	pagesEvicted        = counter("tee_sgx_epc_pages_evicted_total", "EPC pages written out to memory (EWB), from the SGX driver.")
	pagesLoadedBack     = counter("tee_sgx_epc_pages_loaded_back_total", "Evicted pages loaded back into the EPC (ELDU), from the SGX driver.")
	pagesReclaimed      = counter("tee_sgx_epc_pages_reclaimed_total", "EPC pages taken by the reclaimer, from the SGX driver; in-tree, these are the pages evicted.")
	pagesMarkedOld      = counter("tee_sgx_epc_pages_marked_old_total", "EPC pages whose accessed bit the reclaimer cleared, from the SGX driver.")
)

var (
	pagesFreed = counter("tee_sgx_epc_pages_freed_total",
		"EPC pages returned to the allocator (kernel function sgx_free_epc_page).")
	allocationFailures = counter("tee_sgx_epc_allocation_failures_total",
		"Requests for an EPC page that failed, by reason: busy means that there was no free page and the caller may not reclaim, so the fault is retried; no_memory means that the EPC is used up (kernel function sgx_alloc_epc_page).", "reason")
	reclaimBatches = counter("tee_sgx_epc_reclaim_batches_total",
		"Batches of at most 16 pages examined for reclaim, by context: background is the thread ksgxd, direct is a thread that needs a page (kernel function sgx_reclaim_pages).", "context")
	reclaimTime = &metric.Desc{Name: "tee_sgx_epc_reclaim_duration_seconds", Kind: metric.Histogram, Labels: []string{"context"},
		Help: "Duration of a reclaim batch in seconds; in context direct, an application waits for the batch (kernel function sgx_reclaim_pages)."}
	sgxFaults = counter("tee_sgx_enclave_faults_total",
		"Page faults on enclave memory by result; resolved includes faults that are retried because no EPC page was free (kernel function sgx_vma_fault).", "result")
	faultTime = &metric.Desc{Name: "tee_sgx_enclave_fault_duration_seconds", Kind: metric.Histogram,
		Help: "Time the driver spent on a page fault on enclave memory in seconds, including loading the page back (kernel function sgx_vma_fault)."}
	sgxProcessPages = counter("tee_sgx_process_epc_pages_total",
		"EPC pages allocated or loaded back, by the process that needed them (kernel functions sgx_alloc_epc_page, sgx_encl_eldu).", "process", "operation")
	sgxProcessFaults = counter("tee_sgx_process_enclave_faults_total",
		"Page faults on enclave memory by process (kernel function sgx_vma_fault).", "process")
	sgxHook = gauge("tee_sgx_hook_live",
		"Whether a program is attached to this function of the in-tree driver, at its entry or its exit, 1 or 0.", "hook")
)

// sgxCounters maps each event to its counter.
var sgxCounters = []struct {
	event  bpf.SGXEvent
	desc   *metric.Desc
	labels []string
}{
	{bpf.SGXCreated, enclavesCreated, nil},
	{bpf.SGXInitialized, enclavesInitialized, nil},
	{bpf.SGXRemoved, enclavesRemoved, nil},
	{bpf.SGXAdded, pagesAdded, nil},
	{bpf.SGXFreed, pagesFreed, nil},
	{bpf.SGXEvicted, pagesEvicted, nil},
	{bpf.SGXEvicted, pagesReclaimed, nil},
	{bpf.SGXMarkedOld, pagesMarkedOld, nil},
	{bpf.SGXBusy, allocationFailures, []string{"busy"}},
	{bpf.SGXNoMemory, allocationFailures, []string{"no_memory"}},
	{bpf.SGXInterrupted, allocationFailures, []string{"interrupted"}},
	{bpf.SGXFailed, allocationFailures, []string{"other"}},
	{bpf.SGXReclaimedBackground, reclaimBatches, []string{"background"}},
	{bpf.SGXReclaimedDirect, reclaimBatches, []string{"direct"}},
	{bpf.SGXFaultsResolved, sgxFaults, []string{"resolved"}},
	{bpf.SGXFaultsFailed, sgxFaults, []string{"failed"}},
}

var sgx = probe.Source{
	Name: "sgx",
	Doc:  "Enclaves, EPC paging, faults and reclaiming of the in-tree SGX driver, counted in the kernel",
	Metrics: []*metric.Desc{sgxEnclaves, enclavesCreated, enclavesInitialized, enclavesRemoved,
		pagesAllocated, pagesAdded, pagesFreed, pagesEvicted, pagesLoadedBack, pagesReclaimed, pagesMarkedOld,
		allocationFailures, reclaimBatches, reclaimTime, sgxFaults, faultTime, sgxProcessPages, sgxProcessFaults, sgxHook},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to attach the programs", Open: true},
		{Capability: "cap_sys_ptrace", For: "to count the enclaves that existed before the source was opened", Optional: true, Open: true},
	},
	Kernels: "5.17 with fentry (CONFIG_DEBUG_INFO_BTF, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS), 5.15 with kprobes (CONFIG_KPROBE_EVENTS); CONFIG_X86_SGX; tested on functions with the same signatures on 6.1 and 6.12",
	Cost:    "not measured on SGX hardware. Programs of this size take 0.1 to 0.2 µs for each page that is allocated, written out or loaded back and for each fault; the driver itself takes microseconds. No cost while no enclave pages",
	Blind:   "what happens inside enclaves; paging of the EPC by the kernel of a virtual machine (only its allocation is visible); the resident pages of a process. Kretprobes count one page in 511 too many as added",
	Open:    openSGX,
}

func openSGX(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
	if where, err := legacyDriver(h); err == nil {
		return nil, probe.NotHere("%s says what the driver does", where)
	}
	if ok, err := hasDevice(h, []string{"/dev/sgx_enclave", "/dev/sgx_vepc"}); err != nil {
		return nil, err
	} else if !ok {
		return nil, probe.NotHere("the in-tree SGX driver is not active: no /dev/sgx_enclave and no /dev/sgx_vepc")
	}
	c, err := bpf.SGX.Open(h)
	if err != nil {
		return nil, err
	}
	r := &sgxReader{counts: bpf.SGXCounts{Counters: c}, counters: &counters{Counters: c, labels: map[[3]string][]string{}}, host: h, enclaves: locked.New(enclaves{attached: true})}
	r.decode = func(_ *counters, out emitter) uint64 { return r.emit(out) }
	r.seed()
	return r, nil
}

// sgxReader adds the existing enclaves to the programs' counts.
type sgxReader struct {
	*counters
	counts   bpf.SGXCounts
	host     *host.Host
	enclaves locked.Value[enclaves]
}

// enclaves is what is known of the existing enclaves.
type enclaves struct {
	attached bool
	// before is how many more enclaves there were than counted; known says that none
	// was created or removed unseen since.
	before int64
	known  bool
	unseen error
	looked time.Time
}

// lookAgain is the minimum time between two searches of the machine's processes.
const lookAgain = time.Minute

// Attach implements probe.Governed.
func (r *sgxReader) Attach() error {
	r.enclaves.Lock().attached = true
	r.enclaves.Unlock()
	return r.counters.Attach()
}

// Detach implements probe.Governed. From now on enclaves may be created and removed
// unseen.
func (r *sgxReader) Detach() error {
	e := r.enclaves.Lock()
	e.attached, e.known = false, false
	r.enclaves.Unlock()
	return r.counters.Detach()
}

// seed counts the existing enclaves.
func (r *sgxReader) seed() {
	attached := r.enclaves.Lock().attached
	r.enclaves.Unlock()
	found, err := scanSGX(r.host)
	var n int64
	for _, e := range found {
		n += int64(e.number)
	}
	counted, _ := r.counted()
	e := r.enclaves.Lock()
	defer r.enclaves.Unlock()
	e.looked, e.unseen = r.host.Now(), err
	e.before = n - counted
	e.known = err == nil && attached && e.attached
}

// counted is how many more enclave objects were created than removed.
func (r *sgxReader) counted() (int64, bool) {
	opened, live := r.counts.Total(bpf.SGXOpened)
	removed, _ := r.counts.Total(bpf.SGXRemoved)
	return int64(opened) - int64(removed), live
}

// exist is the number of enclaves now, if it is known.
func (r *sgxReader) exist() (float64, bool) {
	e := r.enclaves.Lock()
	stale := !e.known && r.host.Now().Sub(e.looked) >= lookAgain
	r.enclaves.Unlock()
	if stale {
		r.seed()
	}
	counted, live := r.counted()
	e = r.enclaves.Lock()
	defer r.enclaves.Unlock()
	return max(0, float64(e.before+counted)), live && e.known
}

// Read implements probe.Reader.
func (r *sgxReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	err := r.counters.Read(ctx, emit)
	if err != nil && errors.Is(err, r.Lost) {
		err = &probe.Problem{Err: fmt.Errorf("live are %s; %w", strings.Join(r.live(), ", "), err), Remedy: probe.Remedy(err)}
	}
	unseen := r.enclaves.Lock().unseen
	r.enclaves.Unlock()
	if unseen != nil {
		err = errors.Join(err, &probe.Problem{Err: fmt.Errorf("count the enclaves that existed before: %w", unseen), Remedy: probe.Remedy(unseen)})
	}
	return err
}

func (r *sgxReader) live() (names []string) {
	r.counts.Hooks(func(name string, live bool) {
		if live {
			names = append(names, name)
		}
	})
	return names
}

func (r *sgxReader) emit(out emitter) (folded uint64) {
	if n, ok := r.exist(); ok {
		out.send(sgxEnclaves, n)
	}
	for _, c := range sgxCounters {
		if n, ok := r.counts.Total(c.event); ok {
			out.send(c.desc, float64(n), c.labels...)
		}
	}
	r.counts.Hooks(func(name string, live bool) {
		v := 0.0
		if live {
			v = 1
		}
		out.send(sgxHook, v, r.label(name)...)
	})
	fault, background, direct := r.counts.Times()
	sendTimes(out, faultTime, fault)
	sendTimes(out, reclaimTime, background, "background")
	sendTimes(out, reclaimTime, direct, "direct")
	return r.byProcess(out)
}

func sendTimes(out emitter, d *metric.Desc, l *bpf.Latency, labels ...string) {
	if l != nil {
		out(metric.Sample{Desc: d, Labels: labels, Hist: &metric.Hist{Bounds: bpf.LatencyBounds, Counts: l.Buckets(), Sum: l.Sum()}})
	}
}

func (r *sgxReader) byProcess(out emitter) (folded uint64) {
	var allocated, loaded uint64
	pages, faults := r.counts.Live(bpf.SGXPages), r.counts.Live(bpf.SGXFaults)
	loads := r.counts.Live(bpf.SGXLoads)
	folded = r.counts.ByProcess(func(process string, a, l, f uint64) {
		allocated += a
		loaded += l
		if pages {
			out.send(sgxProcessPages, float64(a), r.label(process, "allocated")...)
		}
		if loads {
			out.send(sgxProcessPages, float64(l), r.label(process, "loaded_back")...)
		}
		if faults {
			out.send(sgxProcessFaults, float64(f), r.label(process)...)
		}
	})
	if pages {
		out.send(pagesAllocated, float64(allocated))
	}
	if loads {
		out.send(pagesLoadedBack, float64(loaded))
	}
	return folded
}
