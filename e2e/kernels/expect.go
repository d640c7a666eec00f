package kernels

import (
	"fmt"
	"regexp"
	"slices"
)

// exception allows a source to be unavailable or degraded, or a test to be skipped or to fail, and states where and
// why. Everything else must work: a feature missing on a kernel that should have it is a failure.
type exception struct {
	// what matches the whole name of a source or test.
	what string
	// from and before bound the kernel version; zero means no bound.
	from, before Version
	// mode matches the boot mode; "" matches any.
	mode string
	// says matches part of the reason that teescope or the test gives.
	says string
	// why explains the exception in docs/lab/kernels.md.
	why string
}

func (e *exception) excuses(k Image, mode, what, reason string) bool {
	return !k.Series.Before(e.from) && (e.before == Version{} || k.Series.Before(e.before)) &&
		(e.mode == "" || regexp.MustCompile("^(?:"+e.mode+")$").MatchString(mode)) &&
		regexp.MustCompile("^(?:"+e.what+")$").MatchString(what) && regexp.MustCompile(e.says).MatchString(reason)
}

// excused returns nil if an exception covers what is missing on a kernel, and an error otherwise.
func excused(list []exception, k Image, mode, what, reason string) error {
	if slices.ContainsFunc(list, func(e exception) bool { return e.excuses(k, mode, what, reason) }) {
		return nil
	}
	return fmt.Errorf("%s is missing on %s (%s), which should have it: %s", what, k.Name(), mode, reason)
}

// always lists the sources that must be present in every guest.
var always = []string{"tee", "cpu", "memory", "disk", "filesystem", "network", "pressure", "interrupts", "system", "container", "self"}

// counted lists the sources whose programs must count on every kernel from least on.
var counted = []string{"syscalls", "switches", "faults", "pagecache", "block", "tcp"}

// least is the oldest kernel that the programs support.
var least = Version{5, 15}

// noRead matches the refusal by a locked-down kernel of programs that read its memory.
const noRead = `(cannot use helper|unknown func) bpf_probe_read|Use a helper allowed for this program type|operation not permitted`

// sourceExceptions cover degraded and unavailable sources.
var sourceExceptions = []exception{
	{what: ".*", before: least, says: "into the kernel", why: "the programs need Linux " + least.String()},
	{what: ".*", mode: "no BTF", says: "BTF", why: "the programs need BTF"},
	{what: "kvm", says: "KVM is not loaded", why: "needs a nested virtual machine: tested in a separate guest"},
	{what: "tls", from: Version{6, 11}, before: Version{6, 14}, says: "seccomp filter", why: "a return probe would end processes under a seccomp filter"},
	{what: "llc", says: "counters", why: "the emulator has no performance counters"},
}

// testExceptions cover tests of package bpf that are skipped or fail.
var testExceptions = []exception{
	{what: "TestMemoryByCPUs/docs", says: "without the repository", why: "compares a page of the repository"},
	{what: "TestHandshakesInWindows", says: "build causes", why: "the guest has no OpenSSL"},
	{what: "TestKVM.*", says: "/dev/kvm|no KVM hook|not found", why: "needs KVM's modules: tested in a separate guest"},
	{what: "TestSGXFires|TestSGXRenamed|TestGuestFunctionsFire.*", says: "not loaded", why: "needs a module: tested in a separate guest"},
	{what: "TestBouncedBytesAreExact/.*|TestBounceFull", says: "0 mappings|pool is not known", why: "needs bounce buffers: tested in a separate guest"},
	{what: "TestBounceFull", says: "cannot be filled", why: "needs a pool of at most 1,024 slots (swiotlb=256,force)"},
	{what: "TestBlock.*", from: Version{6, 19}, before: Version{7, 2}, says: "no loop devices", why: "the archive no longer has these kernels' modules"},
	{what: "TestGuestFunctionsAttach/(accept|ve|tdx_report)_.*", before: Version{6, 5}, says: "has no function", why: "Debian's kernels support TDX guests since 6.5"},
	{what: "TestGuestFunctionsAttach/(full_fexit|map_fentry)", before: Version{6, 12}, says: "more arguments", why: "swiotlb_tbl_map_single has seven arguments"},
	{what: "TestGuestFunctionsAttach/(unmap|device|cpu)_[a-z]+", before: Version{6, 11}, says: "has no function", why: "these functions have names without underscores before 6.11"},
	{what: "TestGuestFunctionsAttach/(unmap|device|cpu)_old_[a-z]+", from: Version{6, 11}, says: "has no function", why: "these functions have names with underscores since 6.11"},
	{what: "TestPageCache/raw", before: Version{6, 12}, says: "access_raw", why: "no tracepoint for reads from the page cache"},
	{what: "TestBlockErrors", before: Version{6, 12}, says: "beyond its file", why: "loop devices read zeros beyond their file"},
	{what: "TestGuestFunctionsAttach/.*|TestBounceTimingCost/.*|TestBounceReopens", mode: "confidentiality", says: "cannot be traced|" + noRead, why: "lockdown: functions cannot be listed without tracefs"},
	{what: "TestWord/.*", mode: "confidentiality", says: noRead, why: "lockdown: programs may not read kernel memory"},
	{what: ".*(raw|kprobe|bounced_btf).*", mode: "confidentiality", says: noRead, why: "lockdown: programs may not read kernel memory"},
	{what: ".*classic", mode: "confidentiality", says: "tracefs", why: "lockdown: no tracefs"},
}
