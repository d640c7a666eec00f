// Package probetest says what the machine that runs a test may lack. A test of a source
// skips only where a fact of the machine excuses it; elsewhere it fails.
package probetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// A lack is something a machine may do without, and what cannot work there.
type lack struct {
	// what names the sources and tests that it excuses: a regular expression of the whole.
	what string
	// true reports whether this machine has the lack. It looks for itself and does
	// not ask the code under test.
	true func() bool
	why  string
}

// programs are the sources that load BPF programs, and the tests that do.
const programs = "syscalls|switches|run_queue|faults|pagecache|block|tcp|tcp_connect|samples|waits|tls|kvm|runtimes|gramine|sgx|sgx_free|swiotlb_bounces|conversions|guest_exits|guest_reports|user_.*|(Test|Benchmark).*"

// lacks is the one list of reasons to skip. Names without "Test" are sources, or things
// that tests need.
var lacks = []lack{
	{programs + "|llc|container|control groups|network namespaces|mounts|loop devices|statistics", unprivileged, "needs root"},
	{programs, no("/sys/kernel/btf/vmlinux"), "the kernel has no type information (CONFIG_DEBUG_INFO_BTF)"},
	{programs, before(5, 15), "the programs need Linux 5.15"},
	{"llc", no("/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/cpu_core"), "the machine shows no performance counters"},

	{"TestGuestFunctionsAttach/.*|TestAccessByFunction/.*|TestBounceTimingCost/.*|TestBounceReopens", no("/sys/kernel/tracing/kprobe_events"), "the kernel has no probes on functions (CONFIG_KPROBE_EVENTS)"},
	{"TestGuestFunctionsAttach/.*|TestAccessByFunction/.*|TestBounce.*|TestWord/.*|TestSGXHooks|TestPageCache/raw", confidential, "kernel lockdown is in confidentiality mode"},
	{"TestGuestFunctionsAttach/(full_fexit|map_fentry)", before(6, 12), "swiotlb_tbl_map_single has too many arguments to be traced"},
	{"TestAccessByFunction/.*", before(5, 16), "the kernel has no folios"},
	{"TestPageCache/raw", before(6, 12), "the kernel has no tracepoint for reads from the page cache"},
	{"TestWord/(clock|forks)|TestBounceReadsNames", lacksText("/proc/kallsyms", " jiffies_64\n"), "the kernel lists no variables (CONFIG_KALLSYMS_ALL)"},
	{"TestTracers", confidential, "kernel lockdown is in confidentiality mode"},

	{"kvm|vm|TestKVM.*", no("/dev/kvm"), "the kernel has no KVM"},
	{"tdx_host", no("/sys/module/kvm_intel/parameters/tdx"), "not a host of TDX guests"},
	{"sev_host", no("/dev/sev"), "not a host of SEV guests"},
	{"misc_cgroup|sgx_cgroup", no("/sys/fs/cgroup/misc.capacity", "/sys/fs/cgroup/*/misc.capacity"), "the misc controller has no resources"},
	{"nitro", no("/dev/nitro_enclaves", "/dev/nsm"), "not a Nitro machine"},
	{"secure_execution", no("/sys/firmware/uv"), "the firmware has no ultravisor"},
	{"gpu|graphics cards", no("/proc/driver/nvidia/version"), "no NVIDIA driver is loaded"},

	{"sgx_epc|sgx_free|sgx|sgx_mappings|TestSGXHooks", no("/dev/sgx_enclave", "/dev/sgx_vepc", "/dev/isgx"), "no SGX driver is active"},
	{"sgx_legacy", no("/sys/module/isgx", "/sys/module/intel_sgx"), "no SGX driver from outside the kernel is loaded"},
	{"stub of SGX", no("/sys/module/isgx/parameters/trigger"), "the module of e2e/kernels/stub is not loaded"},
	{"ccguest", no("/sys/module/ccguest/parameters/trigger"), "the module of e2e/kernels/ccguest is not loaded"},
	{"types of ccguest", no("/sys/kernel/btf/ccguest"), "the module of e2e/kernels/ccguest has no type information"},
	{"conversions|guest_exits|guest_reports", no("/dev/tdx_guest", "/dev/sev-guest", "/dev/nsm", "/sys/kernel/config/tsm"), "not a confidential VM"},
	{"vm_guest", no("/sys/class/dmi/id/product_uuid", "/sys/hypervisor/uuid", "/proc/device-tree/vm,uuid"), "the hypervisor shows no UUID of this machine"},
	{"virtio disks", no("/sys/block/vd*"), "the machine has no virtio disk"},
	{"bounce buffers", func() bool {
		return lacksText("/proc/cmdline", "swiotlb=force")() && lacksText("/proc/cmdline", ",force")()
	}, "the kernel is not told to bounce (swiotlb=force)"},
	{"swiotlb|swiotlb_bounces|bounce buffers", no("/sys/kernel/debug/swiotlb/io_tlb_nslabs"), "the kernel shows no bounce buffer pool"},
	{"unaccepted", lacksText("/proc/meminfo", "\nUnaccepted:"), "the kernel keeps no unaccepted memory"},

	{"virtio", no("/sys/bus/virtio/devices/*"), "the machine has no virtio device"},
	{"energy", no("/sys/class/powercap/*:*"), "the machine shows no energy counters"},
	{"pressure", no("/proc/pressure/cpu"), "the kernel keeps no pressure stall information"},
	{"requests", always, "no server is named"},
	{"loop devices", no("/dev/loop-control"), "the kernel has no loop devices"},
	{"CPU 0", lacksText("/sys/devices/system/cpu/online", "0"), "CPU 0 is not online"},

	{"OpenSSL", no("/usr/include/openssl/ssl.h"), "the headers of OpenSSL are not installed (package libssl-dev)"},
	{"a C compiler|OpenSSL", noCommand("cc"), "no C compiler is installed (package gcc)"},
	{"clang", noCommand("clang"), "clang is not installed"},
}

// Skip skips the test if a fact of this machine excuses what does not work, and else
// fails it. what is a source or a thing the test needs, "" for the test itself; err says
// what happened.
func Skip(t testing.TB, what string, err error) {
	t.Helper()
	if what == "" {
		what = t.Name()
	}
	if why := excuse(what); why != "" {
		t.Skipf("%v (%s)", err, why)
	}
	t.Fatalf("%s does not work, and this machine lacks nothing that it needs: %v", what, err)
}

func excuse(what string) string {
	for _, l := range lacks {
		if regexp.MustCompile("^(?:"+l.what+")$").MatchString(what) && l.true() {
			return l.why
		}
	}
	return ""
}

func always() bool { return true }

// unprivileged is that this process may not load tracing programs: it takes CAP_BPF and
// CAP_PERFMON, or CAP_SYS_ADMIN.
func unprivileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	has := func(c uint) bool { return data[c/32].Effective>>(c%32)&1 == 1 }
	return !has(unix.CAP_SYS_ADMIN) && !(has(unix.CAP_BPF) && has(unix.CAP_PERFMON))
}

func confidential() bool { return !lacksText("/sys/kernel/security/lockdown", "[confidentiality]")() }

// no is that none of the files is there.
func no(patterns ...string) func() bool {
	return func() bool {
		for _, p := range patterns {
			if found, err := filepath.Glob(p); err == nil && len(found) > 0 {
				return false
			}
		}
		return true
	}
}

func lacksText(path, text string) func() bool {
	return func() bool {
		b, err := os.ReadFile(path)
		return err != nil || !bytes.Contains(b, []byte(text))
	}
}

func noCommand(name string) func() bool {
	return func() bool {
		_, err := exec.LookPath(name)
		return err != nil
	}
}

// before is that the kernel is older than a version.
func before(major, minor int) func() bool {
	return func() bool {
		var name unix.Utsname
		var a, b int
		if unix.Uname(&name) != nil {
			return false
		}
		if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &a, &b); err != nil {
			return false
		}
		return a < major || a == major && b < minor
	}
}
