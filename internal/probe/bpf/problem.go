package bpf

// Why an object cannot be loaded, in words that help: missing BTF, missing capabilities, locked memory, lockdown. Each
// problem has a remedy where there is one.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
)

// noTypes is the problem of a kernel that does not describe its types.
func noTypes(err error) error {
	return &probe.Problem{
		Err:    fmt.Errorf("read the kernel's type information (BTF): %w", err),
		Remedy: "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y; sources that read files go on without it",
	}
}

// refused explains why the kernel rejected an object or some of its hooks.
func refused(h *host.Host, object string, err error) error {
	var verifier *ebpf.VerifierError
	reason := err
	if errors.As(err, &verifier) && len(verifier.Log) > 0 && host.Shortage(err) == "" {
		reason = fmt.Errorf("the kernel's verifier refused it: %s: %w", lastLine(verifier.Log), oneLine{verifier.Cause})
	}
	p := &probe.Problem{Err: fmt.Errorf("load %s into the kernel: %w", object, oneLine{reason})}
	locked, _ := h.ReadString("/sys/kernel/security/lockdown")
	paranoid, _ := h.ReadUint("/proc/sys/kernel/perf_event_paranoid")
	switch {
	case probe.Remedy(err) != "": // a shortage, too
		p.Remedy = probe.Remedy(err)
	// If one of the library's own probes is refused, it suspects an old kernel.
	case (errors.Is(err, unix.EPERM) || errors.Is(err, ebpf.ErrNotSupported)) && !capable():
		p.Remedy = "run as root, or grant CAP_BPF and CAP_PERFMON"
	// Calls that the program may not make there are refused as invalid, too.
	case (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)) && strings.Contains(locked, "[confidentiality]"):
		p.Remedy = "kernel lockdown is in confidentiality mode; boot with lockdown=integrity or none"
	case errors.Is(err, unix.EPERM):
		p.Remedy = "a security module, a user namespace, or a seccomp filter of the container forbids bpf(2); allow it"
	case errors.Is(err, unix.EACCES) && paranoid > 2:
		p.Remedy = "set the sysctl kernel.perf_event_paranoid to 2, or run as root: at 3, Debian's kernels let no one but CAP_SYS_ADMIN open a perf event"
	case errors.Is(err, unix.ENOMEM):
		p.Remedy = "give the process's control group more memory"
	default:
		p.Remedy = "report the message together with the kernel's version"
	}
	return p
}

// descriptorCount returns the number of file descriptors that an object needs, of which some are closed again when it is open: for each
// map and its copies, for the programs of each level and their links, and for what the library finds out.
func descriptorCount(spec *ebpf.CollectionSpec, hooks, levels int) int {
	const library = 8
	return 2*len(spec.Maps) + hooks*(max(1, levels)+1) + library
}

// capable reports whether this process may load tracing programs: CAP_BPF and
// CAP_PERFMON, or CAP_SYS_ADMIN, in its effective set (capget(2)).
func capable() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	has := func(c uint) bool { return data[c/32].Effective>>(c%32)&1 == 1 }
	return has(unix.CAP_SYS_ADMIN) || has(unix.CAP_BPF) && has(unix.CAP_PERFMON)
}

// oneLine puts a multi-line error, as from errors.Join, on one line.
type oneLine struct{ error }

func (e oneLine) Error() string {
	// The library's guess is about kernels before 5.11, which are too old anyway.
	s := strings.ReplaceAll(e.error.Error(), " (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", "")
	return strings.ReplaceAll(s, "\n", "; ")
}

// Unwrap makes errors.Is see the cause.
func (e oneLine) Unwrap() error { return e.error }

// lastLine is the line of a verifier log with the fault; the statistics after it start
// with "processed".
func lastLine(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(log[i]); s != "" && !strings.HasPrefix(s, "processed ") {
			return s
		}
	}
	return ""
}
