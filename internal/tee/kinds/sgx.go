package kinds

import (
	"fmt"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
)

// sgx is Intel SGX on the machine that runs enclaves. Variants are the drivers:
// "in-tree" (Linux 5.11 and later), "vepc" (in-tree, EPC for KVM guests only),
// and the out-of-tree modules "isgx" and "dcap".
var sgx = tee.Kind{
	Name:   "sgx",
	Doc:    "Intel SGX enclaves: CPUID leaves 7 and 0x12, device nodes of the in-tree driver, modules isgx and intel_sgx",
	Detect: detectSGX,
}

func detectSGX(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	if !c.x86() {
		return c.absent("no x86 CPU")
	}
	_, ebx, ecx, _ := h.CPUID(7, 0)
	capable, launchControl := ebx&(1<<2) != 0, ecx&(1<<30) != 0
	epc := tee.EPC(h)
	if capable {
		c.addEvidence("CPUID 7", "SGX")
		c.sgxLeaf(epc)
	}
	flagged := c.flag("sgx", "sgx_lc")
	driver, ready := c.sgxDriver()
	switch {
	case !capable && driver != "":
		c.doubt("the %s SGX driver is there but CPUID leaf 7 denies SGX", driver)
	case !capable && flagged:
		c.doubt("/proc/cpuinfo lists SGX but CPUID leaf 7 denies it")
	case capable && ready && len(epc) == 0:
		return tee.Facts{}, fmt.Errorf("the %s SGX driver has its device but CPUID leaf 0x12 lists no EPC", driver)
	}
	if !capable {
		return c.absent("CPUID leaf 7 has no SGX bit")
	}
	f := tee.Facts{Variant: driver, Role: tee.Host, Active: ready, Evidence: c.evidence}
	if !ready {
		f.Why = c.sgxWhy(driver, len(epc) > 0, launchControl)
	}
	return f, nil
}

// sgxLeaf notes what leaf 0x12 says of the instruction sets and of the EPC.
func (c *clues) sgxLeaf(epc []uint64) {
	sets := "SGX1 off"
	if last, _, _, _ := c.CPUID(0, 0); last >= 0x12 {
		eax, _, _, _ := c.CPUID(0x12, 0)
		switch eax & 3 {
		case 1:
			sets = "SGX1"
		case 3:
			sets = "SGX1 SGX2"
		}
	}
	var sum uint64
	for _, n := range epc {
		sum += n
	}
	c.addEvidence("CPUID 0x12", "%s, EPC of %d bytes in %d sections", sets, sum, len(epc))
}

// sgxDriver names the driver, "" for none, and says whether its device is there.
// A module decides before device nodes: newer DCAP drivers use the in-tree names.
func (c *clues) sgxDriver() (variant string, ready bool) {
	for _, m := range []struct {
		module, variant string
		devices         []string
	}{
		{"isgx", "isgx", []string{"/dev/isgx"}},
		{"intel_sgx", "dcap", []string{"/dev/sgx_enclave", "/dev/sgx/enclave", "/dev/sgx"}},
	} {
		version, loaded := c.text("/sys/module/" + m.module + "/version")
		if !loaded && !c.checkFile("/sys/module/"+m.module) {
			continue
		}
		for _, d := range m.devices {
			if c.checkFile(d) {
				c.checkFile("/proc/sgx_stats") // Fortanix's fork of isgx
				return m.variant, true
			}
		}
		c.addEvidence("/sys/module/"+m.module, "loaded, version %q, but no device node", version)
		return m.variant, false
	}
	switch {
	case c.checkFile("/dev/sgx_enclave"):
		c.checkFile("/dev/sgx_provision")
		c.checkFile("/dev/sgx_vepc")
		return "in-tree", true
	case c.checkFile("/dev/sgx_vepc"):
		return "vepc", true
	case c.checkFile("/dev/isgx"):
		return "isgx", true
	}
	return "", false
}

// sgxWhy explains a capable CPU that cannot be used, and what would help.
func (c *clues) sgxWhy(driver string, epc, launchControl bool) string {
	var why string
	switch {
	case !epc && c.guest():
		why = "the hypervisor gives this VM no EPC; add an EPC section to the VM"
	case !epc:
		why = "the firmware has SGX off or reserves no EPC; enable SGX in the firmware setup"
	case driver != "":
		why = fmt.Sprintf("the %s driver is loaded but made no device node; see the kernel log", driver)
	case !launchControl:
		why = "no driver, and no flexible launch control, which the in-tree driver needs; enable it in the firmware setup or load the isgx driver"
	default:
		release, _ := c.ReadString("/proc/sys/kernel/osrelease")
		why = fmt.Sprintf("no driver; use Linux 5.11 or later with CONFIG_X86_SGX and without the option nosgx (this is %q)", release)
	}
	for _, d := range c.doubts {
		why += "; " + d.Error()
	}
	return why
}
