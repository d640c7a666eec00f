package kinds

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// sevHost is a machine whose CPU can run AMD's confidential guests. Its variant
// is the strongest kind that KVM can start now: "sev", "sev-es" or "sev-snp".
var sevHost = tee.Kind{
	Name:   "sev-host",
	Doc:    "Host of AMD SEV, SEV-ES or SEV-SNP guests: CPUID leaf 0x8000001F outside a guest, parameters of module kvm_amd",
	Detect: detectSEVHost,
}

func detectSEVHost(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	_, b, cx, d := h.CPUID(0, 0)
	if vendor := machine.Letters(b, d, cx); vendor != "AuthenticAMD" && vendor != "HygonGenuine" {
		return c.absent("not an AMD CPU")
	}
	if c.guest() {
		return c.absent("a guest, where CPUID leaf 0x8000001F speaks of the guest itself")
	}
	last, _, _, _ := h.CPUID(0x80000000, 0)
	eax, _, ids, _ := h.CPUID(0x8000001f, 0)
	if last < 0x8000001f || eax&(1<<1) == 0 {
		return c.absent("CPUID leaf 0x8000001F has no SEV bit")
	}
	c.addEvidence("CPUID 0x8000001F", "SEV, %d encryption keys", ids)
	f := tee.Facts{Role: tee.Host, Why: "module kvm_amd is not loaded (modprobe kvm_amd)"}
	for _, p := range []struct{ parameter, variant string }{{"sev", "sev"}, {"sev_es", "sev-es"}, {"sev_snp", "sev-snp"}} {
		on, known, err := switched(h, "/sys/module/kvm_amd/parameters/"+p.parameter)
		switch {
		case err != nil:
			return tee.Facts{}, fmt.Errorf("the CPU offers SEV, but whether KVM starts such guests could not be read: %w", err)
		case !known: // sev_snp since Linux 6.11
		case on:
			f.Variant, f.Active = p.variant, true
			c.addEvidence("kvm_amd parameter "+p.parameter, "Y")
		case !f.Active:
			f.Why = "kvm_amd starts no SEV guests: enable SEV in the firmware, load module ccp, and kvm_amd with sev=1"
		}
	}
	if f.Active {
		f.Why = ""
	}
	f.Evidence = c.evidence
	return f, nil
}

// switched reads a parameter; known is false where the kernel has none of that name.
func switched(h *host.Host, name string) (on, known bool, err error) {
	on, err = h.ReadSwitch(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return on, err == nil, err
}
