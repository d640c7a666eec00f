package environment

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

const cpuDir = "/sys/devices/system/cpu/"

// cpu fills in what is known of processors.
func (s *scene) cpu() {
	info, err := s.ReadString("/proc/cpuinfo")
	if err != nil {
		info = ""
	}
	first := cpuinfo(info)
	s.model(first)
	s.topology(info, first)
	s.caches()
	s.switches()
}

// cpuinfo returns the fields of the first processor of /proc/cpuinfo.
func cpuinfo(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if k = strings.TrimSpace(k); !ok && len(out) > 0 {
			return out
		}
		if ok && out[k] == "" {
			out[k] = strings.TrimSpace(v)
		}
	}
	return out
}

// model asks CPUID first, which a sandbox cannot misreport by mistake; the
// kernel's text stands in on other architectures.
func (s *scene) model(info map[string]string) {
	hw := &s.Hardware
	if last, b, c, d := s.CPUID(0, 0); last > 0 {
		hw.CPUVendor = letters(b, d, c)
		if sign, _, _, _ := s.CPUID(1, 0); sign != 0 {
			hw.CPUFamily = signature(sign)
		}
	}
	if last, _, _, _ := s.CPUID(0x80000000, 0); last >= 0x80000004 {
		for leaf := uint32(0x80000002); leaf <= 0x80000004; leaf++ {
			a, b, c, d := s.CPUID(leaf, 0)
			hw.CPUModel += letters(a, b, c, d)
		}
		hw.CPUModel = strings.Join(strings.Fields(strings.ReplaceAll(hw.CPUModel, "\x00", " ")), " ")
	}
	if hw.CPUVendor == "" {
		hw.CPUVendor = info["vendor_id"]
	}
	if hw.CPUModel == "" && info["model name"] != "unknown" {
		hw.CPUModel = info["model name"]
	}
	if hw.CPUFamily == "" && info["cpu family"] != "" {
		hw.CPUFamily = info["cpu family"] + "-" + info["model"] + "-" + info["stepping"]
	}
	if arm := info["CPU implementer"]; arm != "" { // arch/arm64/kernel/cpuinfo.c
		hw.CPUVendor = arm
		hw.CPUFamily = info["CPU architecture"] + "-" + info["CPU part"] + "-" + info["CPU variant"] + "." + info["CPU revision"]
		hw.CPUModel = "implementer " + arm + " part " + info["CPU part"]
	}
	hw.Microcode = info["microcode"]
	if v := s.optional(cpuDir + "cpu0/microcode/version"); hw.Microcode == "" {
		hw.Microcode = v
	}
	// What KVM answers where it was told no revision.
	if hw.Microcode == "0xffffffff" {
		hw.Microcode = ""
		s.miss("hardware.microcode", "the hypervisor hides the revision")
	}
	const silent = "neither CPUID nor /proc/cpuinfo says"
	for field, v := range map[string]string{"cpu_vendor": hw.CPUVendor, "cpu_model": hw.CPUModel, "cpu_family": hw.CPUFamily} {
		if v == "" {
			s.miss("hardware."+field, silent)
		}
	}
	if hw.Microcode == "" {
		s.miss("hardware.microcode", "/proc/cpuinfo has no such line")
	}
}

// letters spells registers as CPUID signatures do.
func letters(regs ...uint32) string {
	var b []byte
	for _, r := range regs {
		b = binary.LittleEndian.AppendUint32(b, r)
	}
	return string(b)
}

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

// topology counts CPUs, sockets, threads of a core and NUMA nodes.
func (s *scene) topology(info string, first map[string]string) {
	hw := &s.Hardware
	listed := 0
	sockets := map[string]bool{}
	for line := range strings.Lines(info) {
		switch k, v, _ := strings.Cut(line, ":"); strings.TrimSpace(k) {
		case "processor":
			listed++
		case "physical id":
			sockets[strings.TrimSpace(v)] = true
		}
	}
	if v, err := count(s.optional(cpuDir + "online")); err == nil {
		hw.CPUs = v
	} else if hw.CPUs = listed; listed == 0 {
		if hw.CPUs, _ = strconv.Atoi(s.learned["cpus"]); hw.CPUs == 0 {
			s.miss("hardware.cpus", "neither %sonline nor /proc/cpuinfo lists them", cpuDir)
		}
	}
	packages := map[string]bool{}
	files, _ := s.Glob(cpuDir + "cpu[0-9]*/topology/physical_package_id")
	for _, f := range files {
		if v := s.optional(f); v != "" && v != "-1" { // -1: the kernel was not told
			packages[v] = true
		}
	}
	if len(packages) == 0 {
		packages = sockets
	}
	if hw.Sockets = len(packages); hw.Sockets == 0 {
		s.miss("hardware.sockets", "the kernel does not say to which package a CPU belongs")
	}
	siblings, _ := strconv.Atoi(first["siblings"])
	cores, _ := strconv.Atoi(first["cpu cores"])
	files, _ = s.Glob(cpuDir + "cpu[0-9]*/topology/thread_siblings_list")
	for _, f := range files { // the first that is online
		if n, err := count(s.optional(f)); err == nil {
			siblings, cores = n, 1
			break
		}
	}
	if cores > 0 && siblings > 0 {
		hw.ThreadsPerCore = siblings / cores
	}
	if hw.ThreadsPerCore == 0 {
		s.miss("hardware.threads_per_core", "neither %scpu*/topology nor /proc/cpuinfo says", cpuDir)
	}
	nodes, _ := s.Glob("/sys/devices/system/node/node[0-9]*/cpulist")
	if hw.NUMANodes = len(nodes); hw.NUMANodes == 0 {
		s.miss("hardware.numa_nodes", "/sys/devices/system/node is not there")
	}
	hw.Affinity = s.learned["affinity"]
	if hw.Affinity == "" {
		hw.Affinity = field(s.Host, "/proc/self/status", "Cpus_allowed_list")
	}
	if hw.Affinity == "" {
		s.miss("hardware.affinity", "/proc/self/status has no line Cpus_allowed_list")
	}
}

// field returns the value of a line "name: value" of a file, or "".
func field(h *host.Host, file, name string) string {
	text, _ := h.ReadString(file)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// switches are the settings that change a CPU's speed.
func (s *scene) switches() {
	hw := &s.Hardware
	hw.SMT = s.text("hardware.smt", cpuDir+"smt/control")
	files, _ := s.Glob(cpuDir + "cpu[0-9]*/cpufreq/scaling_governor")
	var governors []string
	for _, f := range files {
		if g := s.optional(f); g != "" && !slices.Contains(governors, g) {
			governors = append(governors, g)
		}
	}
	slices.Sort(governors)
	if hw.Governor = strings.Join(governors, ","); hw.Governor == "" {
		s.miss("hardware.governor", "no cpufreq driver: the kernel does not set the frequency (usual in a virtual machine)")
	}
	switch noTurbo, boost := s.optional(cpuDir+"intel_pstate/no_turbo"), s.optional(cpuDir+"cpufreq/boost"); {
	case noTurbo == "0" || noTurbo == "" && boost == "1":
		hw.Turbo = "on"
	case noTurbo == "1" || boost == "0":
		hw.Turbo = "off"
	default:
		s.miss("hardware.turbo", "the kernel has no switch for it (neither intel_pstate/no_turbo nor cpufreq/boost)")
	}
	const weaknesses = cpuDir + "vulnerabilities"
	hw.Mitigations = map[string]string{}
	files, _ = s.Glob(weaknesses + "/*")
	for _, f := range files {
		name := path.Base(f)
		if v := s.text("hardware.mitigations."+name, f); v != "" {
			hw.Mitigations[name] = v
		}
	}
	if len(files) == 0 {
		s.miss("hardware.mitigations", "%s is not there", weaknesses)
	}
}

// caches reads the sizes that CPU 0 sees, from the kernel or, where that shows
// none, from CPUID: leaf 4 of Intel and 0x8000001D of AMD have the same form
// (Intel SDM volume 2A; AMD APM volume 3, E.4.15).
func (s *scene) caches() {
	hw := &s.Hardware
	hw.CacheBytes = map[string]int64{}
	suffix := map[string]string{"Data": "d", "Instruction": "i", "Unified": ""}
	dirs, _ := s.Glob(cpuDir + "cpu0/cache/index*/level")
	for _, level := range dirs {
		dir := path.Dir(level)
		kind, ok := suffix[s.optional(dir+"/type")]
		size, err := binarySize(s.optional(dir + "/size"))
		if ok && err == nil {
			hw.CacheBytes["L"+s.optional(level)+kind] = size
		}
	}
	for _, leaf := range []uint32{4, 0x8000001d} {
		for sub := uint32(0); sub < 16 && len(dirs) == 0; sub++ {
			a, b, c, _ := s.CPUID(leaf, sub)
			if a&31 == 0 {
				break
			}
			kind := []string{"", "d", "i", ""}[a&3]
			size := int64(b>>22+1) * int64(b>>12&0x3ff+1) * int64(b&0xfff+1) * int64(c+1)
			hw.CacheBytes[fmt.Sprintf("L%d%s", a>>5&7, kind)] = size
		}
	}
	if len(hw.CacheBytes) == 0 {
		s.miss("hardware.cache_bytes", "neither %scpu0/cache nor CPUID says", cpuDir)
	}
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

func (s *scene) memory() {
	hw := &s.Hardware
	for _, m := range []struct {
		line, field string
		to          *int64
	}{{"MemTotal", "memory_bytes", &hw.MemoryBytes}, {"SwapTotal", "swap_bytes", &hw.SwapBytes}} {
		kib, err := strconv.ParseInt(strings.TrimSuffix(field(s.Host, "/proc/meminfo", m.line), " kB"), 10, 53)
		if err != nil {
			s.miss("hardware."+m.field, "/proc/meminfo has no line %s", m.line)
			continue
		}
		*m.to = kib << 10
	}
	hw.THP = chosen(s.text("hardware.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"))
	var err error
	if hw.Serial, err = HostID(s.Host); err != nil {
		s.miss("hardware.host_id", "%s", reason(err))
	}
}
