package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

const vmLabels = "vm is the machine's UUID, name or process id as in tee_vm_info, other for machines beyond 64 at a time, and ended for the sum of ended machines; type is the machine's protection"

var (
	vmExits = counter("tee_vm_exits_total",
		"Exits of virtual CPUs from their guest since the monitor started, by the hardware's reason (Intel SDM appendix C, AMD APM appendix C; Intel's tdcall and AMD's vmgexit are calls by confidential guests); "+vmLabels+" (tracepoint kvm:kvm_exit).",
		"vm", "type", "reason")
	vmUserExits = counter("tee_vm_userspace_exits_total",
		"Returns of KVM_RUN to the process that runs a virtual machine, by reason, KVM_EXIT_* in lower case; memory_fault, hypercall and tdx are conversions and calls of confidential guests. Labels as in tee_vm_exits_total (tracepoint kvm:kvm_userspace_exit).",
		"vm", "type", "reason")
	vmGuestExits = counter("tee_vm_vmgexits_total",
		"Calls of SEV-ES and SEV-SNP guests to their host through the GHCB, by request. Labels as in tee_vm_exits_total (tracepoint kvm:kvm_vmgexit_enter).",
		"vm", "type", "reason")
	vmTDCalls = counter("tee_vm_tdvmcalls_total",
		"Calls of TDX guests to their host, by request. Labels as in tee_vm_exits_total (function handle_tdvmcall of kvm_intel).",
		"vm", "type", "reason")
	vmRMPFaults = counter("tee_vm_rmp_faults_total",
		"Faults on SEV-SNP's reverse map table, by outcome: resolved, or failed where a huge page could not be split. Labels as in tee_vm_exits_total (tracepoint kvm:kvm_rmp_fault).",
		"vm", "type", "outcome")
	vmPrivate = counter("tee_vm_private_memory_lookups_total",
		"Lookups of private memory pages (guest_memfd): one for each fault that maps a page of any size. Labels as in tee_vm_exits_total (function kvm_gmem_get_pfn).",
		"vm", "type")
	vmAway = &metric.Desc{Name: "tee_vm_exit_duration_seconds", Kind: metric.Histogram, Labels: []string{"type", "handled"},
		Help: "Time from an exit of a virtual CPU to its next entry in seconds, including the time its thread waits for a CPU, by the machine's protection and by what handled the exit: kernel, userspace, or halted for an idle guest (tracepoints kvm:kvm_exit and kvm:kvm_entry)."}
)

var kvmLevels = []probe.Level{
	{Name: "counts", Doc: "exits by machine and reason"},
	{Name: "latency", Doc: "also how long virtual CPUs stay outside of their guest"},
}

var kvm = probe.Source{
	Name:    "kvm",
	Doc:     "Exits of virtual machines, both confidential and plain, counted in the kernel",
	Metrics: []*metric.Desc{vmExits, vmUserExits, vmGuestExits, vmTDCalls, vmRMPFaults, vmPrivate, vmAway},
	Levels:  kvmLevels,
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to attach the programs", Open: true},
		{Capability: "cap_dac_read_search", For: "to read tracefs, without which exits have no reason", Optional: true, Open: true},
	},
	Kernels: "5.15 with BTF and KVM, whose modules may be loaded later; SEV-ES calls since 5.11, reverse map faults since 6.11, private memory since 6.8, TDX since 6.16 with fentry.",
	Cost:    "per exit: see the table of event costs in docs/lab/performance.md.",
	Blind:   "A TDX guest's exits to its TDX module, which the host never sees. If KVM runs guests without hardware support, all exits; the source reports this.",
	Open:    openKVM,
}

// kvmReader opens the programs when KVM is loaded, which may happen after the reader was opened.
type kvmReader struct {
	host     *host.Host
	machines *virtualMachines
	facts    []tee.Facts
	// apart: this process sees other process ids than the kernel's own.
	apart    bool
	unclear  error // in this reading: what a machine's process does not tell
	programs locked.Value[kvmPrograms]
}

// kvmPrograms holds the open programs and their state.
type kvmPrograms struct {
	wanted   bool // level latency
	detached bool
	counts   *bpf.VMs
	times    *bpf.VMs // nil except at level latency
}

func openKVM(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
	r := &kvmReader{host: h, facts: facts, machines: newVirtualMachines(h)}
	loaded, err := kvmLoaded(h)
	if err != nil {
		return nil, err
	}
	if !loaded {
		if virtualization(h) == "" {
			return nil, probe.NotHere("no KVM in the kernel, and CPUID offers no virtualisation")
		}
		return r, nil
	}
	// The first process ID namespace has this number (PROC_PID_INIT_INO of
	// include/linux/proc_ns.h).
	ns, err := h.Readlink("/proc/self/ns/pid")
	r.apart = err == nil && ns != "pid:[4026531836]"
	held := r.programs.Lock()
	defer r.programs.Unlock()
	return r, held.open(r)
}

func kvmLoaded(h *host.Host) (bool, error) {
	for _, name := range []string{"/dev/kvm", "/sys/module/kvm"} {
		if ok, err := h.Exists(name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// virtualization returns KVM's module for this CPU, or "" if the CPU offers none: bit 5 of CPUID
// leaf 1 ECX (VMX) and bit 2 of leaf 0x80000001 ECX (SVM).
func virtualization(h *host.Host) string {
	if _, _, c, _ := h.CPUID(1, 0); c&(1<<5) != 0 {
		return "kvm_intel"
	}
	if last, _, _, _ := h.CPUID(0x80000000, 0); last >= 0x80000001 {
		if _, _, c, _ := h.CPUID(0x80000001, 0); c&(1<<2) != 0 {
			return "kvm_amd"
		}
	}
	return ""
}

// isa returns the kind of exits that KVM has on this machine.
func isa(h *host.Host) bpf.ISA {
	last, b, _, _ := h.CPUID(0, 0)
	switch {
	case last == 0:
		return bpf.ARM
	case b == 0x68747541 || b == 0x6f677948: // Auth(enticAMD), Hygo(nGenuine)
		return bpf.SVM
	}
	return bpf.VMX
}

// open loads the programs.
func (p *kvmPrograms) open(r *kvmReader) error {
	if p.counts == nil {
		var sev, private, tdx bool
		for _, f := range r.facts {
			if f.Role == tee.Host && f.Active {
				sev = sev || f.Kind == "sev-host" && f.Variant != "sev"
				tdx = tdx || f.Kind == "tdx-host"
				private = private || f.Kind == "tdx-host" || f.Variant == "sev-snp"
			}
		}
		c, err := bpf.KVM(sev, private, tdx).Open(r.host)
		if err != nil {
			return err
		}
		p.counts = bpf.NewVMs(c, isa(r.host))
		if p.detached {
			return c.Detach()
		}
	}
	if p.wanted && p.times == nil {
		c, err := bpf.KVMTimes.Open(r.host)
		if err != nil {
			return err
		}
		p.times = bpf.NewVMs(c, isa(r.host))
		if p.detached {
			return c.Detach()
		}
	}
	return nil
}

// each calls do for every open program.
func (p *kvmPrograms) each(do func(*bpf.VMs) error) error {
	var errs []error
	for _, c := range []*bpf.VMs{p.counts, p.times} {
		if c != nil {
			errs = append(errs, do(c))
		}
	}
	return errors.Join(errs...)
}

// Adjust implements probe.Adjustable.
func (r *kvmReader) Adjust(level string, _ probe.Scope) error {
	p := r.programs.Lock()
	defer r.programs.Unlock()
	p.wanted = level == kvmLevels[1].Name
	if p.counts == nil {
		return nil
	}
	if p.wanted && p.times == nil {
		return p.open(r)
	}
	if p.times == nil || p.detached {
		return nil
	}
	if p.wanted {
		return p.times.Attach()
	}
	return p.times.Detach() // its counts stay
}

// Attach implements probe.Governed.
func (r *kvmReader) Attach() error {
	p := r.programs.Lock()
	defer r.programs.Unlock()
	p.detached = false
	return p.each(func(c *bpf.VMs) error {
		if c == p.times && !p.wanted {
			return nil
		}
		return c.Attach()
	})
}

// Detach implements probe.Governed.
func (r *kvmReader) Detach() error {
	p := r.programs.Lock()
	defer r.programs.Unlock()
	p.detached = true
	return p.each(func(c *bpf.VMs) error { return c.Detach() })
}

// Spent implements probe.Governed.
func (r *kvmReader) Spent() (events float64, seconds []float64) {
	held := r.programs.Lock()
	defer r.programs.Unlock()
	_ = held.each(func(c *bpf.VMs) error {
		n, s := c.Spent()
		events += n
		for len(seconds) < len(s) {
			seconds = append(seconds, 0)
		}
		for i, v := range s {
			seconds[i] += v
		}
		return nil
	})
	return events, seconds
}

// Limit implements probe.Governed. The programs of one object do not know what those of the other spend, so each may spend an
// equal part of what is left, and says so too early where the other spends less.
func (r *kvmReader) Limit(most []float64, reached func()) (can bool) {
	_, all := r.Spent()
	p := r.programs.Lock()
	defer r.programs.Unlock()
	objects := 0.0
	_ = p.each(func(*bpf.VMs) error { objects++; return nil })
	can = true
	_ = p.each(func(c *bpf.VMs) error {
		_, own := c.Spent()
		may := slices.Clone(most)
		for cpu := range min(len(may), len(all), len(own)) {
			may[cpu] = own[cpu] + (most[cpu]-all[cpu])/objects
		}
		can = c.Limit(may, reached) && can
		return nil
	})
	return can
}

// Close implements probe.Reader.
func (r *kvmReader) Close() error {
	held := r.programs.Lock()
	defer r.programs.Unlock()
	return held.each(func(c *bpf.VMs) error { return c.Close() })
}

// Read implements probe.Reader.
func (r *kvmReader) Read(_ context.Context, emit func(metric.Sample)) error {
	p := r.programs.Lock()
	defer r.programs.Unlock()
	if p.counts == nil {
		loaded, err := kvmLoaded(r.host)
		if err == nil && !loaded {
			err = &probe.Problem{Err: errors.New("KVM is not loaded, so no virtual machine can run; every round looks for it again"),
				Remedy: "modprobe " + virtualization(r.host)}
		}
		if err != nil {
			return err
		}
		if err := p.open(r); err != nil {
			return err
		}
	}
	out := emitter(emit)
	r.unclear = nil
	folded, problems := r.readCounts(p.counts, out)
	if p.wanted {
		problems = append(problems, p.open(r)) // Adjust could not, and reported it
	}
	if p.times != nil {
		r.readTimes(p.times, out)
		problems = append(problems, p.times.Lost)
	}
	var missed, events uint64
	err := p.each(func(c *bpf.VMs) error {
		n, err := c.Missed()
		missed += n
		events += c.Events()
		return err
	})
	problems = append(problems, p.counts.Lost, err, r.unclear)
	if missed+events > 0 && p.counts.Lost == nil {
		out.send(probe.Coverage, float64(events)/float64(events+missed))
	}
	out.send(probe.Missed, float64(missed))
	out.send(probe.Folded, float64(folded))
	if r.apart {
		problems = append(problems, &probe.Problem{Err: errors.New("the processes that run virtual machines are not visible: virtual machines are shown without name and type"),
			Remedy: "run in the host's PID namespace (hostPID)"})
	}
	return errors.Join(problems...)
}

// alive implements bpf.Alive.
func (r *kvmReader) alive(vm bpf.VM) (alive bool, kind string) {
	if r.apart {
		return true, ""
	}
	start, err := startTime(r.host, vm.PID)
	if err == nil && uint32(start) == vm.Start || err != nil && !processGone(err) {
		return true, ""
	}
	kind = vmUnknown
	if m := r.machines.known[vm.PID]; m != nil && uint32(m.start) == vm.Start {
		kind = m.kind
	}
	return false, kind
}

// label returns the name and the type of a machine.
func (r *kvmReader) label(vm bpf.VM) (id, kind string) {
	switch {
	case vm == bpf.OtherVMs:
		return bpf.Other, vmUnknown
	case vm.Ended != "":
		return "ended", vm.Ended
	}
	m, err := r.machines.describe(vm.PID)
	if err != nil && !processGone(err) {
		r.unclear = cmp.Or(r.unclear, err)
	}
	if m != nil && !r.apart {
		return m.id, m.kind
	}
	return fmt.Sprintf("pid-%d", vm.PID), vmUnknown
}

// proven returns the type of a machine that is known only from its calls to the host.
func proven(kind string, m bpf.Machine) string {
	switch {
	case kind != vmUnknown:
		return kind
	case m.Exits["tdcall"] > 0:
		return vmTDX
	case m.RMPFaults > 0 || m.VMGExits["page_state_change"] > 0:
		return vmSEVSNP
	}
	return kind
}

type vmSeries struct {
	desc           *metric.Desc
	vm, kind, what string
}

// readCounts emits the counts of all machines. If KVM_RUN returns for reasons that only an exit
// of the guest can cause, and yet no exit was counted, the tracepoint is silent: its zero would
// be wrong, so it is left out.
func (r *kvmReader) readCounts(counts *bpf.VMs, out emitter) (folded uint64, problems []error) {
	sums := vmSums{}
	var silent []string
	told := true
	counts.Machines(r.alive, func(m bpf.Machine) {
		id, kind := r.label(m.VM)
		kind = proven(kind, m)
		add := func(d *metric.Desc, what string, n uint64) { sums[vmSeries{d, id, kind, what}] += float64(n) }
		for _, t := range []struct {
			desc *metric.Desc
			n    map[string]uint64
		}{{vmExits, m.Exits}, {vmUserExits, m.Userspace}, {vmGuestExits, m.VMGExits}, {vmTDCalls, m.TDVMCalls}} {
			for what, n := range t.n {
				add(t.desc, what, n)
				if m.VM == bpf.OtherVMs {
					folded += n
				}
			}
		}
		if m.RMPFaults > 0 {
			add(vmRMPFaults, "resolved", m.RMPFaults-m.RMPFailed)
			add(vmRMPFaults, "failed", m.RMPFailed)
		}
		if m.PrivateLookups > 0 {
			add(vmPrivate, "", m.PrivateLookups)
		}
		told = told && m.Exits[bpf.NotTold]+m.VMGExits[bpf.NotTold] == 0
		// Of machines that have ended nothing is missing now.
		if len(m.Exits) == 0 && m.Userspace["io"]+m.Userspace["mmio"] > 0 && m.VM.Ended == "" {
			silent = append(silent, id)
		}
	})
	sums.send(out)
	if len(silent) > 0 {
		slices.Sort(silent)
		problems = append(problems, &probe.Problem{Blind: true,
			Err:    fmt.Errorf("the kernel does not report the exits of %s, although exits happen: the machines return to their process for I/O", some(silent)),
			Remedy: "this KVM runs guests without hardware virtualisation; count on bare metal or with nested virtualisation"})
	}
	if !told {
		problems = append(problems, &probe.Problem{Err: errors.New("exits are counted without their reason, because only tracefs has the reasons"),
			Remedy: "mount -t tracefs tracefs /sys/kernel/tracing as root, with kernel lockdown below confidentiality"})
	}
	if folded > 0 {
		problems = append(problems, fmt.Errorf("more than 64 virtual machines at once: %d events are counted as %s; sums stay exact", folded, bpf.Other))
	}
	return folded, problems
}

// some lists a few names.
func some(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more machines", strings.Join(names[:3], ", "), len(names)-3)
	}
	return "machine " + strings.Join(names, ", ")
}

// readTimes emits the times out of the guest, summed over machines of a type.
func (r *kvmReader) readTimes(times *bpf.VMs, out emitter) {
	type key struct {
		kind    string
		handled int
	}
	sums := map[key]*metric.Hist{}
	times.Times(r.alive, func(vm bpf.VM, handled int, l *bpf.Latency) {
		_, kind := r.label(vm)
		h := sums[key{kind, handled}]
		if h == nil {
			h = &metric.Hist{Bounds: bpf.LatencyBounds, Counts: make([]uint64, len(bpf.LatencyBounds)+1)}
			sums[key{kind, handled}] = h
		}
		for i, n := range l.Buckets() {
			h.Counts[i] += n
		}
		h.Sum += l.Sum()
	})
	order := slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), a.handled-b.handled)
	})
	for _, k := range order {
		out(metric.Sample{Desc: vmAway, Labels: []string{k.kind, bpf.Handled[k.handled]}, Hist: sums[k]})
	}
}
