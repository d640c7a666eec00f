package attest

import (
	"encoding/json"
	"slices"
	"testing"

	sevtest "github.com/google/go-sev-guest/verify/testdata"
)

// TestTCB: the parts of a TCB by product, whose bytes differ (AMD 56860, TCB_VERSION).
func TestTCB(t *testing.T) {
	parts := map[string]uint8{"bootloader": 4, "tee": 1, "snp": 24, "microcode": 219}
	for product, want := range map[string]string{"milan": "db18000000000104", "genoa": "db18000000000104", "turin": "db00000018010402"} {
		t.Run(product, func(t *testing.T) {
			if product == "turin" {
				parts["fmc"] = 2
			} else {
				delete(parts, "fmc")
			}
			tcb, err := ComposeTCB(product, parts)
			if err != nil || tcb.String() != want || !tcb.ReservedAreZero(product) {
				t.Errorf("%s: %s, %v, want %s", product, tcb, err, want)
			}
			for name := range parts {
				lower := map[string]uint8{}
				for n, v := range parts {
					lower[n] = v
				}
				lower[name]--
				old, err := ComposeTCB(product, lower)
				if below := old.PartsBelow(tcb, product); err != nil || len(below) != 1 || below[0][:len(name)] != name || tcb.PartsBelow(old, product) != nil {
					t.Errorf("%s with an older %s is below by %q, %v", product, name, below, err)
				}
			}
		})
	}
	if got, want := TCB(0xdb00000018010402).Parts("turin"), "fmc: 2, bootloader: 4, tee: 1, snp: 24, microcode: 219"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// The SNP part of a Turin is in a byte that a Milan reserves.
	if TCB(0xdb00000018010402).ReservedAreZero("milan") || TCB(0).ReservedAreZero("naples") || TCB(0).Parts("unknown") != "" {
		t.Error("a reserved byte or an unknown product is known")
	}
}

// TestRealSNPProduct: a report of version 2 does not say its product; the certificate of its key does.
func TestRealSNPProduct(t *testing.T) {
	i, err := Inspect(t.Context(), &Evidence{Format: sevFormat, Quote: sevtest.AttestationBytes}, amd{}, recorded, Trust{})
	if err != nil || i.Signature != nil {
		t.Fatalf("%+v, %v", i, err)
	}
	if s := i.Facts.SNP; s.Product != "milan" || i.Facts.TCB != "bootloader: 2, tee: 0, snp: 5, microcode: 68" || s.Launch != s.Reported || s.VMPL != 0 || s.Migratable || !s.Platform["smt"] || s.Platform["tsme"] {
		t.Errorf("%+v, %s", s, i.Facts.TCB)
	}
}

// TestBits: bits are named, and those without a name are unknown.
func TestBits(t *testing.T) {
	if got, want := (Bits(1<<63|1<<32|0x62) | SEPTVEDisable).Attributes(), "0x8000000110000062 (unknown bit 1, PERF_PROF, PMT_PROF, SEPT_VE_DISABLE, unknown bit 32, PERFMON)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Bits(1<<63 | 1<<32 | 0x62)).UnknownAttributes(); got != 1<<32 {
		t.Errorf("unknown are %s", got)
	}
	if facts := readPlatform(1 | 1<<6 | 1<<63); !facts["smt"] || facts["tio"] || !facts["bit6"] || !facts["bit63"] || len(facts) != len(platformFacts)+2 {
		t.Errorf("%v", facts)
	}
	for name, want := range map[string]bool{"smt": true, "bit6": true, "bit63": true, "bit0": false, "bit64": false, "": false} {
		t.Run(name, func(t *testing.T) {
			if KnownPlatformFact(name) != want {
				t.Errorf("%q is known: %t", name, !want)
			}
		})
	}
	if !slices.IsSorted(PlatformFacts()) || len(PlatformFacts()) != 7 {
		t.Errorf("%v", PlatformFacts())
	}
}

// TestRegistersWritten: registers of zeros can be compared, and are not written.
func TestRegistersWritten(t *testing.T) {
	for want, f := range map[string]Facts{
		`{"tee":"tdx","registers":{"rtmr1":"01"}}`: {TEE: "tdx", Registers: Registers{"rtmr0": "00", "rtmr1": "01"}},
		`{"tee":"tdx"}`: {TEE: "tdx", Registers: Registers{"rtmr0": "00"}},
	} {
		t.Run(want, func(t *testing.T) {
			b, err := json.Marshal(f)
			var back Facts
			if err != nil || string(b) != want || json.Unmarshal(b, &back) != nil {
				t.Errorf("%s, %v, want %s", b, err, want)
			}
		})
	}
}
