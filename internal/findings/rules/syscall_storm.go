package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// Measured with redis-server 7.0 and nginx 1.22 under redis-benchmark and wrk, with one to 50 connections, with and
// without pipelining and keep-alive. The most frequent call besides the useful ones is epoll_ctl in redis-benchmark:
// exactly 5 for each sendto and recvfrom, 2.5 for each useful call. Then come wrk with 2.0, redis-server with 1.7
// (setsockopt) and nginx with 0.5 (newfstatat). In TEEMon's case (section 6.4) clock_gettime was called ten times as
// often as read and write. The factor lies between 2.5 and 5.
//
// The critical limit: at 8,200 cycles for leaving and entering an enclave, 100,000 a second use more than a fifth of
// a core of 3.5 GHz.
var syscallStorm = &findings.Rule{
	Name:  "syscall_storm",
	Title: "System call storm",
	Doc: "A process makes one system call at least 10,000 times a second and at least 4 times as often as all its calls " +
		"that move data (read, write, send, receive and the like) together. Event loops stay below that factor: the highest measured one is 2.5, for epoll_ctl in redis-benchmark. The rate must hold as the mean of each window and in every reading of the " +
		"last 20 s; a storm of 100,000 calls a second opens a finding early, after five readings. " +
		"For programs that walk file trees the finding is for information only. The rule vdso_bypass covers calls that the vDSO answers.",
	Needs: []string{"tee_syscalls_total"},
	Early: earlyStorm,
	Thresholds: []findings.Threshold{
		{Name: "rate", Doc: "calls of one kind by a process", Unit: "1/s", Default: 10_000, Early: 100_000},
		{Name: "rate_critical", Doc: "calls of one kind by a process, for a critical finding", Unit: "1/s", Default: 100_000},
		{Name: "factor", Doc: "such calls per read, write, send or receive call", Unit: "ratio", Default: 4, Early: 8},
	},
	Remedy:    causes.SyscallStorm.Remedy,
	Reference: teemon,
	Run:       findSyscallStorms,
}

const teemon = "TEEMon: A continuous performance monitoring framework for TEEs (Middleware 2020), section 6.4, https://arxiv.org/abs/2012.06554"

func findSyscallStorms(ctx context.Context, p *findings.Pass) error {
	found, err := storms(ctx, p, "tee_syscalls_total", `process!="other",syscall!~"`+usefulCalls+"|"+vdsoCalls+`"`, "rate", "syscall")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range found {
		who := s.siblingCounter("")
		if seen[who] {
			continue // its most frequent call is already named
		}
		call, process := s.labels["syscall"], s.labels["process"]
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("%s calls of %s, %s", call, process, s.spanText()), "1/s", s.rate(s.series))
		useful := e.add(ctx, "its read, write, send and receive calls in the same time", "1/s", s.useful())
		if e.err != nil {
			return e.err
		}
		if dominates := rate >= p.Limit("factor", s.subject)*useful; !dominates {
			continue
		}
		seen[who] = true
		versus := "and no read, write, send or receive call was counted"
		if useful > 0 {
			ratio := e.add(ctx, call+" calls per read, write, send or receive call", "ratio", s.rate(s.series)+" / "+s.useful())
			versus = metric.Count(ratio) + " times as often as it reads, writes, sends and receives"
		}
		e.add(ctx, "share of "+call+" in all its calls", "ratio", s.rate(s.series)+" / "+s.rate(s.siblingCounter("tee_syscalls_total")))
		e.add(ctx, fmt.Sprintf("%s calls, mean of the last %s", call, window(p)), "1/s", query.SumRate(s.series, window(p)))
		c := classOf(call)
		f := findings.Finding{
			Machine:    query.MachineOf(s.labels),
			Subject:    s.subject,
			Life:       lifeOf(s.labels),
			Title:      fmt.Sprintf("%s calls %s %s times a second, %s.", s.subject, call, metric.Count(rate), versus),
			Severity:   findings.Warning,
			Confidence: e.trust(ctx, s.labels, "syscalls"),
			Remedy:     c.remedy + " " + p.Rule.Remedy + " " + insideEnclave,
			Reference:  c.reference,
		}
		switch {
		case c.ordinary:
			f.Severity = findings.Info
		case rate >= p.Limit("rate_critical", s.subject):
			f.Severity = findings.Critical
		}
		f.Cost, f.Share = s.callCost(ctx, &e, call)
		f.ShareOf = findings.ActiveTime
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// insideEnclave cites HotCalls (ISCA 2017, https://doi.org/10.1145/3140659.3080208) for its figure.
const insideEnclave = "Inside an enclave runtime, each such call also exits the enclave, so a call costs at least 8,200 cycles instead of about 150."

// callCost returns the cost of a process's calls of one kind as a sentence: their sampled time with its share of the
// process's active time, or else the cost of entering the kernel alone.
func (s storm) callCost(ctx context.Context, e *evidence, call string) (string, *[2]float64) {
	in := func(w string) string {
		return query.SumRate(s.siblingCounter(sampledCPU, `mode="kernel"`, fmt.Sprintf("call=%q", call)), w)
	}
	if took := e.add(ctx, "CPU time inside "+call+", by samples, mean of the last "+window(e.pass), "cores", in(window(e.pass))); took > 0 {
		_, share := e.sampled(ctx, "share of "+call+" in its active time", in, s.active, "cpu|wait", s.labels)
		return fmt.Sprintf("%s spends about %s in %s, estimated from CPU samples.", s.labels["process"], metric.Value(took, "cores"), call), share
	}
	if price := e.priced(ctx, "syscall", s.rate(s.series), s.labels); price != "" {
		return fmt.Sprintf("Entering and leaving the kernel for these calls uses %s; the work of the calls is not included.", price), nil
	}
	return "", nil
}

// active returns the query for the process's active time.
func (s storm) active(window string) string { return active(s.labels, window) }

// class is a group of calls that are made too often for the same reason.
type class struct {
	calls     string // separated by spaces
	remedy    string
	reference string
	ordinary  bool // normal in ordinary programs, not a fault by itself
}

var classes = []class{
	{
		calls: causes.LockCalls,
		remedy: "Hold the lock for less time, split it, use fewer threads, or let the lock spin " +
			"longer before it sleeps: threads contend for a lock or a queue. Inside an enclave use the runtime's own locks.",
		reference: "https://man7.org/linux/man-pages/man7/futex.7.html",
	},
	{
		calls:     "sched_yield",
		remedy:    "Wait on a futex, a condition variable or an eventfd: a thread spins and yields instead of sleeping until there is work.",
		reference: "https://man7.org/linux/man-pages/man2/sched_yield.2.html",
	},
	{
		calls: "epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6",
		remedy: "Look for a timeout of zero, or for a descriptor that stays ready because nobody reads or closes it: the event loop " +
			"turns without work.",
		reference: "https://man7.org/linux/man-pages/man7/epoll.7.html",
	},
	{
		calls:     "epoll_ctl",
		remedy:    "Register descriptors once and keep connections open: they are added, changed and removed for each message.",
		reference: "https://man7.org/linux/man-pages/man7/epoll.7.html",
	},
	{
		calls:     "nanosleep clock_nanosleep",
		remedy:    "Sleep longer, or wait for the event itself: a loop polls with very short sleeps.",
		reference: "https://man7.org/linux/man-pages/man2/clock_nanosleep.2.html",
	},
	{
		calls:     "getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getpgid getsid getrusage times uname sysinfo",
		remedy:    "Ask once and cache the answer: it hardly ever changes.",
		reference: teemon,
	},
	{
		calls:     "rt_sigprocmask rt_sigaction sigaltstack rt_sigreturn",
		remedy:    "Use _setjmp, or handle the signal with a signalfd: a hot path saves and restores signal masks (sigsetjmp, coroutine switches), or a signal arrives all the time.",
		reference: "https://man7.org/linux/man-pages/man3/setjmp.3.html",
	},
	{
		calls:     causes.MemoryCalls,
		remedy:    "Let the allocator keep memory (for glibc: mallopt with M_TRIM_THRESHOLD and M_MMAP_THRESHOLD), or reuse buffers: memory is taken from the kernel and given back all the time.",
		reference: "https://man7.org/linux/man-pages/man3/mallopt.3.html",
	},
	{
		calls: "stat fstat lstat newfstatat statx access faccessat faccessat2 open openat openat2 close lseek getdents getdents64 readlink readlinkat",
		remedy: "In a server, cache descriptors and answers (nginx: open_file_cache): the process asks about files rather than reading " +
			"them, like programs that walk file trees.",
		reference: "https://nginx.org/en/docs/http/ngx_http_core_module.html#open_file_cache",
		ordinary:  true,
	},
}

func classOf(call string) class {
	for _, c := range classes {
		for _, name := range strings.Fields(c.calls) {
			if name == call {
				return c
			}
		}
	}
	return class{remedy: "Check why the process makes this call: the call moves no data.", reference: teemon}
}
