package kernels

import (
	"fmt"
	"regexp"
	"slices"
)

// exception says where a source may be less than available, or a test be skipped
// or fail, and why. What is not listed has to work: a feature that is missing on
// a kernel that should have it is a failure.
type exception struct {
	// what is the name of a source or test, a regular expression of the whole.
	what string
	// from and before bound the kernels; zero is no bound.
	from, before Version
	// mode is that of the boot, a regular expression; "" is any.
	mode string
	// says is found in the reason that is given.
	says string
	// why is for the reader of docs/kernels.md.
	why string
}

func (e *exception) holds(k Image, mode, what, reason string) bool {
	return !k.Series.Before(e.from) && (e.before == Version{} || k.Series.Before(e.before)) &&
		(e.mode == "" || regexp.MustCompile("^(?:"+e.mode+")$").MatchString(mode)) &&
		regexp.MustCompile("^(?:"+e.what+")$").MatchString(what) && regexp.MustCompile(e.says).MatchString(reason)
}

// excused returns why something may be missing on a kernel, or an error.
func excused(list []exception, k Image, mode, what, reason string) error {
	if slices.ContainsFunc(list, func(e exception) bool { return e.holds(k, mode, what, reason) }) {
		return nil
	}
	return fmt.Errorf("%s is missing on %s (%s), which should have it: %s", what, k.Name(), mode, reason)
}

// always are the sources that every guest has, whatever it is.
var always = []string{"tee", "cpu", "memory", "disk", "filesystem", "network", "pressure", "interrupts", "system", "container", "self"}

// counted are the sources whose programs count on every kernel that is new enough.
var counted = []string{"syscalls", "switches", "faults", "pagecache", "block", "tcp"}

// least is the kernel that the programs need.
var least = Version{5, 15}

// noRead is what a locked-down kernel says of programs that read its memory.
const noRead = `(cannot use helper|unknown func) bpf_probe_read|Use a helper allowed for this program type|operation not permitted`

// sourceExceptions are about degraded and unavailable sources.
var sourceExceptions = []exception{
	{what: ".*", before: least, says: "into the kernel", why: "the programs need Linux 5.15"},
	{what: ".*", mode: "no BTF", says: "BTF", why: "the programs need the kernel's type information"},
	{what: "kvm", says: "KVM is not loaded", why: "no virtual machine in the guest: in a guest of its own"},
	{what: "tls", from: Version{6, 11}, before: Version{6, 14}, says: "seccomp filter", why: "a hooked return would end processes under a seccomp filter"},
	{what: "llc", says: "performance counters", why: "the emulator has no performance counters"},
}

// testExceptions are about tests of package bpf that are skipped or fail.
var testExceptions = []exception{
	{what: "TestCauses|TestHandshakesInWindows", says: "build causes", why: "needs OpenSSL, which the guest lacks"},
	{what: "TestSamples/getppid", says: "samples of {user }", why: "an emulated processor takes interrupts between translated blocks only, most of them after the call"},
	{what: "TestSamples/faults", says: "free memory", why: "needs more memory than the guest has"},
	{what: "TestKVM.*", says: "/dev/kvm|no KVM hook|not found", why: "needs KVM's modules: in a guest of its own"},
	{what: "TestSGXFires|TestSGXRenamed|TestGuestFunctionsFire.*", says: "not loaded", why: "needs a module: in a guest of its own"},
	{what: "TestBouncedBytesAreExact/.*|TestBounceFull", says: "0 mappings|pool is not known", why: "needs bounce buffers: in a guest of its own"},
	{what: "TestBlock.*", from: Version{6, 19}, before: Version{7, 2}, says: "no loop devices", why: "the archive has no modules of these kernels any more"},
	{what: "TestGuestFunctionsAttach/(accept|ve|tdx_report)_.*", before: Version{6, 5}, says: "has no function", why: "Debian's kernels are built for TDX guests since 6.5"},
	{what: "TestGuestFunctionsAttach/full_fexit", before: Version{6, 12}, says: "more arguments", why: "swiotlb_tbl_map_single has seven arguments"},
	{what: "TestPageCache/raw", before: Version{6, 12}, says: "access_raw", why: "no tracepoint for reads from the page cache"},
	{what: "TestBlockErrors", before: Version{6, 12}, says: "beyond its file", why: "loop devices read zeros beyond their file"},
	{what: "TestGuestFunctionsAttach/.*", mode: "confidentiality", says: "cannot be traced|" + noRead, why: "lockdown confidentiality: no tracefs to list the functions"},
	{what: "TestWord/.*", mode: "confidentiality", says: noRead, why: "lockdown confidentiality: no program may read the kernel's memory"},
	{what: ".*(raw|kprobe|bounced_btf).*", mode: "confidentiality", says: noRead, why: "lockdown confidentiality: no program may read the kernel's memory"},
	{what: ".*classic", mode: "confidentiality", says: "tracefs", why: "lockdown confidentiality: no tracefs"},
}
