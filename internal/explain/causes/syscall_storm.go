package causes

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// ordinary calls move data, set up where it goes, wait for some, or start and end programs. They are a process's
// normal work.
var ordinary = strings.Fields("read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendto recvfrom sendmsg recvmsg " +
	"sendmmsg recvmmsg sendfile splice tee vmsplice copy_file_range io_uring_enter io_submit io_getevents io_pgetevents " +
	"socket connect accept accept4 bind listen shutdown close epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6 compat other " +
	"execve execveat clone clone3 fork vfork exit exit_group wait4 waitid")

// SyscallStorm is one call made so often that entering the kernel matters. An ordinary call is a storm only if most
// of its time goes into entering and leaving the kernel.
var SyscallStorm = explain.Cause{
	Name:  "syscall_storm",
	What:  "entering and leaving the kernel",
	Fix:   "find the caller (strace -c -f) and make the call less often",
	Doing: "in calls of {event}{often}",
	Each:  true,
	Remedy: "Find the caller with `perf record -e raw_syscalls:sys_enter -g -p PID` or `strace -c -f -p PID`, " +
		"and make the call less often.",
	Matches: func(e explain.Event, c explain.Circumstances) bool {
		call := e.Label("syscall")
		return e.Metric == explain.CallCount && call != "" && !c.Rare && (c.Entering || !slices.Contains(ordinary, call))
	},
}
