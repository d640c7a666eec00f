package rules

// Topics of problems to which several rules belong: what the machine lacks or has too much of. Waiting for memory and
// for a CPU are the same rule (pressure) about different problems.
const (
	cpuSaturated      = "CPU saturated"
	diskSaturated     = "Disk saturated"
	enclaveMemoryFull = "Enclave memory is full"
	sharedMemoryShort = "Shared memory of the guest is short"
)
