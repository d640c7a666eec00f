package kinds

import (
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// cca is the inside of an Arm CCA realm. The kernel makes the device since Linux
// 6.14 (arch/arm64/kernel/rsi.c); in 6.13, the first that runs in a realm, only
// its attestation driver tells, which loads nowhere else.
var cca = tee.Kind{
	Name:   "cca",
	Doc:    "Arm CCA realm: platform device arm-cca-dev, module arm_cca_guest and its reports in configfs-tsm",
	Detect: detectCCA,
}

func detectCCA(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	if c.x86() {
		return c.absent("an x86 CPU")
	}
	device, module := c.checkFile("/sys/devices/platform/arm-cca-dev"), c.checkFile("/sys/module/arm_cca_guest")
	provider := c.attestation("/sys/firmware/acpi/tables/CCEL")
	if device || module || provider == "arm_cca_guest" {
		c.addEvidence(tee.DebugBit, "not known: the realm's lifecycle state is in its token only")
		return tee.Facts{Role: tee.Guest, Active: true, Evidence: c.evidence}, nil
	}
	if arm := c.arm(); !arm && len(c.doubts) == 0 {
		return c.absent("not an Arm CPU")
	}
	if files, err := h.ReadDir("/sys"); err != nil || len(files) == 0 {
		c.doubt("look for /sys/devices/platform/arm-cca-dev: sysfs is not mounted")
	}
	return c.absent("the kernel made no device arm-cca-dev")
}

// arm reports whether /proc/cpuinfo is that of a 64-bit Arm kernel. Not being
// able to read it is a doubt.
func (c *clues) arm() bool {
	info, err := machine.ReadCPUInfo(c.Host)
	if err != nil {
		c.doubts = append(c.doubts, err)
	}
	_, ok := info.Value("Features") // on s390x in lower case
	return ok
}
