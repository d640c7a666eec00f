package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// software fills in the kernel, what is below it and what limits its processes.
func (s *scene) software() {
	sw := &s.Software
	if sw.Kernel = s.optional("/proc/sys/kernel/osrelease"); sw.Kernel == "" {
		sw.Kernel = s.learned["release"]
	}
	if sw.Kernel == "" {
		s.miss("software.kernel", "/proc/sys/kernel/osrelease is not there")
	}
	sw.Cmdline = s.text("software.cmdline", "/proc/cmdline")
	release := s.text("software.os", "/etc/os-release", "/usr/lib/os-release")
	if sw.OS = assigned(release, "PRETTY_NAME"); sw.OS == "" {
		if sw.OS = strings.TrimSpace(assigned(release, "NAME") + " " + assigned(release, "VERSION")); sw.OS == "" {
			s.miss("software.os", "os-release has no name")
		}
	}
	sw.Libc = s.libc()
	sw.Hypervisor = s.hypervisor()
	sw.ClockSource = s.clock()
	// What the harness finds. It replaces this where a run drops or bypasses the cache.
	sw.CachePolicy = "as found"
	sw.Limits = map[string]string{}
	if g, err := ownGroups(s.Host); err == nil {
		for name, err := range g.limits(sw.Limits) {
			s.miss("software.limits."+name, "%s", reason(err))
		}
	} else {
		for _, name := range limitNames {
			s.miss("software.limits."+name, "%s", reason(err))
		}
	}
	if in := s.container(); in != "" {
		sw.Limits["container"] = in
	}
}

// assigned returns the value of a line NAME="value" of os-release(5).
func assigned(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}

// libc is the environment's C library. The worker is static and uses none.
func (s *scene) libc() string {
	// "GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36."
	if _, v, ok := strings.Cut(s.learned["libc"], "release version "); ok {
		version, _, _ := strings.Cut(strings.TrimRight(v, "."), ",")
		return "glibc " + version
	}
	if s.learned["libc"] == "musl" {
		return "musl"
	}
	why := "only the worker looks for it"
	if s.learned["worker"] != "" {
		why = "no glibc and no musl in the usual places (the worker needs none: " + s.learned["worker"] + ")"
	}
	s.miss("software.libc", "%s", why)
	return ""
}

// hypervisors are the signatures of CPUID leaf 0x40000000 (kernel
// arch/x86/kernel/cpu/hypervisor.c and its members; systemd's virt.c).
var hypervisors = map[string]string{
	"KVMKVMKVM":    "KVM",
	"Linux KVM Hv": "KVM", // with Hyper-V enlightenments
	"TCGTCGTCGTCG": "QEMU TCG",
	"Microsoft Hv": "Hyper-V",
	"VMwareVMware": "VMware",
	"XenVMMXenVMM": "Xen",
	"VBoxVBoxVBox": "VirtualBox",
	"bhyve bhyve ": "bhyve",
	"ACRNACRNACRN": "ACRN",
	"QNXQVMBSQG":   "QNX",
	"Jailhouse":    "Jailhouse",
	"SRESRESRESRE": "LMHS",
	"prl hyperv  ": "Parallels",
}

// hypervisor is "none" only where the CPU says so. DMI's vendor, which names the
// machine model, is added where there is one.
func (s *scene) hypervisor() string {
	const field = "software.hypervisor"
	name := ""
	if last, _, _, _ := s.CPUID(0, 0); last > 0 {
		if _, _, c, _ := s.CPUID(1, 0); c>>31 == 0 {
			return "none"
		}
		_, b, c, d := s.CPUID(0x40000000, 0)
		sign := strings.TrimRight(letters(b, c, d), "\x00")
		if name = hypervisors[sign]; name == "" {
			if name = "unknown"; sign != "" {
				name = strings.ToValidUTF8(sign, "?")
			}
		}
	} else if kind := s.optional("/sys/hypervisor/type"); kind != "" {
		name = kind
	} else {
		s.miss(field, "no CPUID to ask")
		return "unknown"
	}
	if vendor := s.optional(dmi + "sys_vendor"); vendor != "" {
		name += " (" + vendor + ")"
	}
	return name
}

// clock is the kernel's clock source.
func (s *scene) clock() string {
	const field = "software.clock_source"
	v := s.text(field, "/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if ns := s.learned["clock_resolution_nanoseconds"]; v == "" && ns != "" {
		s.Missing[field] += "; CLOCK_MONOTONIC has a resolution of " + ns + " ns"
	}
	return v
}

// container names the kind of container that this is, "" for none that shows.
func (s *scene) container() string {
	there := func(name string) bool { ok, err := s.Exists(name); return ok && err == nil }
	groups := s.optional("/proc/self/cgroup")
	switch {
	// gVisor's own kernel, which shows the version of none that ever was
	// (pkg/sentry/fsimpl/proc).
	case strings.Contains(s.optional("/proc/cmdline"), "-gvisor"):
		return "gvisor"
	case there("/var/run/secrets/kubernetes.io/serviceaccount") || strings.Contains(groups, "/kubepods"):
		return "kubernetes"
	case there("/run/.containerenv"):
		return "podman"
	case there("/.dockerenv"):
		return "docker"
	case s.optional("/run/systemd/container") != "":
		return s.optional("/run/systemd/container")
	case strings.Contains(groups, "/docker/"), strings.Contains(groups, "/docker-"):
		return "docker"
	case strings.Contains(groups, "/libpod-"):
		return "podman"
	case strings.Contains(groups, "/lxc"):
		return "lxc"
	}
	return ""
}

// HostID names the machine behind h: a hash of machine-id(5), which stays over
// reboots and updates and must not leave the machine in clear. Copies of a disk
// that were never given a new id cannot be told apart. Seen from a guest or a
// container with an id of its own it names that; who started it here knows better
// and puts this machine's in its place. The salt keeps the name apart from other
// programs' hashes of the same id.
func HostID(h *host.Host) (string, error) {
	const file = "/etc/machine-id"
	id, err := h.ReadString(file)
	switch {
	case err != nil:
		return "", err
	case id == "" || id == "uninitialized":
		return "", errors.New(file + " is not set")
	}
	sum := sha256.Sum256([]byte("teescope host identity 1\x00" + id))
	return hex.EncodeToString(sum[:8]), nil
}
