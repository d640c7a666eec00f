package kinds

import (
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// tdx is the inside of an Intel TDX confidential VM. Its variant is "paravisor"
// where Hyper-V runs its own firmware between the TDX module and this kernel,
// which hides the TDX leaf.
var tdx = tee.Kind{
	Name:   "tdx",
	Doc:    "Intel TDX guest: CPUID leaf 0x21, the Hyper-V isolation leaf, the CPU flag and device tdx_guest, measurement registers",
	Detect: detectTDX,
}

func detectTDX(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	if !c.x86() {
		return c.absent("no x86 CPU")
	}
	f := tee.Facts{Role: tee.Guest, Active: true}
	found := false
	if c.guest() {
		// The signature is in EBX, EDX, ECX order, unlike a vendor's.
		last, _, _, _ := h.CPUID(0, 0)
		if _, b, cx, d := h.CPUID(0x21, 0); last >= 0x21 && machine.Letters(b, d, cx) == "IntelTDX    " {
			found = true
			c.addEvidence("CPUID 0x21", "IntelTDX")
		}
		if !found && c.isolation() == 3 {
			found = true
			f.Variant = "paravisor"
			c.addEvidence("CPUID 0x4000000C", "Hyper-V isolation type 3, TDX")
		}
		c.otherIsolation()
	}
	// Linux shows the flag since 5.19 and the device since 6.2; a paravisor
	// hides both, so their absence says nothing.
	flag, device := c.flag("tdx_guest"), c.checkFile("/dev/tdx_guest")
	if found {
		c.attestation("/sys/firmware/acpi/tables/CCEL")
		c.registers("/sys/devices/virtual/misc/tdx_guest/measurements")
		c.addEvidence(tee.DebugBit, "not known: the TD's attributes are in its report only")
		f.Evidence = c.evidence
		return f, nil
	}
	if flag || device {
		c.doubt("the kernel shows tdx_guest (%s) but CPUID denies TDX", c.evidence[0].Source)
	}
	return c.absent("CPUID has neither the TDX leaf nor Hyper-V isolation of that type")
}

// registers notes the names of the measurement registers, which Linux shows since
// 6.16 (Documentation/ABI/testing/sysfs-devices-virtual-misc-tdx_guest). What they
// hold is for attestation.
func (c *clues) registers(dir string) {
	files, err := c.ReadDir(dir)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if err == nil && names != nil {
		c.addEvidence(dir, "%s", strings.Join(names, " "))
	}
}
