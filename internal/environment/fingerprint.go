package environment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
)

// scope is what a field counts for.
type scope uint8

// The scopes, each within the one before: what Diff compares, what makes the
// fingerprint, what makes the class.
const (
	compared scope = iota
	fingerprinted
	classed
)

type property struct {
	path, value string
	scope       scope
}

// properties returns the fields of an environment that matter to a comparison, by JSON path, sorted. The list is
// complete; any other field may differ. Values are without secrets, as results record them: a hash lets a weak secret be guessed.
//
// The class holds what makes a kind of machine: CPU, number of CPUs, memory, hypervisor, instance type, TEE, GPUs,
// limits, series of the kernel. A history continues across two machines of one class.
//
// The fingerprint adds what changes results on one machine and stays until someone changes it: the machine itself,
// microcode, mitigations, kernel and its command line, frequency policy, pages, swap, disks, interfaces, versions.
//
// Only compared are the subject and the digests of what ran: they change from commit to commit while the environment
// stays the same.
//
// Left out are names (the arm's, its role), evidence (it holds register values and times), what varies by itself
// (time to open, null run) and reasons.
func properties(e *result.Environment) []property {
	var out []property
	add := func(sc scope, path string, v any) {
		out = append(out, property{path, printable.Named(path, fmt.Sprint(v)), sc})
	}
	table := func(sc scope, path string, m map[string]string) {
		for k, v := range m {
			add(sc, path+"."+k, v)
		}
	}
	add(classed, "launcher", e.Launcher)
	table(fingerprinted, "params", e.Params)
	table(compared, "subject", e.Subject)
	table(compared, "digests", e.Digests)

	add(classed, "tee.type", e.TEE.Type)
	add(classed, "tee.active", e.TEE.Active)
	add(classed, "tee.debug", e.TEE.Debug)
	table(fingerprinted, "tee.settings", e.TEE.Settings)
	for _, f := range e.TEE.Facts {
		add(fingerprinted, "tee.facts."+f.Kind, strings.TrimSpace(fmt.Sprintf("%s %s active=%t debug=%t", f.Role, f.Variant, f.Active, f.Debug)))
	}

	hw := &e.Hardware
	add(classed, "hardware.cpu_model", hw.CPUModel)
	add(classed, "hardware.cpu_vendor", hw.CPUVendor)
	add(classed, "hardware.cpu_family", hw.CPUFamily)
	add(fingerprinted, "hardware.microcode", hw.Microcode)
	add(classed, "hardware.cpus", hw.CPUs)
	add(classed, "hardware.sockets", hw.Sockets)
	add(classed, "hardware.threads_per_core", hw.ThreadsPerCore)
	add(fingerprinted, "hardware.smt", hw.SMT)
	add(fingerprinted, "hardware.numa_nodes", hw.NUMANodes)
	add(fingerprinted, "hardware.affinity", hw.Affinity)
	add(fingerprinted, "hardware.governor", hw.Governor)
	add(fingerprinted, "hardware.turbo", hw.Turbo)
	for k, v := range hw.CacheBytes {
		add(fingerprinted, "hardware.cache_bytes."+k, v)
	}
	table(fingerprinted, "hardware.mitigations", hw.Mitigations)
	add(classed, "hardware.memory_bytes", steps(hw.MemoryBytes))
	add(fingerprinted, "hardware.swap_bytes", hw.SwapBytes)
	add(fingerprinted, "hardware.transparent_hugepage", hw.THP)
	for _, d := range hw.Disks {
		at := "hardware.disks." + d.Name
		add(fingerprinted, at+".model", d.Model)
		add(fingerprinted, at+".bytes", d.Bytes)
		add(fingerprinted, at+".rotational", d.Rotational)
		add(fingerprinted, at+".scheduler", d.Scheduler)
		add(fingerprinted, at+".write_cache", d.WriteCache)
	}
	for _, n := range hw.NICs {
		at := "hardware.nics." + n.Name
		add(fingerprinted, at+".driver", n.Driver)
		add(fingerprinted, at+".mtu", n.MTU)
		bits := ""
		if n.BitsPerSecond != nil {
			bits = strconv.FormatFloat(*n.BitsPerSecond, 'f', -1, 64)
		}
		add(fingerprinted, at+".bits_per_second", bits)
	}
	for i, g := range hw.GPUs {
		at := "hardware.gpus." + strconv.Itoa(i)
		add(classed, at+".model", g.Model)
		add(fingerprinted, at+".driver", g.Driver)
		add(classed, at+".confidential_compute", g.CCMode)
	}
	add(fingerprinted, "hardware.host_id", hw.Serial)

	sw := &e.Software
	add(fingerprinted, "software.kernel", sw.Kernel)
	add(fingerprinted, "software.cmdline", sw.Cmdline)
	add(fingerprinted, "software.os", sw.OS)
	add(fingerprinted, "software.libc", sw.Libc)
	add(classed, "software.hypervisor", sw.Hypervisor)
	add(fingerprinted, "software.clock_source", sw.ClockSource)
	table(classed, "software.limits", sw.Limits)
	table(fingerprinted, "software.versions", sw.Versions)
	table(compared, "software.worker", sw.Worker)
	add(fingerprinted, "software.page_cache_policy", sw.CachePolicy)
	table(classed, "software.encryption", sw.Encryption)

	add(fingerprinted, "network", e.Network)
	table(fingerprinted, "network_path", e.Path)

	cloud := result.Cloud{}
	if e.Cloud != nil {
		cloud = *e.Cloud
	}
	add(classed, "cloud.provider", cloud.Provider)
	add(fingerprinted, "cloud.region", cloud.Region)
	add(fingerprinted, "cloud.zone", cloud.Zone)
	add(classed, "cloud.instance_type", cloud.InstanceType)

	slices.SortStableFunc(out, func(a, b property) int { return cmp.Compare(a.path, b.path) })
	return out
}

// step is the rounding of memory sizes: the kernel's own share varies slightly from
// boot to boot.
const step = 256 << 20

func steps(n int64) int64 { return (n + step - 1) / step * step }

// series returns the first two numbers of a kernel's release.
func series(release string) string {
	part := strings.SplitN(release, ".", 3)
	if len(part) < 2 {
		return release
	}
	minor, _, _ := strings.Cut(part[1], "-")
	return part[0] + "." + minor
}

// Fingerprint sets the environment's two fingerprints, from the fields listed at
// properties. An unreadable field counts as empty, so a run with fewer privileges has
// another fingerprint.
func Fingerprint(e *result.Environment) {
	all, class := sha256.New(), sha256.New()
	for _, p := range properties(e) {
		if p.value == "" || p.scope < fingerprinted {
			continue
		}
		fmt.Fprintf(all, "%q=%q\n", p.path, p.value)
		if p.scope == classed {
			fmt.Fprintf(class, "%q=%q\n", p.path, p.value)
		}
	}
	fmt.Fprintf(class, "kernel series=%q\n", series(e.Software.Kernel))
	e.Fingerprint = "sha256:" + hex.EncodeToString(all.Sum(nil))
	e.Class = "sha256:" + hex.EncodeToString(class.Sum(nil))
}

// Diff lists the comparison-relevant fields in which b differs from a, by JSON path, in
// alphabetical order. A field missing in one of them is not known to differ and is left
// out; their Missing says why. The same holds for digests if one of them has none.
func Diff(a, b *result.Environment) []result.Difference {
	left, right := map[string]string{}, map[string]string{}
	for _, p := range properties(a) {
		left[p.path] = p.value
	}
	for _, p := range properties(b) {
		right[p.path] = p.value
	}
	paths := maps.Clone(left)
	maps.Copy(paths, right)
	var out []result.Difference
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if left[path] != right[path] && !missing(a, path) && !missing(b, path) {
			out = append(out, result.Difference{Field: path, Baseline: left[path], Treatment: right[path]})
		}
	}
	return out
}

// missing reports whether a field, or its parent, could not be read.
func missing(e *result.Environment, path string) bool {
	if e.Digests == nil && strings.HasPrefix(path, "digests.") {
		return true
	}
	for {
		if _, ok := e.Missing[path]; ok {
			return true
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}
