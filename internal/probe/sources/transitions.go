package sources

// Transitions of a processor into and out of enclaves. Only the untrusted side of an enclave's
// runtime can report them: hardware and kernel count none. Two sources do, one by uprobes on the
// runtimes and one from Gramine's own statistics; runtime is the name of the runtime, such as
// "intel_sgx_sdk" or "gramine", and process the name of the enclave's host process.
var (
	enclaveEntries = counter("tee_sgx_enclave_entries_total",
		"Entries into enclaves by a call of the host (EENTER; excluding resumptions after an asynchronous exit), counted in the enclave's runtime.",
		"process", "runtime")
	enclaveExits = counter("tee_sgx_enclave_exits_total",
		"Synchronous exits from enclaves (EEXIT: the end of a call, or a call from an enclave to its host), counted in the enclave's runtime.",
		"process", "runtime")
	enclaveAsyncExits = counter("tee_sgx_enclave_async_exits_total",
		"Asynchronous exits from enclaves (AEX: interrupts, faults, exceptions), counted in the enclave's runtime.",
		"process", "runtime")
)
