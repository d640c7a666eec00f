package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// Fingerprint is what the costs of events on a machine depend on. Machines with
// equal fingerprints count as the same. What cannot be read is "".
type Fingerprint struct {
	// CPU is vendor, model, stepping and microcode as /proc/cpuinfo has them.
	CPU string `json:"cpu"`
	// Kernel is its release and build.
	Kernel string `json:"kernel"`
	// Mitigations are the files below /sys/devices/system/cpu/vulnerabilities: they
	// add work to entering and leaving the kernel.
	Mitigations map[string]string `json:"mitigations"`
	// Hypervisor is its signature, "" on bare metal.
	Hypervisor string `json:"hypervisor"`
	// TEE is what protects the machine.
	TEE string `json:"tee"`
}

// Identify reads a machine's fingerprint; tee is its TEE in words.
func Identify(h *host.Host, tee string) Fingerprint {
	f := Fingerprint{TEE: tee, Hypervisor: strings.ToValidUTF8(strings.TrimRight(HypervisorSignature(h), " "), "?")}
	info, _ := ReadCPUInfo(h)
	f.CPU = processor(info)
	f.Kernel = strings.TrimSpace(text(h, "/proc/sys/kernel/osrelease") + " " + text(h, "/proc/sys/kernel/version"))
	f.Mitigations, _ = Mitigations(h)
	return f
}

// processor joins what /proc/cpuinfo says of the first CPU.
func processor(info CPUInfo) string {
	var out []string
	for key, value := range info.First().Fields() {
		switch key {
		case "vendor_id", "cpu family", "model", "model name", "stepping", "microcode",
			"CPU implementer", "CPU variant", "CPU part", "CPU revision":
			out = append(out, key+" "+value)
		}
	}
	return strings.Join(out, ", ")
}

// Microcode is the processor's, "" where it is not known, as in a guest from which it is hidden.
func (f Fingerprint) Microcode() string {
	for part := range strings.SplitSeq(f.CPU, ", ") {
		if v, ok := strings.CutPrefix(part, "microcode "); ok && v != "0xffffffff" {
			return v
		}
	}
	return ""
}

// Differs names the first fact that has changed, "" if none has.
func (f Fingerprint) Differs(now Fingerprint) string {
	for _, x := range []struct{ what, was, is string }{
		{"the processor", f.CPU, now.CPU},
		{"the kernel", f.Kernel, now.Kernel},
		{"the hypervisor", f.Hypervisor, now.Hypervisor},
		{"the TEE", f.TEE, now.TEE},
	} {
		if x.was != x.is {
			return fmt.Sprintf("%s was %q, is %q", x.what, x.was, x.is)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Mitigations)) {
		if was, is := f.Mitigations[name], now.Mitigations[name]; was != is {
			return fmt.Sprintf("the mitigation of %s was %q, is %q", name, was, is)
		}
	}
	if len(f.Mitigations) != len(now.Mitigations) {
		return fmt.Sprintf("%d vulnerabilities were known, now %d", len(f.Mitigations), len(now.Mitigations))
	}
	return ""
}
