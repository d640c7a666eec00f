package kinds

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// sev is the inside of an AMD confidential VM. Variants are "sev", "sev-es" and
// "sev-snp". The order of checks is that of systemd's confidential-virt.c: CPUID
// says that SEV is possible, the status register which kind is on.
var sev = tee.Kind{
	Name:   "sev",
	Doc:    "AMD SEV, SEV-ES or SEV-SNP guest: CPUID leaf 0x8000001F, the Hyper-V isolation leaf, MSR 0xC0010131, device sev-guest",
	Detect: detectSEV,
}

// sevStatus is SEV_STATUS (AMD APM volume 2, section 15.34.10).
const sevStatus = 0xc0010131

func detectSEV(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	if !c.x86() {
		return c.absent("no x86 CPU")
	}
	// Both exist in SNP guests only: the device since Linux 5.19, the privilege
	// level since 6.11.
	device := c.checkFile("/dev/sev-guest")
	level := c.privilege()
	snp := device || level

	variant, why, err := c.sevVariant(snp)
	switch {
	case err != nil:
		return tee.Facts{}, err
	case variant == "" && snp:
		c.doubt("%s is there but %s", c.evidence[0].Source, why)
		return c.absent(why)
	case variant == "":
		return c.absent(why)
	case snp && variant != "sev-snp":
		return tee.Facts{}, fmt.Errorf("%s is there but MSR %#x says %s", c.evidence[0].Source, sevStatus, variant)
	}
	c.attestation()
	c.addEvidence(tee.DebugBit, "not known: the guest's policy is in its report and with the host only")
	return tee.Facts{Variant: variant, Role: tee.Guest, Active: true, Evidence: c.evidence}, nil
}

// privilege reports whether the kernel shows its virtual machine privilege level.
func (c *clues) privilege() bool {
	const name = "/sys/devices/system/cpu/sev/vmpl"
	level, ok := c.text(name)
	if ok && level != "0" {
		c.addEvidence("VMPL "+level, "a service module or paravisor is more privileged than this kernel")
	}
	return ok
}

// sevFeatures are the bits of SEV_STATUS (AMD APM volume 2, section 15.34.10;
// arch/x86/include/asm/msr-index.h). Bit 7 swaps debug registers at exits; it is
// not the bit that lets the host debug the guest.
var sevFeatures = map[int]string{
	0: "SEV", 1: "SEV-ES", 2: "SEV-SNP", 3: "vTOM", 4: "ReflectVC", 5: "RestrictedInjection", 6: "AlternateInjection", 7: "DebugSwap",
	8: "PreventHostIBS", 9: "BTBIsolation", 10: "VmplSSS", 11: "SecureTSC", 12: "VmgexitParameter", 14: "IbsVirtualization",
	16: "VmsaRegProt", 17: "SmtProtection", 18: "SecureAVIC", 23: "IbpbOnEntry",
}

// featureNames spells the bits that are set.
func featureNames(status uint64) string {
	var names []string
	for bit := range 64 {
		if status>>bit&1 == 0 {
			continue
		}
		name, ok := sevFeatures[bit]
		if !ok {
			name = fmt.Sprintf("bit %d", bit)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// sevVariant returns "" and the reason where CPUID or the status register deny
// SEV, and an error where neither the register nor snp, a sign that only SNP
// guests have, tells which kind it is.
func (c *clues) sevVariant(snp bool) (variant, why string, err error) {
	if !c.guest() {
		return "", "the CPU has no hypervisor bit: not a guest", nil
	}
	if c.isolation() == 2 {
		c.addEvidence("CPUID 0x4000000C", "Hyper-V isolation type 2, SEV-SNP")
		return "sev-snp", "", nil
	}
	c.otherIsolation()
	if _, b, cx, d := c.CPUID(0, 0); machine.Letters(b, d, cx) != "AuthenticAMD" {
		return "", "not an AMD CPU", nil
	}
	last, _, _, _ := c.CPUID(0x80000000, 0)
	if eax, _, _, _ := c.CPUID(0x8000001f, 0); last < 0x8000001f || eax&(1<<1) == 0 {
		return "", "CPUID leaf 0x8000001F has no SEV bit", nil
	}
	c.addEvidence("CPUID 0x8000001F", "SEV")
	status, err := c.MSR(0, sevStatus)
	if err != nil {
		if snp {
			return "sev-snp", "", nil
		}
		return "", "", fmt.Errorf("CPUID offers SEV, but which kind is on could not be read (run as root with the msr module loaded): %w", err)
	}
	c.addEvidence(fmt.Sprintf("MSR %#x", sevStatus), "%#x %s", status, featureNames(status))
	switch status & 7 {
	case 0:
		return "", fmt.Sprintf("MSR %#x says that SEV is off", sevStatus), nil
	case 1:
		return "sev", "", nil
	case 3:
		return "sev-es", "", nil
	case 7:
		return "sev-snp", "", nil
	}
	return "", "", fmt.Errorf("MSR %#x is %#x: each SEV kind includes the one before, and here one is left out", sevStatus, status)
}
