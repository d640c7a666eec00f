package kinds

import (
	"fmt"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// tdxHost is a machine whose firmware offers TDX to run confidential guests. The
// witnesses are the kernel's: the firmware's own register, MTRRcap bit 15, says
// only that the CPU could.
var tdxHost = tee.Kind{
	Name:   "tdx-host",
	Doc:    "Host of Intel TDX guests: CPU flag tdx_host_platform, parameter tdx of module kvm_intel",
	Detect: detectTDXHost,
}

func detectTDXHost(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	_, b, cx, d := h.CPUID(0, 0)
	if machine.Letters(b, d, cx) != "GenuineIntel" {
		return c.absent("not an Intel CPU")
	}
	if c.guest() {
		return c.absent("a guest, which TDX cannot nest in")
	}
	flag := c.flag("tdx_host_platform") // since Linux 6.9, where the kernel found the firmware's key ids
	on, known, err := switched(h, "/sys/module/kvm_intel/parameters/tdx")
	if err != nil {
		c.doubts = append(c.doubts, err)
	}
	f := tee.Facts{Role: tee.Host}
	switch {
	case on:
		c.addEvidence("kvm_intel parameter tdx", "Y")
		c.text("/sys/devices/faux/tdx_host/version") // as evidence; newer than Linux 6.18
		f.Active = true
	case !flag:
		return c.absent("neither CPU flag tdx_host_platform nor parameter tdx of kvm_intel")
	case err != nil:
		return tee.Facts{}, fmt.Errorf("the firmware offers TDX, but whether KVM starts such guests could not be read: %w", err)
	case known:
		f.Why = "kvm_intel starts no TDX guests: load it with tdx=1 (Linux 6.16, CONFIG_KVM_INTEL_TDX)"
	default:
		f.Why = "the firmware offers TDX but kvm_intel is not loaded or does not support it (Linux 6.16, CONFIG_KVM_INTEL_TDX)"
	}
	f.Evidence = c.evidence
	return f, nil
}
