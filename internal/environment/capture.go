package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/host"
)

// Paths returns the patterns for the worker's mode capture: everything that this package and the detectors of package
// tee/kinds read. "@cgroup/FILE" is the file of that name in the worker's own cgroups and in those above them.
func Paths() []string { return slices.Clone(paths) }

var paths = strings.Fields(`
	/proc/cpuinfo /proc/meminfo /proc/cmdline /proc/sys/kernel/osrelease
	/proc/self/cgroup /proc/self/mountinfo /proc/self/status
	/proc/driver/nvidia /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information
	/etc/machine-id /etc/os-release /usr/lib/os-release
	/.dockerenv /run/.containerenv /run/systemd/container /var/run/secrets/kubernetes.io/serviceaccount
	/run/cloud-init/instance-data.json

	/sys/devices/system/cpu/online /sys/devices/system/cpu/smt/control /sys/devices/system/cpu/vulnerabilities/*
	/sys/devices/system/cpu/intel_pstate/no_turbo /sys/devices/system/cpu/cpufreq/boost
	/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor
	/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id
	/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list
	/sys/devices/system/cpu/cpu0/microcode/version
	/sys/devices/system/cpu/cpu0/cache/index*/level
	/sys/devices/system/cpu/cpu0/cache/index*/type
	/sys/devices/system/cpu/cpu0/cache/index*/size
	/sys/devices/system/node/node[0-9]*/cpulist
	/sys/devices/system/clocksource/clocksource0/current_clocksource
	/sys/kernel/mm/transparent_hugepage/enabled

	/proc/devices /sys/block/*/dev /sys/block/*/size /sys/block/*/device/model /sys/block/*/dm/uuid /sys/block/*/queue/rotational
	/sys/block/*/queue/scheduler /sys/block/*/queue/write_cache
	/sys/class/net/*/mtu /sys/class/net/*/speed /sys/class/net/*/uevent /sys/class/net/*/device/driver
	/sys/bus/pci/devices/*/class /sys/bus/pci/devices/*/vendor /sys/bus/pci/devices/*/device /sys/bus/pci/devices/*/driver
	/sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name /sys/class/dmi/id/bios_vendor
	/sys/class/dmi/id/bios_version /sys/class/dmi/id/chassis_asset_tag
	/sys/hypervisor/type

	/dev/sgx_enclave /dev/sgx_provision /dev/sgx_vepc /dev/sgx /dev/sgx/enclave /dev/isgx
	/dev/tdx_guest /dev/sev-guest /sys/devices/system/cpu/sev/vmpl
	/sys/module/isgx /sys/module/isgx/version /sys/module/intel_sgx /sys/module/intel_sgx/version
	/dev/nitro_enclaves /dev/nsm /sys/class/misc/nsm
	/sys/module/nitro_enclaves /sys/module/nitro_enclaves/parameters/ne_cpus
	/sys/firmware/uv /sys/firmware/uv/prot_virt_guest /sys/firmware/uv/prot_virt_host
	/sys/devices/platform /sys/devices/platform/arm-cca-dev /sys/module/arm_cca_guest /sys/devices/system/cpu/svm
	/sys/devices/virtual/misc/tdx_guest/measurements/* /sys/kernel/config/tsm/report /sys/kernel/config/tsm/report/*/provider
	/sys/firmware/acpi/tables/CCEL /sys/devices/faux/tdx_host/version
	/sys/module/kvm_amd/parameters/* /sys/module/kvm_intel/parameters/tdx /proc/sgx_stats
	/sys/kernel/debug/swiotlb /sys/kernel/debug/swiotlb/io_tlb_nslabs

	@cgroup/cpu.max @cgroup/memory.max @cgroup/memory.swap.max @cgroup/pids.max @cgroup/cpuset.cpus.effective
	@cgroup/cpu.cfs_quota_us @cgroup/cpu.cfs_period_us @cgroup/memory.limit_in_bytes @cgroup/cpuset.effective_cpus
	@cgroup/cpuset.cpus
`)

// factsFile is where Unpack stores what the worker learned by system calls, as lines "name value".
const factsFile = "/.teescope-facts"

// The limits of a capture. The worker truncates files at a MiB; the others keep a broken or hostile environment from
// filling the disk.
const (
	maxEntries = 100_000
	MaxBytes   = 256 << 20 // of a capture
)

// Entry kinds, as the worker writes them.
const (
	kindFile  = "file"
	kindPart  = "part"
	kindLink  = "link"
	kindDir   = "dir"
	kindNode  = "node"
	kindError = "error"
)

// Entry is one path of a capture.
type Entry struct {
	Kind string // "file", "part" (its first MiB), "link", "dir", "node", "error"
	Path string // absolute and clean
	// Data is the contents of a file or the target of a link.
	Data []byte
	// Err is why an "error" could not be read or examined.
	Err error
}

// Contents is a capture, parsed.
type Contents struct {
	CPUID map[[2]uint32][4]uint32 // by leaf and subleaf
	// MSR are registers of CPU 0; NoMSR says why one could not be read.
	MSR   map[uint32]uint64
	NoMSR map[uint32]error
	Facts map[string]string
	// Entries have different paths, and none is below another's file or link.
	Entries []Entry
}

// Parse reads the output of the worker's mode capture; its format is described there. It skips text before the
// capture's first line, because a console also shows the kernel's messages. It fails on a truncated or damaged
// capture.
func Parse(capture []byte) (*Contents, error) {
	c := &Contents{CPUID: map[[2]uint32][4]uint32{}, MSR: map[uint32]uint64{}, NoMSR: map[uint32]error{}, Facts: map[string]string{}}
	seen := map[string]bool{}
	count, size, begun := 0, 0, false
	for line := range bytes.Lines(capture) {
		text, ended := strings.CutSuffix(string(line), "\n")
		text = strings.TrimSuffix(text, "\r")
		if !begun {
			begun = text == "capture 1"
			continue
		}
		if rest, ok := strings.CutPrefix(text, "end "); ok {
			if n, err := strconv.Atoi(rest); err != nil || n != count || !ended {
				return nil, fmt.Errorf("parse capture: %d entries but its last line is %.40q", count, text)
			}
			return c, c.flat()
		}
		count++
		if size += len(text); count > maxEntries || size > MaxBytes {
			return nil, fmt.Errorf("parse capture: more than %d entries or %d bytes", maxEntries, MaxBytes)
		}
		if err := c.line(text, seen); err != nil {
			return nil, fmt.Errorf("parse capture: entry %d, %.60q: %w", count, text, err)
		}
	}
	if !begun {
		return nil, errors.New(`parse capture: no line "capture 1": not a capture of this version`)
	}
	return nil, fmt.Errorf("parse capture: cut off after %d entries", count)
}

var errForm = errors.New("not in the form of a capture")

func (c *Contents) line(text string, seen map[string]bool) error {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "cpuid":
		n, err := hexadecimal(rest, 6)
		if err != nil {
			return err
		}
		c.CPUID[[2]uint32{uint32(n[0]), uint32(n[1])}] = [4]uint32{uint32(n[2]), uint32(n[3]), uint32(n[4]), uint32(n[5])}
		return nil
	case "msr":
		n, err := hexadecimal(rest, 3)
		if err == nil {
			c.MSR[uint32(n[1])] = n[2]
		}
		return err
	case "nomsr":
		f := strings.SplitN(rest, " ", 4)
		if len(f) < 3 {
			return errForm
		}
		n, err := hexadecimal(strings.Join(f[:2], " "), 2)
		if err != nil {
			return err
		}
		c.NoMSR[uint32(n[1])], err = errno(f[2])
		return err
	case "fact":
		name, val, _ := strings.Cut(rest, " ")
		v, err := unescape(val)
		if err != nil || !utf8.Valid(v) {
			return errForm
		}
		c.Facts[name] = string(v)
		return nil
	case kindFile, kindPart, kindLink, kindDir, kindNode, kindError:
	default:
		return errForm
	}
	escaped, data, _ := strings.Cut(rest, " ")
	name, err := unescape(escaped)
	if err != nil {
		return err
	}
	e := Entry{Kind: kind, Path: path.Clean(string(name))}
	if !path.IsAbs(e.Path) || e.Path == "/" || e.Path == factsFile || bytes.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%q is not a path to keep", name)
	}
	if kind == kindError {
		number, _, _ := strings.Cut(data, " ")
		if e.Err, err = errno(number); err != nil {
			return err
		}
	} else if e.Data, err = unescape(data); err != nil {
		return err
	}
	if kind == kindLink && (len(e.Data) == 0 || bytes.IndexByte(e.Data, 0) >= 0) {
		return errForm
	}
	if !seen[e.Path] { // two patterns may match the same
		seen[e.Path] = true
		c.Entries = append(c.Entries, e)
	}
	return nil
}

// flat checks that no path is below another that is not a folder: unpacking would
// follow a link out of its folder.
func (c *Contents) flat() error {
	leaf := map[string]bool{}
	for _, e := range c.Entries {
		leaf[e.Path] = e.Kind != kindDir && e.Kind != kindError
	}
	for _, e := range c.Entries {
		for dir := path.Dir(e.Path); dir != "/"; dir = path.Dir(dir) {
			if leaf[dir] && e.Kind != kindError {
				return fmt.Errorf("parse capture: %q lies below %q, which is not a folder", e.Path, dir)
			}
		}
	}
	return nil
}

// hexadecimal reads n numbers.
func hexadecimal(s string, n int) ([]uint64, error) {
	f := strings.Fields(s)
	if len(f) != n {
		return nil, errForm
	}
	out := make([]uint64, n)
	for i := range f {
		var err error
		if out[i], err = strconv.ParseUint(f[i], 16, 64); err != nil {
			return nil, errForm
		}
	}
	return out, nil
}

// errno returns the error of a Linux error number.
func errno(s string) (error, error) {
	n, err := strconv.ParseUint(s, 10, 12)
	if err != nil || n == 0 {
		return nil, errForm
	}
	return syscall.Errno(n), nil
}

// unescape reverts the worker's \\, \n, \t and \xHH.
func unescape(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		switch {
		case i == len(s):
			return nil, errForm
		case s[i] == '\\':
			out = append(out, '\\')
		case s[i] == 'n':
			out = append(out, '\n')
		case s[i] == 't':
			out = append(out, '\t')
		case s[i] == 'x' && i+2 < len(s):
			b, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return nil, errForm
			}
			out = append(out, byte(b))
			i += 2
		default:
			return nil, errForm
		}
	}
	return out, nil
}

// Unpack turns a capture into a machine that detectors and Capture read like the original. Its tree is in a folder of
// h, which the returned function removes. Commands do not run on it, and anything not captured does not exist.
//
// The folder holds the machine's id in clear; only its hash goes into a document.
func Unpack(h *host.Host, capture []byte) (*host.Host, func() error, error) {
	c, err := Parse(capture)
	if err != nil {
		return nil, nil, err
	}
	dir, err := h.MkdirTemp("teescope-capture")
	if err != nil {
		return nil, nil, fmt.Errorf("unpack capture: %w", err)
	}
	remove := func() error { return h.RemoveAll(dir) }
	u := c.host(h, h.Path(dir))
	for _, e := range c.Entries {
		if err = e.unpack(u); err != nil {
			break
		}
	}
	if err == nil {
		err = u.Install(factsFile, c.facts(), 0o600)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("unpack capture: %w", err), remove())
	}
	return u, remove, nil
}

// host returns the captured machine with its tree at root.
func (c *Contents) host(h *host.Host, root string) *host.Host {
	absent := func(what string) error {
		return fmt.Errorf("%s on a captured machine: %w", what, errors.ErrUnsupported)
	}
	u := &host.Host{
		Root: root,
		Now:  h.Now,
		CPUID: func(leaf, subleaf uint32) (uint32, uint32, uint32, uint32) {
			r := c.CPUID[[2]uint32{leaf, subleaf}]
			return r[0], r[1], r[2], r[3]
		},
		MSR: func(cpu int, reg uint32) (uint64, error) {
			if v, ok := c.MSR[reg]; ok && cpu == 0 {
				return v, nil
			}
			if err := c.NoMSR[reg]; err != nil && cpu == 0 {
				return 0, fmt.Errorf("read MSR %#x: %w", reg, err)
			}
			return 0, absent(fmt.Sprintf("read MSR %#x", reg))
		},
		Statfs:  func(string) (host.Filesystem, error) { return host.Filesystem{}, absent("statfs") },
		Mounted: func(string) (string, error) { return "", absent("find mount") },
		Exec: func(_ context.Context, cmd host.Cmd) (host.Output, error) {
			return host.Output{}, absent("run " + strings.Join(cmd.Argv, " "))
		},
		Start: func(_ context.Context, cmd host.Cmd) (*host.Process, error) {
			return nil, absent("run " + strings.Join(cmd.Argv, " "))
		},
		Maps:   func(string) (map[string][]byte, error) { return nil, absent("read BPF maps") },
		Faults: map[string]error{},
	}
	for _, e := range c.Entries {
		if e.Kind == kindError {
			u.Faults[e.Path] = e.Err
		}
	}
	return u
}

func (e Entry) unpack(u *host.Host) error {
	switch e.Kind {
	case kindFile, kindPart, kindNode:
		return u.Install(e.Path, e.Data, 0o600)
	case kindDir:
		return u.Mkdir(e.Path)
	case kindLink:
		return u.Symlink(rewriteLink(e.Path, string(e.Data)), e.Path)
	}
	return nil
}

// rewriteLink rewrites a link's target so it leads to the same place of the captured tree and nowhere else: a path
// relative to the link's folder that climbs no higher than root, as if that were the real one.
func rewriteLink(link, target string) string {
	dir := path.Dir(link)
	if !path.IsAbs(target) {
		target = path.Join(dir, target)
	}
	rel, err := filepath.Rel(dir, path.Clean(target))
	if err != nil { // both are absolute
		return "."
	}
	return rel
}

func (c *Contents) facts() []byte {
	var b bytes.Buffer
	for name, v := range c.Facts {
		fmt.Fprintf(&b, "%s %s\n", name, strings.ReplaceAll(v, "\n", " "))
	}
	return b.Bytes()
}

// readFacts returns what the worker learned by system calls, or nothing on a
// machine that was not captured.
func readFacts(h *host.Host) map[string]string {
	out := map[string]string{}
	b, err := h.ReadFile(factsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out
	}
	for line := range bytes.Lines(b) {
		name, v, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		out[name] = v
	}
	return out
}
