package host

// cpuid runs the CPUID instruction (Intel SDM volume 2A).
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)
