package sources

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	guestExceptions = counter("tee_guest_exceptions_total",
		"Virtualization exceptions that the guest's kernel handled since the monitor started, by VMX exit reason; after each exception, the guest calls the hypervisor. A lower bound of the guest's exits, because idle and interrupts raise no exception (function tdx_handle_virt_exception, or tracepoint tdx:tdg_virtualization_exception).",
		"kind", "reason")
	guestHypercalls = counter("tee_guest_hypercalls_total",
		"Calls of the guest's kernel to the hypervisor since the monitor started, by VMX exit reason or sub-function (tracepoint tdx:tdx_hypercall_enter of some vendors' kernels).",
		"kind", "reason")
)

// guestExits is the guest's own view of its exits, which only TDX provides.
var guestExits = probe.Source{
	Name:    "guest_exits",
	Doc:     "Exits of this confidential VM by reason, as seen by its own kernel",
	Metrics: []*metric.Desc{guestExceptions, guestHypercalls},
	Needs:   functionNeeds,
	Kernels: "Linux 5.19 and later with CONFIG_INTEL_TDX_GUEST and CONFIG_DEBUG_INFO_BTF; functions need CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS or CONFIG_KPROBES",
	Cost:    "one run of a program for each exception: tens of nanoseconds, while an exit takes microseconds; 1.7 kB for each CPU; not measured on TDX hardware",
	Blind:   "In TDX guests, exits that raise no exception, such as those for idle and interrupts. In SEV-ES and SEV-SNP guests, all exits, because no program can be attached to the kernel's #VC code. In SEV and CCA guests and under a paravisor, all exits, because the guest's kernel does not handle them",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		guest, err := confidentialGuest(facts)
		if err != nil {
			return nil, err
		}
		if why := hiddenExits(guest); why != "" {
			return nil, &probe.Problem{Err: fmt.Errorf("exits of this guest cannot be seen from inside: %s", why), Blind: true,
				Remedy: "check tee_vm_exits_total on the host, or steal time"}
		}
		hypercalls := false
		for _, tracefs := range []string{"/sys/kernel/tracing", debugfs + "/tracing"} {
			if ok, err := h.Exists(tracefs + "/events/tdx/tdx_hypercall_enter"); err == nil && ok {
				hypercalls = true
			}
		}
		return openProgram(bpf.GuestExits(hypercalls), func(c *counters, emit emitter) uint64 {
			bpf.GuestExitCounts{Counters: c.Counters}.Exceptions(func(reason int, n uint64) {
				emit.send(guestExceptions, float64(n), c.label(guest.Kind, exitReason(reason))...)
			})
			if hypercalls {
				c.sendHypercalls(guest.Kind, emit)
			}
			return 0
		})(h, facts)
	},
}

func (c *counters) sendHypercalls(kind string, emit emitter) {
	bpf.GuestExitCounts{Counters: c.Counters}.Hypercalls(func(reason int, n uint64) {
		emit.send(guestHypercalls, float64(n), c.label(kind, exitReason(reason))...)
	}, func(function int, n uint64) {
		emit.send(guestHypercalls, float64(n), c.label(kind, subFunction(function))...)
	})
}

// functionNeeds lists the needs of sources that attach to kernel functions.
var functionNeeds = []probe.Need{
	{Capability: "cap_bpf", For: "to load the programs", Open: true},
	{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
	{Capability: "cap_syslog", For: "to find functions where only kprobes can be attached", Optional: true, Open: true},
}

// guestKinds are the TEEs that a whole kernel can run in.
var guestKinds = []string{"tdx", "sev", "cca"}

// confidentialGuest picks the confidential VM that this kernel runs in.
func confidentialGuest(facts []tee.Facts) (tee.Facts, error) {
	for _, f := range facts {
		if slices.Contains(guestKinds, f.Kind) && f.Role == tee.Guest {
			return f, nil
		}
	}
	return tee.Facts{}, probe.NotHere("no confidential VM was detected around this kernel")
}

// hiddenExits says why a guest's kernel does not see its exits, or "".
func hiddenExits(guest tee.Facts) string {
	switch {
	case guest.Variant == "paravisor":
		return "a paravisor between the hypervisor and this kernel handles them"
	case guest.Kind == "tdx":
		return ""
	case guest.Kind == "cca":
		return "the realm management monitor handles them"
	case guest.Variant == "sev":
		return "the hypervisor handles them, without the guest's part"
	}
	// arch/x86/coco/sev is built without ftrace, and its handlers are noinstr, so
	// neither fentry nor kprobes can attach to its functions (seen on Linux 6.1 and
	// 6.12).
	return "nothing can be attached to the kernel's handlers of #VC exceptions"
}

// exitReasons are the reasons that a TDX guest's kernel sees
// (arch/x86/include/uapi/asm/vmx.h; which raise an exception: Intel TDX module base
// architecture specification, instructions that cause #VE).
var exitReasons = map[int]string{
	10: "cpuid", 12: "hlt", 13: "invd", 14: "invlpg", 15: "rdpmc", 16: "rdtsc", 18: "vmcall", 28: "cr_access", 29: "dr_access",
	30: "io", 31: "rdmsr", 32: "wrmsr", 36: "mwait", 37: "monitor_trap", 39: "monitor", 40: "pause", 48: "ept_violation",
	49: "ept_misconfig", 54: "wbinvd", 55: "xsetbv", 57: "rdrand", 58: "invpcid", 61: "rdseed", 67: "umwait", 68: "tpause", 77: "tdcall",
	95: "exit_other", // the last cell of the counters, which includes all above
}

func exitReason(n int) string {
	if s, ok := exitReasons[n]; ok {
		return s
	}
	return "exit_" + strconv.Itoa(n)
}

// subFunctions are the calls that do not stand for an instruction (Intel TDX
// Guest-Host Communication Interface, TDG.VP.VMCALL).
var subFunctions = map[int]string{
	0x10000: "get_td_vm_call_info", 0x10001: "map_gpa", 0x10002: "get_quote", 0x10003: "report_fatal_error",
	0x10004: "setup_event_notify", 0x10005: "service",
	0x1000f: "function_other", // the last cell
}

func subFunction(n int) string {
	if s, ok := subFunctions[n]; ok {
		return s
	}
	return "function_" + strconv.FormatInt(int64(n), 16)
}
