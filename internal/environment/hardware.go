package environment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

const cpuDir = machine.CPUDir

// cpu fills in the known facts about the processors.
func (s *scene) cpu() {
	info, _ := machine.ReadCPUInfo(s.Host)
	s.model(info)
	s.topology(info)
	if s.Hardware.CacheBytes = machine.Caches(s.Host); len(s.Hardware.CacheBytes) == 0 {
		s.miss("hardware.cache_bytes", "neither %scpu0/cache nor CPUID lists caches", cpuDir)
	}
	s.switches()
}

func (s *scene) model(info machine.CPUInfo) {
	hw, c := &s.Hardware, machine.IdentifyCPU(s.Host, info)
	hw.CPUVendor, hw.CPUModel, hw.CPUFamily, hw.Microcode = c.Vendor, c.Model, c.Family, c.Microcode
	// KVM's default if no revision is given.
	if hw.Microcode == "0xffffffff" {
		hw.Microcode = ""
		s.miss("hardware.microcode", "the hypervisor hides the revision")
	}
	for field, v := range map[string]string{"cpu_vendor": hw.CPUVendor, "cpu_model": hw.CPUModel, "cpu_family": hw.CPUFamily} {
		if v == "" {
			s.miss("hardware."+field, "neither CPUID nor /proc/cpuinfo has it")
		}
	}
	if hw.Microcode == "" {
		s.miss("hardware.microcode", "/proc/cpuinfo has no such line")
	}
}

// topology counts CPUs, sockets, threads of a core and NUMA nodes.
func (s *scene) topology(info machine.CPUInfo) {
	hw, t := &s.Hardware, machine.ReadTopology(s.Host, info)
	hw.CPUs, hw.Sockets, hw.ThreadsPerCore, hw.NUMANodes = t.CPUs, t.Sockets, t.ThreadsPerCore, t.NUMANodes
	if hw.CPUs == 0 {
		hw.CPUs, _ = strconv.Atoi(s.learned["cpus"])
	}
	if hw.CPUs == 0 {
		s.miss("hardware.cpus", "neither %sonline nor /proc/cpuinfo lists them", cpuDir)
	}
	if hw.Sockets == 0 {
		s.miss("hardware.sockets", "the kernel does not report the package of a CPU")
	}
	if hw.ThreadsPerCore == 0 {
		s.miss("hardware.threads_per_core", "neither %scpu*/topology nor /proc/cpuinfo lists them", cpuDir)
	}
	if hw.NUMANodes == 0 {
		s.miss("hardware.numa_nodes", "/sys/devices/system/node does not exist")
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

// switches are the settings that affect a CPU's speed.
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
	case noTurbo != "" || boost != "":
		s.miss("hardware.turbo", "unknown: intel_pstate/no_turbo is %q, cpufreq/boost is %q", noTurbo, boost)
	default:
		s.miss("hardware.turbo", "the kernel has no switch for it (neither intel_pstate/no_turbo nor cpufreq/boost)")
	}
	var failed map[string]error
	hw.Mitigations, failed = machine.Mitigations(s.Host)
	for name, v := range hw.Mitigations {
		if v == "" {
			delete(hw.Mitigations, name)
			failed[name] = fmt.Errorf("%svulnerabilities/%s is empty", cpuDir, name)
		}
	}
	for name, err := range failed {
		s.miss("hardware.mitigations."+name, "%s", reason(err))
	}
	if len(hw.Mitigations)+len(failed) == 0 {
		s.miss("hardware.mitigations", "%svulnerabilities does not exist", cpuDir)
	}
}

func (s *scene) memory() {
	hw := &s.Hardware
	info, _ := machine.Meminfo(s.Host)
	for _, m := range []struct {
		line, field string
		to          *int64
	}{{"MemTotal", "memory_bytes", &hw.MemoryBytes}, {"SwapTotal", "swap_bytes", &hw.SwapBytes}} {
		v, ok := info[m.line]
		if !ok || v >= 1<<63 {
			s.miss("hardware."+m.field, "/proc/meminfo has no line %s", m.line)
			continue
		}
		*m.to = int64(v)
	}
	hw.THP = chosen(s.text("hardware.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"))
	var err error
	if hw.Serial, err = machine.HostID(s.Host); err != nil {
		s.miss("hardware.host_id", "%s", reason(err))
	}
}
