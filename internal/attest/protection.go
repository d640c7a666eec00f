package attest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-sev-guest/kds"
	sevpb "github.com/google/go-sev-guest/proto/sevsnp"
)

// Registers are measurements and other values of fixed size by name, in hex.
type Registers map[string]string

// set adds registers, also those that are all zero: a policy may want exactly that.
func (r Registers) set(values map[string][]byte) {
	for name, v := range values {
		r[name] = hex.EncodeToString(v)
	}
}

// nonZero are the registers that are not all zero.
func (r Registers) nonZero() map[string]string {
	out := maps.Clone(map[string]string(r))
	maps.DeleteFunc(out, func(_, v string) bool { return strings.Trim(v, "0") == "" })
	return out
}

// MarshalJSON leaves out registers that are all zero.
func (r Registers) MarshalJSON() ([]byte, error) { return json.Marshal(r.nonZero()) }

// IsZero reports whether no register would be written.
func (r Registers) IsZero() bool { return len(r.nonZero()) == 0 }

// SNP is what an SEV-SNP report says of a guest's protection (AMD 56860, ATTESTATION_REPORT).
type SNP struct {
	// Product is "milan", "genoa", "turin" or "unknown".
	Product string `json:"product"`
	// Reported and Launch are REPORTED_TCB, which the key's certificate is for, and LAUNCH_TCB, of the firmware that measured the guest.
	Reported TCB `json:"reported_tcb"`
	Launch   TCB `json:"launch_tcb"`
	// VMPL is the privilege level that asked: 0 is the highest.
	VMPL uint32 `json:"vmpl"`
	// Migratable: the guest's policy allows a migration agent (MIGRATE_MA).
	Migratable bool `json:"migratable"`
	// Platform are the facts of PLATFORM_INFO by name. Bits without a known name are there if they are set.
	Platform map[string]bool `json:"platform"`
}

// MostVMPL is the lowest privilege level of a guest.
const MostVMPL = 3

// TCB is an SEV-SNP TCB_VERSION: one byte for each part, the first in the lowest bits.
type TCB uint64

// String is the form that Microsoft's CCF uses: 16 digits, the microcode first.
func (t TCB) String() string { return fmt.Sprintf("%016x", uint64(t)) }

// MarshalText is String.
func (t TCB) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *TCB) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("TCB %.40q: want 16 hex digits", text)
	}
	*t = TCB(v)
	return nil
}

// tcbParts are the names of the bytes by product, the lowest first; "" is reserved (AMD 56860, TCB_VERSION).
var tcbParts = map[string][8]string{
	"milan": {0: "bootloader", 1: "tee", 6: "snp", 7: "microcode"},
	"genoa": {0: "bootloader", 1: "tee", 6: "snp", 7: "microcode"},
	"turin": {0: "fmc", 1: "bootloader", 2: "tee", 3: "snp", 7: "microcode"},
}

// TCBProducts are the products whose TCB is known.
func TCBProducts() []string { return slices.Sorted(maps.Keys(tcbParts)) }

// ComposeTCB makes a TCB of a product from all its parts.
func ComposeTCB(product string, parts map[string]uint8) (TCB, error) {
	var t TCB
	found := 0
	for at, name := range tcbParts[product] {
		v, ok := parts[name]
		if ok {
			t |= TCB(v) << (8 * at)
			found++
		} else if name != "" {
			return 0, fmt.Errorf("part %s is missing", name)
		}
	}
	if found != len(parts) {
		return 0, fmt.Errorf("the TCB has %d parts, but a %s processor has only %d of these parts", len(parts), product, found)
	}
	return t, nil
}

// byteAt is the level of a part.
func (t TCB) byteAt(at int) uint8 { return uint8(t >> (8 * at)) }

// Parts names the levels as a policy does.
func (t TCB) Parts(product string) string {
	var out []string
	for at, name := range tcbParts[product] {
		if name != "" {
			out = append(out, fmt.Sprintf("%s: %d", name, t.byteAt(at)))
		}
	}
	return strings.Join(out, ", ")
}

// PartsBelow names the parts that are below a minimum.
func (t TCB) PartsBelow(least TCB, product string) []string {
	var out []string
	for at, name := range tcbParts[product] {
		if t.byteAt(at) < least.byteAt(at) {
			out = append(out, fmt.Sprintf("%s %d below %d", name, t.byteAt(at), least.byteAt(at)))
		}
	}
	return out
}

// ReservedAreZero reports whether the bytes that the product reserves are zero.
func (t TCB) ReservedAreZero(product string) bool {
	names, ok := tcbParts[product]
	for at, name := range names {
		ok = ok && (name != "" || t.byteAt(at) == 0)
	}
	return ok
}

// platformFacts are the bits of PLATFORM_INFO (AMD 56860, ATTESTATION_REPORT).
var platformFacts = map[int]string{0: "smt", 1: "tsme", 2: "ecc", 3: "rapl_dis", 4: "ciphertext_hiding", 5: "alias_check_complete", 7: "tio"}

// PlatformFacts are the names of the known bits.
func PlatformFacts() []string { return slices.Sorted(maps.Values(platformFacts)) }

// unknownFact names a bit without a name.
func unknownFact(bit int) string { return fmt.Sprintf("bit%d", bit) }

// KnownPlatformFact reports whether a fact can be on or off: a known bit by its name, another one by its number ("bit6").
func KnownPlatformFact(name string) bool {
	for bit := range 64 {
		if known, ok := platformFacts[bit]; ok && name == known || !ok && name == unknownFact(bit) {
			return true
		}
	}
	return false
}

func readPlatform(info uint64) map[string]bool {
	out := map[string]bool{}
	for bit := range 64 {
		on := info>>bit&1 == 1
		if name, ok := platformFacts[bit]; ok {
			out[name] = on
		} else if on {
			out[unknownFact(bit)] = true
		}
	}
	return out
}

// productOf is the product of a report: by its family, model and stepping or, in reports of version 2, by the certificate.
func productOf(a *sevpb.Attestation) string {
	line := kds.ProductLineFromFms(a.GetReport().GetCpuid1EaxFms())
	if a.GetReport().GetCpuid1EaxFms() == 0 {
		line = certifiedLine(a)
	}
	if line = strings.ToLower(line); slices.Contains(TCBProducts(), line) {
		return line
	}
	return "unknown"
}

// TDX is what a TDX quote says of a guest's protection (Intel 348551, ATTRIBUTES and XFAM).
type TDX struct {
	Attributes Bits `json:"attributes"`
	XFAM       Bits `json:"xfam"`
}

// Bits are written in hex.
type Bits uint64

// String is the number in hex.
func (b Bits) String() string { return fmt.Sprintf("%#x", uint64(b)) }

// MarshalText is String.
func (b Bits) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (b *Bits) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("bits %.40q: want a number like 0x10000000", text)
	}
	*b = Bits(v)
	return nil
}

// Groups and bits of ATTRIBUTES.
const (
	// TDUnderDebug is the group TUD: with any of its bits, known or reserved, the host can look inside or profile.
	TDUnderDebug  Bits = 0xff
	SEPTVEDisable Bits = 1 << 28
	TDMigratable  Bits = 1 << 29
)

// attributeNames are the known bits of ATTRIBUTES (Intel 348551; Linux, arch/x86/include/asm/shared/tdx.h).
var attributeNames = map[int]string{0: "DEBUG", 4: "HGS_PLUS_PROF", 5: "PERF_PROF", 6: "PMT_PROF", 16: "ICSSD", 27: "LASS", 28: "SEPT_VE_DISABLE", 29: "MIGRATABLE",
	30: "PKS", 31: "KL", 62: "TPA", 63: "PERFMON"}

// Attributes names bits of ATTRIBUTES: "0x60 (PERF_PROF, PMT_PROF)".
func (b Bits) Attributes() string {
	var names []string
	for bit := range 64 {
		if b>>bit&1 == 1 {
			name, ok := attributeNames[bit]
			if !ok {
				name = fmt.Sprintf("unknown bit %d", bit)
			}
			names = append(names, name)
		}
	}
	if names == nil {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", b, strings.Join(names, ", "))
}

// UnknownAttributes are the set bits of ATTRIBUTES outside of TDUnderDebug that nobody has told teescope.
func (b Bits) UnknownAttributes() Bits {
	known := TDUnderDebug
	for bit := range attributeNames {
		known |= 1 << bit
	}
	return b &^ known
}
