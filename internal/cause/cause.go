// Package cause is what makes programs slow, in words: which events speak for which
// cause, what it is, and what to do about it. Rules, explanations and comparisons
// take it from here, so that they say the same. How much of a program's time a cause
// takes is measured elsewhere.
package cause

import (
	"slices"
	"strings"
)

// Cause is one reason why a program takes the time that it takes.
type Cause struct {
	// Name is that of the rule that finds it.
	Name string
	// What and Fix are for one sentence about a comparison: "... goes into WHAT: FIX."
	// Both are empty for what no calibrated event speaks for.
	What, Fix string
	// Remedy is what a reader is told to do, in sentences.
	Remedy string
}

// The causes.
var (
	SyscallStorm = &Cause{
		Name: "syscall_storm",
		What: "entering and leaving the kernel",
		Fix:  "find the caller (strace -c -f) and make the call less often",
		Remedy: "Find the caller with `perf record -e raw_syscalls:sys_enter -g -p PID` or `strace -c -f -p PID`, " +
			"and make the call less often.",
	}
	VDSOBypass = &Cause{
		Name: "vdso_bypass",
		What: "asking the kernel for the time, which the vDSO could answer in user space",
		Fix: "clear the way to the vDSO (a clock source that user space can read, no sandbox, static binary or enclave runtime around it), or read the " +
			"time once for each turn of the event loop",
		Remedy: "Find the caller with `perf record -e raw_syscalls:sys_enter -g -p PID` or `strace -c -f -p PID`, and have it ask less often: the time once " +
			"for each turn of the event loop, CLOCK_MONOTONIC_COARSE where a few milliseconds do not matter.",
	}
	LockContention = &Cause{
		Name: "lock_contention",
		What: "waiting for locks and waking who waits for them",
		Fix:  "hold the lock for less time, split it, keep data by thread, or use fewer threads",
		Remedy: "Find the lock with `perf trace -e futex -p PID`, `perf lock contention -p PID` (perf of Linux 6.0) or `offcputime-bpfcc -p PID`. Hold it for less time, split it, " +
			"keep data by thread, or use fewer threads. Inside an enclave each sleep and each wake-up is also an exit: use the runtime's own locks, or spin a little first.",
	}
	ContextSwitchStorm = &Cause{
		Name: "context_switch_storm",
		What: "putting threads to sleep and waking them",
		Fix:  "see who waits for whom (perf sched timehist) and hand work over in larger pieces or to fewer threads",
		Remedy: "See who waits for whom with `perf sched timehist -p PID`. A switch of a thread that is inside an enclave is an exit, " +
			"and one of a confidential VM's last busy thread lets the virtual CPU halt, which is an exit as well.",
	}
	PageFaultStorm = &Cause{
		Name: "page_fault_storm",
		What: "taking memory from the kernel, and the page faults that follow",
		Fix:  "keep memory instead of giving it back, touch it before it is needed, or use huge pages",
		Remedy: "Find the place with `perf record -e page-faults -g -p PID`. Keep memory instead of giving it back, touch it before it is needed " +
			"(MAP_POPULATE, an allocator that does not trim), use huge pages, and make the working set smaller than the protected memory.",
	}
	Logging = &Cause{
		Name: "logging",
		What: "waiting until what was written is safe on the disk",
		Fix:  "gather writes and synchronise them together, or put them on a disk that completes flushes fast",
		Remedy: "See which files with `strace -f -y -e trace=fsync,fdatasync,write -p PID`. Log less, or to memory and another thread; gather records and synchronise " +
			"them together (group commit, redis appendfsync everysec, PostgreSQL commit_delay); put the log on a device of its own that completes flushes fast. " +
			"In an enclave each write is an exit, too, and a protected file system encrypts each block again: buffer inside.",
	}
	IOSaturation = &Cause{
		Name: "io_saturation",
		What: "waiting for disks",
		Fix:  "batch writes, keep what is read often in memory, or use a faster disk",
		Remedy: "See who with `iotop -o` or `biotop-bpfcc`. Batch writes, synchronise less often, keep what is read often in memory, use a faster disk or one with more " +
			"provisioned operations: disks of clouds are throttled by contract. In a confidential VM each transfer is also copied through the bounce buffer.",
	}
	TLSHandshakes = &Cause{
		Name: "tls_handshakes",
		Remedy: "Keep connections open (keep-alive, pools, HTTP/2) and let sessions resume: a session cache that all workers share, or tickets with a key that all " +
			"servers share; for nginx keepalive_timeout, ssl_session_cache and ssl_session_tickets, in clients a session that outlives the connection. Use ECDSA P-256 " +
			"certificates, whose signatures cost the server far less than those of RSA. Where the handshake carries attestation, cache its verdict for as long as policy allows.",
	}
	CPUPressure = &Cause{
		Name:   "pressure",
		Remedy: "More threads want to run than there are CPUs. Use fewer threads, fewer workloads or more CPUs; do not compare results that were measured meanwhile.",
	}
)

// All is every cause.
var All = []*Cause{SyscallStorm, VDSOBypass, LockContention, ContextSwitchStorm, PageFaultStorm, Logging, IOSaturation, TLSHandshakes, CPUPressure}

// Named returns the cause of a name, or nil.
func Named(name string) *Cause {
	if i := slices.IndexFunc(All, func(c *Cause) bool { return c.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// VDSOCalls are the system calls that the vDSO answers without entering the kernel,
// where nothing is in its way (vdso(7)), as a regular expression of alternatives.
const VDSOCalls = "clock_gettime|gettimeofday|time|getcpu|clock_getres"

// LockCalls are the calls in which a thread waits for a lock or hands it on, and
// MemoryCalls take memory from the kernel and give it back, which is a page fault
// when it is used again; separated by spaces.
const (
	LockCalls   = "futex futex_wait futex_wake futex_waitv futex_requeue"
	MemoryCalls = "mmap munmap mremap madvise mprotect brk"
)

// SyncCalls return when data are safe on the disk.
var SyncCalls = strings.Fields("fsync fdatasync msync sync_file_range sync syncfs")

// ordinary calls move data, set up where they go, wait for some, or start and end
// programs. They are what a process is for.
var ordinary = strings.Fields("read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendto recvfrom sendmsg recvmsg " +
	"sendmmsg recvmmsg sendfile splice tee vmsplice copy_file_range io_uring_enter io_submit io_getevents io_pgetevents " +
	"socket connect accept accept4 bind listen shutdown close epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6 compat other " +
	"execve execveat clone clone3 fork vfork exit exit_group wait4 waitid")

// OfCall returns the cause that time in a system call speaks for, nil for an ordinary
// one. Only where threads are known to wait for locks do the calls of LockContention
// speak for it.
func OfCall(call string) *Cause {
	switch {
	case slices.Contains(strings.Split(VDSOCalls, "|"), call):
		return VDSOBypass
	case slices.Contains(strings.Fields(LockCalls), call):
		return LockContention
	case slices.Contains(strings.Fields(MemoryCalls), call):
		return PageFaultStorm
	case slices.Contains(SyncCalls, call):
		return Logging
	case slices.Contains(ordinary, call):
		return nil
	}
	return SyscallStorm
}
