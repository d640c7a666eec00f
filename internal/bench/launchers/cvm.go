package launchers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// Options that make a QEMU guest confidential. QEMU documents them in
// docs/system/i386/amd-memory-encryption.rst (SEV-SNP, from QEMU 9.1) and
// docs/system/i386/tdx.rst (from QEMU 10.1).

// confidentialKind names the kind of package tee.
var confidentialKind = map[string]string{"snp": "sev", "tdx": "tdx"}

// firmwares are the paths where distributions install OVMF images that support such guests.
var firmwares = map[string][]string{
	"snp": {"/usr/share/ovmf/OVMF.amdsev.fd", "/usr/share/edk2/ovmf/OVMF.amdsev.fd", "/usr/share/OVMF/OVMF.amdsev.fd", "/usr/share/ovmf/OVMF.fd"},
	"tdx": {"/usr/share/ovmf/OVMF.inteltdx.fd", "/usr/share/edk2/ovmf/OVMF.inteltdx.fd", "/usr/share/ovmf/OVMF.tdx.fd", "/usr/share/ovmf/OVMF.fd"},
}

// firmware returns the installed image, or "".
func firmware(h *host.Host, cvm string) string {
	i := slices.IndexFunc(firmwares[cvm], func(name string) bool { ok, _ := h.Exists(name); return ok })
	if i < 0 {
		return ""
	}
	return firmwares[cvm][i]
}

// confidential returns the machine's options and the arguments. Guest memory is shared memory,
// private pages come from the kernel (guest_memfd); firmware is loaded as RAM, since there are
// no read-only slots.
func confidential(p bench.Params, memory int64, cbit uint32) (machine string, args []string) {
	if p["cvm"] == "tdx" {
		return ",kernel-irqchip=split,confidential-guest-support=tee", []string{"-object", "tdx-guest,id=tee", "-bios", p["firmware"]}
	}
	return ",memory-backend=ram,confidential-guest-support=tee", []string{
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%d,share=on,prealloc=%s", memory, p["prealloc"]),
		// Guest addresses lose one bit, whatever the position of the C-bit.
		"-object", fmt.Sprintf("sev-snp-guest,id=tee,cbitpos=%d,reduced-phys-bits=1", cbit),
		"-bios", p["firmware"],
	}
}

// confidentialNeeds lists what the host must have. A parameter that is off and an object that
// QEMU lacks are missing, like a file.
func confidentialNeeds(h *host.Host, p bench.Params) []need {
	var needs []need
	var object, parameter string
	switch p["cvm"] {
	case "snp":
		object, parameter = "sev-snp-guest", "/sys/module/kvm_amd/parameters/sev_snp"
		needs = append(needs, need{Path: "/dev/sev", Hint: "an AMD EPYC 7003 or later with SEV-SNP switched on in the firmware, and the module ccp"})
	case "tdx":
		object, parameter = "tdx-guest", "/sys/module/kvm_intel/parameters/tdx"
	default:
		return nil
	}
	if on, _ := h.ReadString(parameter); on != "Y" && on != "1" {
		needs = append(needs, need{Path: parameter + "=Y", Hint: "needs a host kernel and CPU that support such guests, and the module's parameter set"})
	}
	if image := p["firmware"]; image != "" {
		needs = append(needs, need{Path: image, Hint: "the OVMF image that firmware names"})
	} else if firmware(h, p["cvm"]) == "" {
		needs = append(needs, need{Path: firmwares[p["cvm"]][0], Hint: "package ovmf, or firmware=PATH"})
	}
	if _, err := h.LookPath(qemuCommand); err == nil {
		out, err := h.Exec(context.Background(), host.Cmd{Argv: []string{qemuCommand, "-object", "help"}})
		if err != nil || !slices.Contains(strings.Fields(string(out.Stdout)), object) {
			needs = append(needs, need{Path: object, Hint: "an object of newer QEMU: 9.1 has sev-snp-guest, 10.1 tdx-guest"})
		}
	}
	return needs
}
