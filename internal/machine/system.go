package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// OSReleaseFiles are the places of os-release(5), the first that exists counts.
var OSReleaseFiles = []string{"/etc/os-release", "/usr/lib/os-release"}

// OSName returns the name of a distribution from the text of os-release(5), or "".
func OSName(release string) string {
	if v := assigned(release, "PRETTY_NAME"); v != "" {
		return v
	}
	return strings.TrimSpace(assigned(release, "NAME") + " " + assigned(release, "VERSION"))
}

// OS returns the name of the machine's distribution, or "".
func OS(h *host.Host) string {
	for _, f := range OSReleaseFiles {
		if s, err := h.ReadString(f); err == nil && s != "" {
			return OSName(s)
		}
	}
	return ""
}

// assigned returns the value of a line NAME="value" of os-release(5).
func assigned(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// Guest reports whether a hypervisor says that it is there: CPUID leaf 1, bit 31
// of ECX, which hardware leaves 0.
func Guest(h *host.Host) bool {
	_, _, ecx, _ := h.CPUID(1, 0)
	return ecx>>31 == 1
}

// HypervisorSignature is the name in CPUID leaf 0x40000000, "" on bare metal.
func HypervisorSignature(h *host.Host) string {
	if !Guest(h) {
		return ""
	}
	_, b, c, d := h.CPUID(0x40000000, 0)
	return strings.TrimRight(Letters(b, c, d), "\x00")
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

// Hypervisor names what the machine runs on: "none" only where the CPU says so,
// "unknown" for a signature that is empty, and "" where nothing can be asked.
// DMI's vendor, which names the machine model, is added in parentheses.
func Hypervisor(h *host.Host) string {
	name := text(h, "/sys/hypervisor/type")
	if last, _, _, _ := h.CPUID(0, 0); last > 0 {
		if !Guest(h) {
			return "none"
		}
		sign := HypervisorSignature(h)
		if name = hypervisors[sign]; name == "" {
			if name = "unknown"; sign != "" {
				name = strings.ToValidUTF8(sign, "?")
			}
		}
	}
	if vendor := text(h, dmi+"sys_vendor"); vendor != "" && name != "" {
		name += " (" + vendor + ")"
	}
	return name
}

// Container names the kind of container that this process runs in, "" if none
// shows. A file that an engine leaves in the root folder is also in a virtual machine made from an image, so it only counts
// where the mounts are a container's.
func Container(h *host.Host) string {
	there := func(name string) bool { ok, err := h.Exists(name); return ok && err == nil }
	groups := text(h, "/proc/self/cgroup")
	switch {
	// gVisor's own kernel reports a version that no other has (pkg/sentry/fsimpl/proc).
	case strings.Contains(text(h, "/proc/cmdline"), "-gvisor"):
		return "gvisor"
	case there("/var/run/secrets/kubernetes.io/serviceaccount") || strings.Contains(groups, "/kubepods"):
		return "kubernetes"
	case there("/run/.containerenv") && containerMounts(h):
		return "podman"
	case there("/.dockerenv") && containerMounts(h):
		return "docker"
	case text(h, "/run/systemd/container") != "":
		return text(h, "/run/systemd/container")
	case strings.Contains(groups, "/docker/"), strings.Contains(groups, "/docker-"):
		return "docker"
	case strings.Contains(groups, "/libpod-"):
		return "podman"
	case strings.Contains(groups, "/lxc"):
		return "lxc"
	}
	return ""
}

// containerMounts reports whether the process's mounts are those of a container, or unknown: its root is an overlay, or the
// engine has mounted its own file over one of the names that it generates (docker run, "Network settings"; podman-run(1)).
func containerMounts(h *host.Host) bool {
	mounts := text(h, "/proc/self/mountinfo")
	if mounts == "" {
		return true
	}
	for line := range strings.Lines(mounts) {
		// ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS] - TYPE SOURCE SUPER (proc_pid_mountinfo(5))
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		_, after, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(after, " ")
		switch fields[4] {
		case "/etc/hosts", "/etc/hostname", "/etc/resolv.conf":
			return true
		case "/":
			if kind == "overlay" || kind == "fuse.fuse-overlayfs" {
				return true
			}
		}
	}
	return false
}

// initUTS is the first namespace of host names (PROC_UTS_INIT_INO in include/linux/proc_ns.h).
const initUTS = "uts:[4026531838]"

// Hostname returns the machine's name. The kernel says each process the name in its own namespace (uts_namespaces(7)), so
// for a process in a container that looks at the machine it is the one in hostname(5). A container in the machine's network
// has the machine's name, too.
func Hostname(h *host.Host) (string, error) {
	link := func(name string) string { s, _ := h.Readlink(name); return s }
	own := link("/proc/self/ns/uts")
	same := func(ns string) bool {
		first := link("/proc/1/ns/" + ns)
		return first != "" && first == link("/proc/self/ns/"+ns)
	}
	if h.Root == "/" || own == "" || own == initUTS || same("uts") || same("net") {
		return h.ReadString("/proc/sys/kernel/hostname")
	}
	const file = "/etc/hostname"
	s, err := h.ReadString(file)
	if err != nil {
		return "", fmt.Errorf("the kernel says a name of this container, not the machine's: %w", err)
	}
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != "localhost" {
			return line, nil
		}
	}
	return "", fmt.Errorf("the kernel says a name of this container, not the machine's, and %s has none", file)
}

// HostID names the machine: a hash of machine-id(5), which survives reboots and
// updates and must not leave the machine in clear. Copies of a disk that share
// an id share the name. In a guest or container with an id of its own it names
// that; the launcher replaces it by the host's. The salt keeps the name apart
// from other programs' hashes of the same id.
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
