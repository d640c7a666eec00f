package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/analysis"
)

// lockCalls are the calls in which a thread waits for a lock or hands it on.
var lockCalls = strings.Fields("futex futex_wait futex_wake futex_waitv futex_requeue")

// memoryCalls take memory from the kernel and give it back: what is given back is
// a page fault when it is used again.
var memoryCalls = strings.Fields("mmap munmap mremap madvise mprotect brk")

// clockCalls are answered by the vDSO without entering the kernel, where nothing is in its way.
var clockCalls = strings.Split(analysis.VDSOCalls, "|")

// syncCalls return when data are safe on the disk.
var syncCalls = strings.Fields("fsync fdatasync msync sync_file_range sync syncfs")

// movingCalls move data, set up where they go, wait for some, or start and end
// programs. They are what a process is for, and a storm only when most of their
// time goes into entering and leaving the kernel.
var movingCalls = strings.Fields("read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendto recvfrom sendmsg recvmsg " +
	"sendmmsg recvmmsg sendfile splice tee vmsplice copy_file_range io_uring_enter io_submit io_getevents io_pgetevents " +
	"socket connect accept accept4 bind listen shutdown close epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6 compat other " +
	"execve execveat clone clone3 fork vfork exit exit_group wait4 waitid")

// stormRate is how often a call must be made to be a storm. Below it there are few
// calls that take long, which is another thing.
const stormRate = 1000 // 1/s

// cause names the rule that a row is about, "" for none. Threads that wait for
// locks are what makes a futex call one of contention: without them it is a call
// as any other.
func cause(row Row, contended bool) string {
	call, isCall := strings.CutPrefix(row.ID, "syscall:")
	often := row.Rate == nil || row.Rate.Value >= stormRate // where none were counted, the time in it speaks for it
	switch {
	case !isCall:
		return map[string]string{
			"faults": "page_fault_storm", "region:tls_handshake": "tls_handshakes",
			"lock": "lock_contention", "disk": "io_saturation", "durable": "logging",
		}[row.ID]
	case slices.Contains(clockCalls, call) && often:
		return "vdso_bypass"
	case slices.Contains(lockCalls, call) && contended:
		return "lock_contention"
	case slices.Contains(memoryCalls, call):
		return "page_fault_storm"
	case slices.Contains(syncCalls, call):
		return "logging"
	case often && (!slices.Contains(movingCalls, call) || mostlyEntry(row)):
		return "syscall_storm"
	}
	return ""
}

// mostlyEntry says whether entering and leaving the kernel takes most of a call's
// time; what it takes is not known where it is not calibrated.
func mostlyEntry(row Row) bool {
	return len(row.Rows) > 0 && row.Rows[0].Time.Value >= row.Time.Value/2
}

// Cause is a reason why a process takes the time that it takes: rows of its tree
// that are about the same rule.
type Cause struct {
	Rule  string
	Title string // a sentence with the number
	Share Amount // of the active time; of waiting for a CPU, of both together
	Rows  []string
	// Advice is what to do about it.
	Advice string
}

// leastShare is the share of the active time below which a cause is none.
const leastShare = 0.05

// leastQueued is the share of waiting for a CPU, in it and the active time, from
// which it is a cause: on a machine that is well used threads wait for each other.
const leastQueued = 0.25

// Causes are the rows of the tree that are something to act on, the largest first.
// A storm is one of a single call; other causes are the sum of their rows. Waiting
// for a CPU comes after them, as it is not the process's own doing.
func (t Tree) Causes() []Cause {
	out := []Cause{}
	key := map[string]int{}
	lead := map[string]Row{} // the largest row, as rows are sorted
	for _, row := range t.Rows {
		if row.Cause == "" {
			continue
		}
		k := row.Cause
		if k == "syscall_storm" {
			k += row.ID
		}
		i, known := key[k]
		if !known {
			i = len(out)
			key[k] = i
			out = append(out, Cause{Rule: row.Cause, Advice: row.Advice})
			lead[k] = row
		}
		out[i].Share = out[i].Share.plus(row.Share)
		out[i].Rows = append(out[i].Rows, row.ID)
	}
	for k, i := range key {
		out[i].Title = t.sentence(lead[k], out[i])
	}
	out = slices.DeleteFunc(out, func(c Cause) bool { return c.Share.Value < leastShare })
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(b.Share.Value, a.Share.Value) })
	if queued := t.Queued.shareBeside(t.Active); queued.Value >= leastQueued {
		out = append(out, Cause{Rule: "pressure", Share: queued, Rows: []string{}, Advice: advice["pressure"],
			Title: fmt.Sprintf("%s waits for a free CPU %s of the time in which it has work.", t.Subject, percent(queued))})
	}
	return out
}

// sentence says what a cause takes.
func (t Tree) sentence(row Row, c Cause) string {
	share := percent(c.Share) + " of the active time of " + t.Subject
	call := strings.TrimPrefix(row.ID, "syscall:")
	often := ""
	if row.Rate != nil {
		often = fmt.Sprintf(" (%s a %s)", analysis.Count(row.Rate.Value), t.Per)
	}
	switch c.Rule {
	case "syscall_storm":
		return fmt.Sprintf("Calls of %s%s take %s.", call, often, share)
	case "vdso_bypass":
		return fmt.Sprintf("Asking the kernel for the time with %s%s takes %s.", call, often, share)
	case "lock_contention":
		return fmt.Sprintf("Waiting for locks takes %s.", share)
	case "page_fault_storm":
		return fmt.Sprintf("Taking memory and giving it back, and the page faults that follow, take %s.", share)
	case "tls_handshakes":
		return fmt.Sprintf("TLS handshakes%s take %s.", often, share)
	case "logging":
		return fmt.Sprintf("Waiting until what was written is safe on the disk takes %s.", share)
	}
	return fmt.Sprintf("Waiting for disks takes %s.", share)
}

// advice by cause.
var advice = map[string]string{
	"syscall_storm":    "Find the caller with `perf record -e raw_syscalls:sys_enter -g -p PID` or `strace -c -f -p PID`, and make the call less often; in an enclave each is an exit, too.",
	"vdso_bypass":      "The vDSO answers without entering the kernel: see whether the clock source is one that user space can read (current_clocksource below /sys/devices/system/clocksource/clocksource0), and whether a sandbox or an enclave runtime is in the way. Else read the time once per turn of the event loop.",
	"lock_contention":  "Hold the lock for less time, split it, use fewer threads, or let it spin before it sleeps. Find it with `perf trace -s -e futex -p PID` or the language's own lock profile.",
	"page_fault_storm": "Keep memory instead of giving it back (for glibc: mallopt with M_TRIM_THRESHOLD and M_MMAP_THRESHOLD), touch it before it is needed (MAP_POPULATE), use huge pages. Find the place with `perf record -e page-faults -g -p PID`.",
	"tls_handshakes":   "Keep connections open, and resume sessions where they must be opened anew; ECDSA certificates make what is left cheaper for the server than RSA ones.",
	"logging":          "Write logs and journals in batches, and have them synced less often, or by another thread; put them on a faster disk.",
	"io_saturation":    "See who else uses the disk (`iotop`, the disk charts); read ahead, cache, batch writes, or use a faster disk. In a confidential VM each transfer is also copied through the bounce buffer.",
	"pressure":         "More threads want to run than there are CPUs, or a limit of the control group holds them: use fewer threads, fewer workloads, more CPUs, or a higher limit.",
}
