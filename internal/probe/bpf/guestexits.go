package bpf

// The user-space side of guestexits.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// the exits of a TDX guest that the guest's kernel sees itself.

//go:generate ./compile.sh guestExits guestexits.bpf.c

// Cells of guestexits.bpf.c.
const (
	exitReasons     = 96
	guestCalls      = 16
	guestHypercalls = exitReasons
	guestExitCells  = guestHypercalls + exitReasons + guestCalls
)

const (
	hookVE        = "tdx_handle_virt_exception"
	hookHypercall = "tdx:tdx_hypercall_enter"
)

// GuestExits counts the virtualization exceptions of a TDX guest. With hypercalls it
// also counts all calls to the hypervisor, for which only some vendors' kernels have a
// tracepoint.
func GuestExits(hypercalls bool) *Program {
	hooks := []hook{{name: hookVE, variants: []variant{
		{"ve_fentry", typed},
		{"ve_btf", typed},
		{"ve_raw", raw("tdg_virtualization_exception")},
		{"ve_kprobe", kprobe(hookVE)},
	}}}
	if hypercalls {
		hooks = append(hooks, hook{name: hookHypercall, variants: []variant{
			{"hypercall_btf", typed},
			{"hypercall_raw", raw("tdx_hypercall_enter")},
		}})
	}
	return &Program{
		Name: "guestexits",
		spec: spec{
			load:  loadGuestExits,
			hooks: hooks,
		},
		layout: layout{
			row:  guestExitCells,
			read: []string{"counts"},
		},
	}
}

// GuestExitCounts reads the counters of GuestExits.
type GuestExitCounts struct{ *Counters }

// Exceptions emits the virtualization exceptions by exit reason, as numbered in
// arch/x86/include/uapi/asm/vmx.h; the last one includes all higher numbers.
func (c GuestExitCounts) Exceptions(emit func(reason int, n uint64)) {
	c.emitCells(0, exitReasons, emit)
}

// Hypercalls emits the calls to the hypervisor by exit reason, or by sub-function: the
// first 15 from 0x10000 on have their own numbers.
func (c GuestExitCounts) Hypercalls(exit, call func(number int, n uint64)) {
	c.emitCells(guestHypercalls, exitReasons, exit)
	c.emitCells(guestHypercalls+exitReasons, guestCalls, func(i int, n uint64) { call(firstGuestCall+i, n) })
}

// firstGuestCall is the first sub-function that is not an exit reason (Intel TDX
// Guest-Host Communication Interface, table of TDG.VP.VMCALL).
const firstGuestCall = 0x10000

// emitCells emits nonzero cells.
func (c GuestExitCounts) emitCells(from, number int, emit func(int, uint64)) {
	for i := range number {
		if n := c.counts().sum(from + i); n > 0 {
			emit(i, n)
		}
	}
}
