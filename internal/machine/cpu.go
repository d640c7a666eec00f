package machine

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// CPU identifies a processor. Empty fields are unknown.
type CPU struct {
	Vendor, Model string
	Family        string // family-model-stepping
	Microcode     string // "0xffffffff" where a hypervisor hides it
}

// IdentifyCPU asks CPUID first, which a sandbox does not rewrite; /proc/cpuinfo
// is the source on other architectures.
func IdentifyCPU(h *host.Host, info CPUInfo) CPU {
	var c CPU
	if last, b, cx, d := h.CPUID(0, 0); last > 0 {
		c.Vendor = Letters(b, d, cx)
		if sign, _, _, _ := h.CPUID(1, 0); sign != 0 {
			c.Family = signature(sign)
		}
	}
	if last, _, _, _ := h.CPUID(0x80000000, 0); last >= 0x80000004 {
		for leaf := uint32(0x80000002); leaf <= 0x80000004; leaf++ {
			c.Model += Letters(regs(h.CPUID(leaf, 0))...)
		}
		c.Model = strings.Join(strings.Fields(strings.ReplaceAll(c.Model, "\x00", " ")), " ")
	}
	first := info.First().Map()
	if c.Vendor == "" {
		c.Vendor = first["vendor_id"]
	}
	if c.Model == "" && first["model name"] != "unknown" {
		c.Model = first["model name"]
	}
	if c.Family == "" && first["cpu family"] != "" {
		c.Family = first["cpu family"] + "-" + first["model"] + "-" + first["stepping"]
	}
	if arm := first["CPU implementer"]; arm != "" { // arch/arm64/kernel/cpuinfo.c
		c.Vendor = arm
		c.Family = first["CPU architecture"] + "-" + first["CPU part"] + "-" + first["CPU variant"] + "." + first["CPU revision"]
		c.Model = "implementer " + arm + " part " + first["CPU part"]
	}
	if c.Microcode = first["microcode"]; c.Microcode == "" {
		c.Microcode = text(h, CPUDir+"cpu0/microcode/version")
	}
	return c
}

func regs(a, b, c, d uint32) []uint32 { return []uint32{a, b, c, d} }

// signature is family-model-stepping as the kernel computes it from CPUID leaf 1
// EAX (Intel SDM volume 2A, figure 3-6; arch/x86/lib/cpu.c).
func signature(eax uint32) string {
	family, model := eax>>8&0xf, eax>>4&0xf
	if family == 0xf {
		family += eax >> 20 & 0xff
	}
	if family >= 6 {
		model += eax >> 16 & 0xf << 4
	}
	return fmt.Sprintf("%d-%d-%d", family, model, eax&0xf)
}

// Topology counts processors. 0 is unknown.
type Topology struct{ CPUs, Sockets, ThreadsPerCore, NUMANodes int }

// ReadTopology reads sysfs, and /proc/cpuinfo where sysfs has no answer.
func ReadTopology(h *host.Host, info CPUInfo) Topology {
	var t Topology
	if online, err := OnlineCPUs(h); err == nil {
		t.CPUs = len(online)
	}
	if t.CPUs == 0 {
		t.CPUs = info.Processors()
	}
	packages := map[string]bool{}
	files, _ := h.Glob(CPUDir + "cpu[0-9]*/topology/physical_package_id")
	for _, f := range files {
		if v := text(h, f); v != "" && v != "-1" { // -1: unknown to the kernel
			packages[v] = true
		}
	}
	if len(packages) == 0 {
		for k, v := range info.Fields() {
			if k == "physical id" {
				packages[v] = true
			}
		}
	}
	t.Sockets = len(packages)
	first := info.First().Map()
	siblings, _ := strconv.Atoi(first["siblings"])
	cores, _ := strconv.Atoi(first["cpu cores"])
	files, _ = h.Glob(CPUDir + "cpu[0-9]*/topology/thread_siblings_list")
	for _, f := range files { // the first that is online
		if list, err := ReadCPUList(h, f); err == nil && len(list) > 0 {
			siblings, cores = len(list), 1
			break
		}
	}
	if cores > 0 && siblings > 0 {
		t.ThreadsPerCore = siblings / cores
	}
	nodes, _ := h.Glob("/sys/devices/system/node/node[0-9]*/cpulist")
	t.NUMANodes = len(nodes)
	return t
}

// Caches returns the sizes in bytes that CPU 0 sees, by name ("L1d", "L2"), from
// the kernel or, where that shows none, from CPUID: leaf 4 of Intel and
// 0x8000001D of AMD have the same form (Intel SDM volume 2A; AMD APM volume 3,
// E.4.15).
func Caches(h *host.Host) map[string]int64 {
	out := map[string]int64{}
	suffix := map[string]string{"Data": "d", "Instruction": "i", "Unified": ""}
	dirs, _ := h.Glob(CPUDir + "cpu0/cache/index*/level")
	for _, level := range dirs {
		dir := path.Dir(level)
		kind, ok := suffix[text(h, dir+"/type")]
		size, err := binarySize(text(h, dir+"/size"))
		if ok && err == nil {
			out["L"+text(h, level)+kind] = size
		}
	}
	for _, leaf := range []uint32{4, 0x8000001d} {
		for sub := uint32(0); sub < 16 && len(dirs) == 0; sub++ {
			a, b, c, _ := h.CPUID(leaf, sub)
			if a&31 == 0 {
				break
			}
			kind := []string{"", "d", "i", ""}[a&3]
			size := int64(b>>22+1) * int64(b>>12&0x3ff+1) * int64(b&0xfff+1) * int64(c+1)
			out[fmt.Sprintf("L%d%s", a>>5&7, kind)] = size
		}
	}
	return out
}

// binarySize reads a size like 48K or 2M.
func binarySize(v string) (int64, error) {
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, ok := strings.CutSuffix(v, unit); ok {
			v, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(v, 10, 32)
	return n << shift, err
}

// Mitigations returns the kernel's words on each CPU vulnerability, by name, and
// the files that could not be read.
func Mitigations(h *host.Host) (found map[string]string, failed map[string]error) {
	found, failed = map[string]string{}, map[string]error{}
	files, _ := h.Glob(CPUDir + "vulnerabilities/*")
	for _, f := range files {
		if v, err := h.ReadString(f); err != nil {
			failed[path.Base(f)] = err
		} else {
			found[path.Base(f)] = v
		}
	}
	return found, failed
}
