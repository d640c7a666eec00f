package bpf

// The user-space side of kvm.bpf.c and kvmtimes.bpf.c: exits of virtual machines by reason, and the time until their
// virtual CPUs run again, by machine.

//go:generate ./compile.sh kvm kvm.bpf.c
//go:generate ./compile.sh kvmtimes kvmtimes.bpf.c

import (
	"encoding/binary"
	"maps"
	"runtime"
	"slices"
)

// Sizes and cells of kvm.h and kvm.bpf.c.
const (
	vmCount       = 64
	vmSlots       = 1 + vmCount
	otherVM       = 0
	exitCells     = 256
	exitUntold    = 255
	vmgexitCell   = exitCells
	userCell      = vmgexitCell + exitCells
	userCells     = 64
	userError     = 62
	userRestart   = 63
	tdvmcallCell  = userCell + userCells
	tdvmcallCells = 80
	tdvmcallKVM   = 78
	rmpCell       = tdvmcallCell + tdvmcallCells
	rmpFailedCell = rmpCell + 1
	privateCell   = rmpCell + 2
	kvmCells      = rmpCell + 3
)

// Cells of kvmtimes.bpf.c.
const (
	handledKinds = 3
	timesCells   = handledKinds * histCells
)

// Handled says how an exit was handled until the next entry.
var Handled = [handledKinds]string{"kernel", "userspace", "halted"}

// KVM counts what KVM does for each virtual machine. Hooks that only confidential
// guests of one vendor reach are used if the machine can start such guests.
func KVM(sev, private, tdx bool) *Program {
	exit := variant{"kvm_exit_x86", classic("kvm", "kvm_exit")}
	if runtime.GOARCH == "arm64" {
		exit.program = "kvm_exit_arm"
	}
	p := &Program{
		Name: "kvm",
		spec: spec{
			load: loadKvm,
			hooks: []hook{
				{name: "kvm:kvm_exit", variants: []variant{exit, {"kvm_exit_raw", raw("kvm_exit")}}},
				{name: "kvm:kvm_userspace_exit", variants: []variant{{"kvm_userspace_exit_btf", typed}, {"kvm_userspace_exit_raw", raw("kvm_userspace_exit")}}},
			},
		},
		layout: layout{
			row:   vmSlots * kvmCells,
			read:  []string{"counts"},
			write: []string{"vms"},
		},
	}
	if sev {
		p.hooks = append(p.hooks, hook{name: "kvm:kvm_vmgexit_enter",
			variants: []variant{{"kvm_vmgexit_enter_record", classic("kvm", "kvm_vmgexit_enter")}, {"kvm_vmgexit_enter_raw", raw("kvm_vmgexit_enter")}}})
	}
	if sev && private {
		p.hooks = append(p.hooks, hook{name: "kvm:kvm_rmp_fault", variants: []variant{{"kvm_rmp_fault_raw", raw("kvm_rmp_fault")}}})
	}
	if tdx {
		p.hooks = append(p.hooks, hook{name: "handle_tdvmcall", variants: []variant{{"handle_tdvmcall", typed}}})
	}
	if private {
		p.hooks = append(p.hooks, hook{name: "kvm_gmem_get_pfn",
			variants: []variant{{"kvm_gmem_get_pfn", typed}, {"kvm_gmem_get_pfn_kprobe", kprobe("kvm_gmem_get_pfn")}}})
	}
	return p
}

// KVMTimes measures the time between exits and entries of virtual CPUs.
var KVMTimes = &Program{
	Name: "kvmtimes",
	spec: spec{
		load: loadKvmtimes,
		hooks: []hook{
			{name: "kvm:kvm_exit", variants: []variant{{"kvm_exit_btf", typed}, {"kvm_exit_raw", raw("kvm_exit")}}},
			{name: "kvm:kvm_entry", variants: []variant{{"kvm_entry_btf", typed}, {"kvm_entry_raw", raw("kvm_entry")}}},
			{name: "kvm:kvm_userspace_exit", variants: []variant{{"kvm_userspace_exit_btf", typed}, {"kvm_userspace_exit_raw", raw("kvm_userspace_exit")}}},
			{name: "kvm:kvm_vcpu_wakeup", variants: []variant{{"kvm_vcpu_wakeup_btf", typed}, {"kvm_vcpu_wakeup_raw", raw("kvm_vcpu_wakeup")}}},
		},
	},
	layout: layout{
		row:   vmSlots * timesCells,
		read:  []string{"counts"},
		write: []string{"vms"},
		reset: []string{"left"},
	},
}

// VM is the process that runs a virtual machine's CPUs.
type VM struct {
	PID int
	// Start is when it started, in ticks as in field 22 of /proc/PID/stat; the
	// kernel's table keeps the lower 32 bits.
	Start uint32
	// Ended is the kind, with all other fields zero, for the sum of machines that have ended.
	Ended string
}

// OtherVMs are the machines beyond the 64 that run at once.
var OtherVMs = VM{}

// Alive reports whether a machine's process still runs and, if not, which kind it was,
// which is not "".
type Alive func(VM) (alive bool, kind string)

// VMs reads the counters of virtual machines.
type VMs struct {
	*Counters
	// before is what a slot had counted for machines that have since ended; ended is
	// their sum by kind.
	before [vmSlots][]uint64
	ended  map[string][]uint64
	exits  []string // names of exit reasons
}

// NotTold is the reason of exits counted without a reason, which only the tracepoint's record
// has.
const NotTold = "not_told"

// ISA is the kind of virtualisation whose exits are counted.
type ISA int

// The kinds.
const (
	VMX ISA = iota
	SVM
	ARM
)

// NewVMs returns a reader of c, which counts exits of that kind.
func NewVMs(c *Counters, isa ISA) *VMs {
	return &VMs{Counters: c, exits: [...][]string{VMX: vmxReasons[:], SVM: svmReasons[:], ARM: armReasons[:]}[isa]}
}

// cells emits the nonzero cells of every machine. The slot of an ended machine is freed.
func (m *VMs) cells(n int, alive Alive, emit func(VM, []uint64)) {
	if m.ended == nil {
		m.ended = map[string][]uint64{}
	}
	keys, all := m.maps["vms"], m.counts()
	for slot := range vmSlots {
		vm := OtherVMs
		if slot != otherVM {
			at := (slot - 1) * 8
			if at+8 > len(keys) {
				break
			}
			key := binary.NativeEndian.Uint64(keys[at:])
			if key == 0 {
				continue
			}
			vm = VM{PID: int(key >> 32), Start: uint32(key)}
		}
		now := make([]uint64, n)
		var sum uint64
		for i := range now {
			now[i] = all.sum(slot*n + i)
			if m.before[slot] != nil {
				now[i] -= m.before[slot][i]
			}
			sum += now[i]
		}
		if vm != OtherVMs {
			if ok, kind := alive(vm); !ok {
				m.before[slot] = plus(m.before[slot], now)
				m.ended[kind] = plus(m.ended[kind], now)
				// One aligned store: the kernel takes a free slot by compare-and-swap.
				binary.NativeEndian.PutUint64(keys[(slot-1)*8:], 0)
				continue
			}
		}
		if sum > 0 {
			emit(vm, now)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(m.ended)) {
		emit(VM{Ended: kind}, m.ended[kind])
	}
}

// plus adds b to a, which may be nil.
func plus(a, b []uint64) []uint64 {
	if a == nil {
		a = make([]uint64, len(b))
	}
	for i, v := range b {
		a[i] += v
	}
	return a
}

// Machine holds the counts of one machine since the program was attached; all except
// the totals are by reason, without unseen reasons.
type Machine struct {
	VM
	Exits, Userspace, VMGExits, TDVMCalls map[string]uint64
	// RMPFaults of the reverse map table; RMPFailed of them could not be resolved.
	RMPFaults, RMPFailed uint64
	// PrivateLookups of pages of guest_memfd.
	PrivateLookups uint64
}

// Machines emits the counts of each machine that has any.
func (m *VMs) Machines(alive Alive, emit func(Machine)) {
	m.cells(kvmCells, alive, func(vm VM, cells []uint64) {
		named := func(first, n int, name func(int) string) map[string]uint64 {
			out := map[string]uint64{}
			for i, v := range cells[first : first+n] {
				if v > 0 {
					out[name(i)] += v
				}
			}
			return out
		}
		emit(Machine{VM: vm,
			Exits:          named(0, exitCells, func(i int) string { return exitReason(m.exits, i) }),
			VMGExits:       named(vmgexitCell, exitCells, func(i int) string { return exitReason(svmReasons[:], i) }),
			Userspace:      named(userCell, userCells, func(i int) string { return reason(userReasons[:], i) }),
			TDVMCalls:      named(tdvmcallCell, tdvmcallCells, func(i int) string { return reason(tdvmcalls[:], i) }),
			RMPFaults:      cells[rmpCell] + cells[rmpFailedCell],
			RMPFailed:      cells[rmpFailedCell],
			PrivateLookups: cells[privateCell],
		})
	})
}

// Times emits the times out of the guest of each machine, by how the exit was handled,
// as an index of Handled.
func (m *VMs) Times(alive Alive, emit func(VM, int, *Latency)) {
	m.cells(timesCells, alive, func(vm VM, cells []uint64) {
		for kind := range handledKinds {
			var l Latency
			copy(l.cells[:], cells[kind*histCells:])
			if l.Count() > 0 {
				emit(vm, kind, &l)
			}
		}
	})
}
