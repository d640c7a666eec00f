package kinds

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// clues is what a detection has read so far: evidence for the TEE, and doubts
// that forbid the answer "not here".
type clues struct {
	*host.Host
	evidence []tee.Evidence
	doubts   []error
}

func (c *clues) addEvidence(source, format string, args ...any) {
	c.evidence = append(c.evidence, tee.Evidence{Source: source, Value: fmt.Sprintf(format, args...)})
}

func (c *clues) doubt(format string, args ...any) {
	c.doubts = append(c.doubts, fmt.Errorf(format, args...))
}

// checkFile reports whether a file is there and notes it. Not being allowed to look
// is a doubt.
func (c *clues) checkFile(name string) bool {
	ok, err := c.Exists(name)
	if err != nil {
		c.doubt("look for %s: %w", name, err)
	}
	if ok {
		c.addEvidence(name, "present")
	}
	return ok
}

// text reads a file that may be absent. Not being allowed to read is a doubt.
func (c *clues) text(name string) (string, bool) {
	s, err := c.ReadString(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.doubts = append(c.doubts, err)
	}
	if err == nil {
		c.addEvidence(name, "%s", s)
	}
	return s, err == nil
}

// flag reports whether the kernel lists a CPU flag, and notes it. A
// /proc/cpuinfo that is missing or has no flags line is a doubt: every x86
// kernel writes one.
func (c *clues) flag(names ...string) bool {
	info, err := machine.ReadCPUInfo(c.Host)
	if err != nil {
		c.doubts = append(c.doubts, err)
		return false
	}
	flags, ok := info.Value("flags")
	if !ok {
		c.doubt("read /proc/cpuinfo: no flags line")
		return false
	}
	var found []string
	for _, f := range strings.Fields(flags) {
		if slices.Contains(names, f) {
			found = append(found, f)
		}
	}
	if found != nil {
		c.addEvidence("/proc/cpuinfo flags", "%s", strings.Join(found, " "))
	}
	return found != nil
}

// attestation notes where a guest's evidence can be had: files of the platform,
// configfs-tsm, and the providers of reports that someone has asked for there
// (Documentation/ABI/testing/configfs-tsm-report). None of them must be there.
func (c *clues) attestation(files ...string) (provider string) {
	const tsm = "/sys/kernel/config/tsm/report"
	for _, name := range append(files, tsm) {
		if ok, err := c.Exists(name); err == nil && ok {
			c.addEvidence(name, "present")
		}
	}
	reports, err := c.Glob(tsm + "/*/provider")
	if err != nil {
		return ""
	}
	for _, r := range reports {
		if s, err := c.ReadString(r); err == nil {
			c.addEvidence(r, "%s", s)
			return s
		}
	}
	return ""
}

// absent is the answer when no witness spoke for the TEE.
func (c *clues) absent(why string) (tee.Facts, error) {
	if len(c.doubts) == 0 {
		return tee.Facts{}, fmt.Errorf("%s: %w", why, errors.ErrUnsupported)
	}
	err := c.doubts[0]
	for _, d := range c.doubts[1:] {
		err = fmt.Errorf("%w; %w", err, d)
	}
	return tee.Facts{}, err
}

// x86 reports whether CPUID answers at all.
func (c *clues) x86() bool {
	last, _, _, _ := c.CPUID(0, 0)
	return last > 0
}

// guest reports the hypervisor bit. Without it this is no virtual machine, and
// the leaves and registers of confidential guests mean something else.
func (c *clues) guest() bool { return machine.Guest(c.Host) }

// isolation is the type of a Hyper-V isolated partition: 0 none, 2 SEV-SNP,
// 3 TDX. Behind a paravisor, as on Azure, the vendor's own leaves are hidden and
// this is the only sign (Hyper-V TLFS, leaf 0x4000000C; the order of checks is
// that of systemd's confidential-virt.c).
func (c *clues) isolation() uint32 {
	last, b, cx, d := c.CPUID(0x40000000, 0)
	if machine.Letters(b, cx, d) != "Microsoft Hv" || last < 0x4000000c {
		return 0
	}
	// Bit 22: isolated partition. Bit 12: the root partition, which manages
	// CPUs and is not itself isolated.
	if _, features, _, _ := c.CPUID(0x40000003, 0); features&(1<<22) == 0 || features&(1<<12) != 0 {
		return 0
	}
	_, config, _, _ := c.CPUID(0x4000000c, 0)
	return config & 0xf
}

// otherIsolation doubts that a Hyper-V partition of a type that is not known here is no confidential guest. Type 1 isolates
// by software alone.
func (c *clues) otherIsolation() {
	if kind := c.isolation(); kind > 3 {
		c.doubt("CPUID 0x4000000C says Hyper-V isolation of an unknown type: %d", kind)
	}
}

// yes reads a file that answers 1 or 0.
func (c *clues) yes(name string) (bool, error) {
	s, err := c.ReadString(name)
	if err != nil {
		return false, err
	}
	if s != "0" && s != "1" {
		return false, fmt.Errorf("read %s: want 0 or 1, not %.20q", name, s)
	}
	c.addEvidence(name, "%s", s)
	return s == "1", nil
}
