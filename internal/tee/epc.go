package tee

import "github.com/teescope/teescope/internal/host"

// EPC returns the sizes in bytes of the CPU's sections of Enclave Page Cache,
// from CPUID leaf 0x12 (Intel SDM volume 3D, section 33.7.2). It is empty on a
// CPU without SGX and where firmware or hypervisor reserves none.
func EPC(h *host.Host) []uint64 {
	if last, _, _, _ := h.CPUID(0, 0); last < 0x12 {
		return nil
	}
	if _, ebx, _, _ := h.CPUID(7, 0); ebx&(1<<2) == 0 {
		return nil
	}
	var out []uint64
	// Subleaf 2 is the first section; type 0 in the low bits of EAX ends the list.
	// The limit guards against a hypervisor that never ends it.
	for sub := uint32(2); sub < 66; sub++ {
		eax, _, ecx, edx := h.CPUID(0x12, sub)
		if eax&0xf != 1 {
			break
		}
		out = append(out, uint64(edx&0xfffff)<<32|uint64(ecx&0xfffff000))
	}
	return out
}
