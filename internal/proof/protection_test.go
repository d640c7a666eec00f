package proof

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
)

// weak is a machine whose evidence is genuine, and which a policy must not take for a protected one.
type weak struct {
	name   string
	make   func(testing.TB, attesttest.Options) *attesttest.Machine
	o      attesttest.Options
	policy string // of min_tcb none is added
	word   string
	check  string // by its name
	want   string // its reason
	stays  bool   // no policy that its reason names accepts it
}

// snpMinimum is what a good machine of the tests has.
const snpMinimum = "min_tcb: {milan: db18000000000004}\n"

func weakMachines() []weak {
	zero := attest.TCB(0)
	flipped := func(at int, bits byte) attesttest.Options {
		return attesttest.Options{SNPReport: func(r []byte) { r[at] |= bits }}
	}
	attribute := func(bit int) attesttest.Options {
		return attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) {
			binary.LittleEndian.PutUint64(b.TdAttributes, binary.LittleEndian.Uint64(b.TdAttributes)|1<<bit)
		}}
	}
	all := []weak{
		{name: "TCB of zeros", o: attesttest.Options{SNPTCB: &zero}, policy: snpMinimum, word: Refused, check: "tcb", want: "the reported TCB is too old: bootloader 0 below 4, snp 0 below 24, microcode 0 below 219", stays: true},
		{name: "a key of TCB 0 under a TCB with parts above 127", o: attesttest.Options{SNPTCB: &zero, SNPReport: func(r []byte) {
			for _, at := range []int{0x38, 0x180, 0x1e0, 0x1f0} { // current, reported, committed, launch
				copy(r[at:], "\x84\x00\x00\x00\x00\x00\x98\xdb")
			}
		}}, policy: snpMinimum, word: Refused, check: "tcb", want: "is not that of the key's certificate", stays: true},
		{name: "provisional firmware with parts above 127", o: attesttest.Options{SNPReport: func(r []byte) {
			copy(r[0x38:], "\x84\x00\x00\x00\x00\x00\x98\xdb")
			copy(r[0x1e0:], "\x85\x00\x00\x00\x00\x00\x98\xdb")
		}}, policy: snpMinimum, word: Refused, check: "tcb", want: "the firmware is provisional", stays: true},
		{name: "TCB of zeros, no minimum", o: attesttest.Options{SNPTCB: &zero}, word: Unproved, check: "tcb", want: "min_tcb: {milan: {bootloader: 0, tee: 0, snp: 0, microcode: 0}}", stays: true},
		{name: "no minimum", word: Unproved, check: "tcb", want: "min_tcb: {milan: {bootloader: 4, tee: 0, snp: 24, microcode: 219}}"},
		{name: "a minimum of another product", policy: "min_tcb: {genoa: {bootloader: 1, tee: 0, snp: 1, microcode: 1}}", word: Unproved, check: "tcb", want: "no minimum was named", stays: true},
		{name: "old bootloader", policy: "min_tcb: {milan: {bootloader: 5, tee: 0, snp: 24, microcode: 219}}", word: Refused, check: "tcb", want: "too old: bootloader 4 below 5", stays: true},
		{name: "old tee", policy: "min_tcb: {milan: {bootloader: 4, tee: 1, snp: 24, microcode: 219}}", word: Refused, check: "tcb", want: "too old: tee 0 below 1", stays: true},
		{name: "old snp", policy: "min_tcb: {milan: {bootloader: 4, tee: 0, snp: 25, microcode: 219}}", word: Refused, check: "tcb", want: "too old: snp 24 below 25", stays: true},
		{name: "old microcode", policy: "min_tcb: {milan: dc18000000000004}", word: Refused, check: "tcb", want: "too old: microcode 219 below 220", stays: true},
		{name: "started by old firmware", o: attesttest.Options{SNPReport: func(r []byte) { r[0x1f6] = 23 }}, policy: snpMinimum, word: Refused, check: "tcb", want: "started and measured the guest was too old: snp 23 below 24", stays: true},
		{name: "no level of a guest", o: attesttest.Options{SNPReport: func(r []byte) { copy(r[0x30:], "\xff\xff\xff\xff") }}, policy: snpMinimum + "vmpl: 3", word: Refused, check: "vmpl", want: "0xffffffff: no software of a guest has this level", stays: true},
		{name: "a more privileged level than wanted", policy: snpMinimum + "vmpl: 2", word: Refused, check: "vmpl", want: "0, the policy wants 2", stays: true},
		{name: "migration agent", o: flipped(0x0a, 1<<2), policy: snpMinimum, word: Refused, check: "migration", want: "on: the host can move the guest"},
		{name: "a fact is missing", policy: snpMinimum + "platform: {alias_check_complete: true}", word: Refused, check: "platform", want: "alias_check_complete is false, the policy wants true", stays: true},
		{name: "a fact is wrong", o: flipped(0x40, 1), policy: snpMinimum + "platform: {smt: false}", word: Refused, check: "platform", want: "smt is true, the policy wants false", stays: true},
		{name: "an unknown fact", o: flipped(0x40, 1<<6), policy: snpMinimum, word: Unproved, check: "platform", want: "the meaning of some bits"},
		{name: "another unknown fact", o: flipped(0x41, 1), policy: snpMinimum, word: Unproved, check: "platform", want: "platform: {bit8: true}"},
		{name: "an unknown bit of the guest's policy", o: flipped(0x0b, 1<<2), policy: snpMinimum, word: Refused, check: "evidence", want: "malformed guest policy", stays: true},
		{name: "another author", policy: snpMinimum + "registers: {author_key_digest: " + strings.Repeat("ab", 48) + "}", word: Refused, check: "measurement", want: "author_key_digest", stays: true},
	}
	for level := range byte(3) {
		all = append(all, weak{name: fmt.Sprintf("VMPL %d", level+1), o: flipped(0x30, level+1), policy: snpMinimum, word: Refused, check: "vmpl", want: fmt.Sprintf("%d, the policy wants 0", level+1)})
	}
	for n := range all {
		all[n].make = attesttest.SEV
	}
	tdx := []weak{
		{name: "MIGRATABLE", o: attribute(29), word: Refused, check: "migration", want: "on: "},
		{name: "SEPT_VE_DISABLE off", o: attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) { b.TdAttributes[3] &^= 1 << 4 }}, word: Refused, check: "attributes", want: "0x10000000 (SEPT_VE_DISABLE) is off"},
		{name: "an unknown attribute", o: attribute(8), word: Unproved, check: "attributes", want: "does not know the meaning of 0x100 (unknown bit 8)"},
		{name: "another unknown attribute", o: attribute(40), word: Unproved, check: "attributes", want: "attributes: {set: 0x10010000000}"},
		{name: "an attribute that must be clear", policy: "attributes: {clear: 0x40000000}", word: Refused, check: "attributes", want: "0x40000000 (PKS) is on", stays: true},
		{name: "an attribute that must be set", policy: "attributes: {set: 0x90000000}", word: Refused, check: "attributes", want: "0x80000000 (KL) is off", stays: true},
		{name: "XFAM", policy: "xfam: {clear: 0x2}", word: Refused, check: "xfam", want: "XFAM is 0x61ae7, the policy wants 0x0 set and 0x2 clear", stays: true},
		{name: "an old module", o: attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) { b.TeeTcbSvn[0] = 2 }}, word: Refused, check: "tcb", want: "OutOfDate", stays: true},
		{name: "a module that Intel does not list", o: attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) { b.TeeTcbSvn[1] = 9 }}, word: Refused, check: "tcb", want: "TDX Module Identity", stays: true},
	}
	for _, register := range []string{"mrseam", "mrsignerseam", "mrconfigid", "mrowner", "mrownerconfig"} {
		tdx = append(tdx, weak{name: "another " + register, policy: "registers: {" + register + ": " + strings.Repeat("ab", 48) + "}", word: Refused, check: "measurement", want: register + " is ", stays: true})
	}
	for bit := range 8 {
		name := map[int]string{0: "DEBUG", 4: "HGS_PLUS_PROF", 5: "PERF_PROF", 6: "PMT_PROF"}[bit]
		if name == "" {
			name = fmt.Sprintf("unknown bit %d", bit)
		}
		tdx = append(tdx, weak{name: fmt.Sprintf("TUD bit %d", bit), o: attribute(bit), word: Refused, check: "debug", want: fmt.Sprintf("on: the attributes have %#x (%s)", 1<<bit, name), stays: true})
	}
	for n := range tdx {
		tdx[n].make = attesttest.TDX
	}
	return append(all, tdx...)
}

// accepting is what a reason says to write into a policy.
var accepting = regexp.MustCompile(`(?:write into a policy|a policy with)(?: :|:)? (.+\}|\w+: \w+)(?: accepts|$)`)

// TestWeakMachines: none is attested, each for its reason, and no channel accepts one. What the reason says to write into a
// policy is a policy, and accepts it.
func TestWeakMachines(t *testing.T) {
	doc := document(t, nil)
	for _, tc := range weakMachines() {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.make(t, tc.o)
			evidence := packed(t, m)
			p := policyOf(t, tc.policy)
			if tc.check == "evidence" { // the machine itself cannot make a result of it
				if _, err := Attest(t.Context(), doc, m, m.Collateral, "", made, m.Trust); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("attested: %v, want %s", err, tc.want)
				}
				said(t, p.Accept(t.Context(), evidence, [attest.Size]byte{1}, m.Collateral, made, m.Trust), tc.want)
				return
			}
			whole := attested(t, m, doc, "")
			r, err := Verify(whole, Options{Policy: p, Now: made.Add(time.Minute), Roots: m.Trust})
			if err != nil {
				t.Fatal(err)
			}
			if status := map[string]int{Refused: 1, Unproved: 2}[tc.word]; r.Origin != tc.word || r.Status() != status || !strings.Contains(r.Line, tc.check) || !strings.Contains(r.Line, tc.want) {
				t.Errorf("status %d, %s\nwant %s for %s: %s", r.Status(), r.Line, tc.word, tc.check, tc.want)
			}
			if tc.check == "tcb" && strings.Contains(r.Line, "was current as of") {
				t.Errorf("it says that the TCB was current: %s", r.Line)
			}
			reason := p.Accept(t.Context(), evidence, [attest.Size]byte{1}, m.Collateral, made, m.Trust)
			if reason == nil || !strings.HasPrefix(reason.Error(), tc.check+": ") || !strings.Contains(reason.Error(), tc.want) {
				t.Fatalf("a channel: %v, want %s: %s", reason, tc.check, tc.want)
			}
			found := accepting.FindStringSubmatch(reason.Error())
			if tc.stays {
				return
			}
			if found == nil {
				t.Fatalf("it does not say what accepts it: %v", reason)
			}
			p = policyOf(t, tc.policy+found[1])
			if err := p.Accept(t.Context(), evidence, [attest.Size]byte{1}, m.Collateral, made, m.Trust); err != nil {
				t.Errorf("with %s a channel still says %v", found[1], err)
			}
			if r, err := Verify(whole, Options{Policy: p, Now: made.Add(time.Minute), Roots: m.Trust}); err != nil || r.Origin != Attested || r.Status() != 0 {
				t.Errorf("with %s: %v, %+v", found[1], err, r)
			}
		})
	}
}

func policyOf(t *testing.T, text string) Policy {
	t.Helper()
	p, err := ReadPolicy([]byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return p
}

func packed(t *testing.T, m *attesttest.Machine) []byte {
	t.Helper()
	e, err := m.Quote(t.Context(), [attest.Size]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAccepted: what a policy allows is accepted, and the line says what that leaves open.
func TestAccepted(t *testing.T) {
	doc := document(t, nil)
	zeros := strings.Repeat("00", 48)
	for _, tc := range []struct {
		name   string
		make   func(testing.TB, attesttest.Options) *attesttest.Machine
		o      attesttest.Options
		policy string
		want   string
	}{
		{"a minimum", attesttest.SEV, attesttest.Options{}, snpMinimum, "its TCB was at least the policy's minimum as of "},
		{"any TCB", attesttest.SEV, attesttest.Options{SNPTCB: new(attest.TCB)}, "tcb: unchecked", "that its TCB was current"},
		{"a fact that is off", attesttest.SEV, attesttest.Options{}, snpMinimum + "platform: {tio: false, smt: false}", "an SEV-SNP guest"},
		{"a register of zeros", attesttest.SEV, attesttest.Options{}, snpMinimum + "registers: {id_key_digest: " + zeros + "}", "with the expected measurement"},
		{"a lower level", attesttest.SEV, attesttest.Options{SNPReport: func(r []byte) { r[0x30] = 2 }}, snpMinimum + "vmpl: 2", "what the guest's more privileged software is (VMPL 2 asked for the report)"},
		{"migration", attesttest.TDX, attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) { b.TdAttributes[3] |= 1 << 5 }}, "migration: true", "that it stayed on this machine"},
		{"profiling", attesttest.TDX, attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) { b.TdAttributes[0] = 0x60 }}, "debug: true", "that the host stayed outside (debug is on)"},
		{"pages of the host", attesttest.TDX, attesttest.Options{TDXBody: func(b *tdxpb.TDQuoteBody) { b.TdAttributes[3] = 0 }}, "attributes: {set: 0}", "SEPT_VE_DISABLE is off"},
		{"TDX registers", attesttest.TDX, attesttest.Options{}, "registers: {mrconfigid: " + zeros + ", mrowner: " + zeros + "}\nxfam: {set: 0x3}\nattributes: {set: 0x50000000, clear: 0xff}", "its TCB was current as of "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.make(t, tc.o)
			r, err := Verify(attested(t, m, doc, ""), Options{Policy: policyOf(t, tc.policy), Now: made.Add(time.Minute), Roots: m.Trust})
			if err != nil || r.Origin != Attested || !strings.Contains(r.Line, tc.want) {
				t.Errorf("%s: %v, %+v, want %q", tc.name, err, r, tc.want)
			}
			p := policyOf(t, tc.policy)
			if err := p.Accept(t.Context(), packed(t, m), [attest.Size]byte{1}, m.Collateral, made, m.Trust); err != nil {
				t.Errorf("%s, a channel: %v", tc.name, err)
			}
		})
	}
	m := attesttest.SEV(t, attesttest.Options{Revoked: true})
	if r, err := Verify(attested(t, m, doc, ""), Options{Policy: Policy{TCBUnchecked: true}, Now: made.Add(time.Minute), Roots: m.Trust}); err != nil || r.Origin != Refused {
		t.Errorf("a revoked key where any TCB is accepted: %v, %+v", err, r)
	}
}

// TestProtectionPolicy: what cannot be meant is refused when a policy is read.
func TestProtectionPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"min_tcb: {naples: db18000000000004}":                                        `min_tcb "naples": want genoa, milan, turin`,
		"min_tcb: {milan: db1800000000004}":                                          "min_tcb milan: TCB \"db1800000000004\": want 16 hex digits: write {bootloader: N, tee: N, snp: N, microcode: N}, or the 16 hex digits",
		"min_tcb: {milan: {bootloader: 4, snp: 24, microcode: 219}}":                 "part tee is missing",
		"min_tcb: {milan: {fmc: 0, bootloader: 4, tee: 0, snp: 24, microcode: 219}}": "the TCB has 5 parts, but a milan processor has only 4",
		"min_tcb: {turin: {bootloader: 4, tee: 0, snp: 24, microcode: 219}}":         "part fmc is missing: write {fmc: N, bootloader: N, tee: N, snp: N, microcode: N}",
		"min_tcb: {milan: {bootloader: 256, tee: 0, snp: 24, microcode: 219}}":       "cannot unmarshal",
		"min_tcb: {milan: [4, 0, 24, 219]}":                                          "cannot unmarshal",
		"min_tcb: {milan: }":                                                         "line 1: a value is missing",
		"min_tcb: {milan: {bootloader: , tee: , snp: , microcode: 219}}":             "line 1: a value is missing",
		"measurements: [~]":                  "line 1: a value is missing",
		"tee: []":                            "line 1: the list is empty",
		"tee: [tdx]\n---\nvmpl: 0":           "a policy is one YAML document",
		"min_tcb: {milan: 0000000000000000}": "a minimum of 0 accepts any firmware",
		"min_tcb: {milan: db18000000010004}": "levels in reserved bytes",
		"tcb: current":                       `tcb "current": want unchecked`,
		"tcb: unchecked\n" + snpMinimum:      "contradict each other",
		"vmpl: 4":                            "want 0 to 3",
		"vmpl: -1":                           "cannot unmarshal",
		"platform: {alias: true}":            `platform "alias": want alias_check_complete`,
		"platform: {bit0: true}":             `platform "bit0": want`,
		"attributes: {set: 0x30, clear: 0x10}\ndebug: true":       "attributes: 0x10 must be both set and clear",
		"attributes: {set: 0x10}":                                 "which needs debug: true in the policy",
		"attributes: {set: 0x20000000}":                           "which needs migration: true in the policy",
		"attributes: {clear: high}":                               "want a number like 0x10000000",
		"attributes: {sets: 1}":                                   "field sets not found",
		"registers: {mrconfig: " + strings.Repeat("00", 48) + "}": `register "mrconfig": want rtmr0`,
	} {
		t.Run(text, func(t *testing.T) {
			if p, err := ReadPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %+v, %v, want %q", text, p, err, want)
			}
		})
	}
	p := policyOf(t, "min_tcb: {milan: 5318000000000004, turin: {fmc: 1, bootloader: 2, tee: 3, snp: 4, microcode: 0x55}}\nplatform: {bit6: false}\nvmpl: 3\nattributes: {set: 0, clear: 0x8000000000000000}")
	if p.MinTCB["milan"] != 0x5318000000000004 || p.MinTCB["turin"] != 0x5500000004030201 || p.VMPL != 3 || *p.Attributes.Set != 0 || *p.Attributes.Clear != 1<<63 || !p.wantsTEE() {
		t.Errorf("%+v", p)
	}
}

// TestKeysOnPage: docs/attested-results.md has each key of a policy in its example and beside the fields that it is about, and what
// a field is named by is a key.
func TestKeysOnPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/attested-results.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	_, tables, found := strings.Cut(page, "\n## Every field\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	if !found {
		t.Fatal("the page has no tables of fields")
	}
	var keys []string
	for n := range reflect.TypeFor[file]().NumField() {
		keys = append(keys, reflect.TypeFor[file]().Field(n).Tag.Get("yaml"))
	}
	for _, key := range keys {
		if !strings.Contains(tables, "`"+key+"`") {
			t.Errorf("no field is named by %s", key)
		}
		if key != "tcb" && !regexp.MustCompile(`(?m)^`+key+`:`).MatchString(page) {
			t.Errorf("the page shows no policy with %s", key)
		}
	}
	for line := range strings.Lines(tables) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.TrimSpace(cells[2]) != "if named" {
			continue
		}
		if !slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(cells[3], "`"+k+"`") }) {
			t.Errorf("it is not said by which key: %s", line)
		}
	}
}

// TestPolicyOnPage: the policies that the pages show can be read.
func TestPolicyOnPage(t *testing.T) {
	for _, name := range []string{"attested-results", "channel"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile("../../docs/" + name + ".md")
			if err != nil {
				t.Fatal(err)
			}
			shown := 0
			for _, m := range regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n").FindAllStringSubmatch(string(b), -1) {
				if strings.Contains(m[1], "…") { // with keys and digests that are not whole
					var f file
					d := yaml.NewDecoder(strings.NewReader(m[1]))
					d.KnownFields(true)
					if err := d.Decode(&f); err != nil {
						t.Errorf("%s: %v:\n%s", name, err, m[1])
					}
				} else if _, err := ReadPolicy([]byte(m[1])); err != nil {
					t.Errorf("%s: %v:\n%s", name, err, m[1])
				}
				shown++
			}
			if shown == 0 {
				t.Errorf("%s shows no policy", name)
			}
		})
	}
}
