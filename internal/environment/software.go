package environment

import (
	"strings"

	"github.com/teescope/teescope/internal/machine"
)

// software fills in the kernel, the layers below it and the limits of its processes.
func (s *scene) software() {
	sw := &s.Software
	if sw.Kernel = s.optional("/proc/sys/kernel/osrelease"); sw.Kernel == "" {
		sw.Kernel = s.learned["release"]
	}
	if sw.Kernel == "" {
		s.miss("software.kernel", "/proc/sys/kernel/osrelease does not exist")
	}
	sw.Cmdline = s.text("software.cmdline", "/proc/cmdline")
	if sw.OS = machine.OSName(s.text("software.os", machine.OSReleaseFiles...)); sw.OS == "" {
		s.miss("software.os", "os-release has no name")
	}
	sw.Libc = s.libc()
	if sw.Hypervisor = machine.Hypervisor(s.Host); sw.Hypervisor == "" {
		sw.Hypervisor = "unknown"
		s.miss("software.hypervisor", "this architecture has no CPUID, and /sys/hypervisor/type does not exist")
	}
	sw.ClockSource = s.clock()
	// The harness's assumption. It is replaced if a run drops or bypasses the cache.
	sw.CachePolicy = "as found"
	sw.Limits = map[string]string{}
	if g, err := machine.OwnCgroups(s.Host); err == nil {
		for name, err := range g.Limits(sw.Limits) {
			s.miss("software.limits."+name, "%s", reason(err))
		}
	} else {
		for _, name := range machine.LimitNames {
			s.miss("software.limits."+name, "%s", reason(err))
		}
	}
	if in := machine.Container(s.Host); in != "" {
		sw.Limits["container"] = in
	}
}

// libc returns the environment's C library. The worker is static and does not use it.
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

// clock returns the kernel's clock source.
func (s *scene) clock() string {
	const field = "software.clock_source"
	v := s.text(field, "/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if ns := s.learned["clock_resolution_nanoseconds"]; v == "" && ns != "" {
		s.Missing[field] += "; CLOCK_MONOTONIC has a resolution of " + ns + " ns"
	}
	return v
}
