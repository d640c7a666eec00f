package calibrate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// Fingerprint is what the costs of a host depend on, as the machine says it. Two
// that are equal are taken for the same machine. What cannot be read is "".
type Fingerprint struct {
	// CPU is vendor, model, stepping and microcode as /proc/cpuinfo has them.
	CPU string `json:"cpu"`
	// Kernel is its release and build.
	Kernel string `json:"kernel"`
	// Mitigations are the files below /sys/devices/system/cpu/vulnerabilities: what
	// entering and leaving the kernel has to do besides.
	Mitigations map[string]string `json:"mitigations"`
	// Hypervisor is the name that it gives itself, "" on bare metal.
	Hypervisor string `json:"hypervisor"`
	// TEE is what the machine is protected by.
	TEE string `json:"tee"`
}

const vulnerabilities = "/sys/devices/system/cpu/vulnerabilities"

// Identify reads a machine's fingerprint; tee is its TEE in words.
func Identify(h *host.Host, tee string) Fingerprint {
	f := Fingerprint{TEE: tee, Hypervisor: hypervisor(h), Mitigations: map[string]string{}}
	cpuinfo, _ := h.ReadFile("/proc/cpuinfo")
	f.CPU = processor(cpuinfo)
	release, _ := h.ReadString("/proc/sys/kernel/osrelease")
	build, _ := h.ReadString("/proc/sys/kernel/version")
	f.Kernel = strings.TrimSpace(release + " " + build)
	files, _ := h.ReadDir(vulnerabilities)
	for _, e := range files {
		if s, err := h.ReadString(path.Join(vulnerabilities, e.Name())); err == nil {
			f.Mitigations[e.Name()] = s
		}
	}
	return f
}

// processor joins what /proc/cpuinfo says of the first CPU.
func processor(cpuinfo []byte) string {
	var out []string
	first, _, _ := bytes.Cut(cpuinfo, []byte("\n\n"))
	for line := range bytes.Lines(first) {
		key, value, _ := strings.Cut(string(line), ":")
		switch key = strings.TrimSpace(key); key {
		case "vendor_id", "cpu family", "model", "model name", "stepping", "microcode",
			"CPU implementer", "CPU variant", "CPU part", "CPU revision":
			out = append(out, key+" "+strings.TrimSpace(value))
		}
	}
	return strings.Join(out, ", ")
}

// guest reports whether a hypervisor says that it is there (CPUID leaf 1, bit 31
// of ecx, which hardware leaves 0).
func guest(h *host.Host) bool {
	_, _, ecx, _ := h.CPUID(1, 0)
	return ecx>>31 == 1
}

// hypervisor is the twelve bytes of CPUID leaf 0x40000000.
func hypervisor(h *host.Host) string {
	if !guest(h) {
		return ""
	}
	_, ebx, ecx, edx := h.CPUID(0x40000000, 0)
	b := binary.LittleEndian.AppendUint32(nil, ebx)
	b = binary.LittleEndian.AppendUint32(b, ecx)
	b = binary.LittleEndian.AppendUint32(b, edx)
	return strings.ToValidUTF8(strings.TrimRight(string(b), "\x00 "), "?")
}

// differs names the first thing that is not as it was.
func (f Fingerprint) differs(now Fingerprint) string {
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
