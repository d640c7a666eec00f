package proof

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/attest"
)

// Policy is what a verifier wants of the evidence. The zero value wants a genuine TEE with a current TCB that the host can
// neither debug, profile nor migrate, whatever runs in it. Where only a verifier can say what is current (SEV-SNP), it
// leaves that open, and then nothing is proved.
type Policy struct {
	// Formats are the TEEs that count: "tdx", "sev-snp", "nitro", and "tpm" and "nvidia-gpu", which
	// are none of the environment. Empty is all but the GPUs.
	Formats []string
	// Measurements are the ones of which the environment must have one, in hex.
	Measurements []string
	// Registers must all have these values, in hex: "rtmr1", "mrconfigid", "pcr8", "host_data".
	Registers map[string]string
	// Debug allows environments that the host can look into or profile, Migration those that the host can move.
	Debug, Migration bool
	// MinTCB are the lowest TCBs of SEV-SNP that count, by product. TCBUnchecked accepts any.
	MinTCB       map[string]attest.TCB
	TCBUnchecked bool
	// VMPL is the privilege level that an SEV-SNP report must come from.
	VMPL uint32
	// Platform are facts of an SEV-SNP platform that must be on or off.
	Platform map[string]bool
	// Attributes and XFAM are bits of a TDX guest.
	Attributes, XFAM Mask
	// MaxAge is how old the evidence may be, 0 is any age.
	MaxAge time.Duration
	// Nonce must be that of the evidence; "" is any.
	Nonce string
	// Keys are fingerprints of keys of which one must have signed.
	Keys []string
	// TPM are those that are known.
	TPM attest.TPMTrust
	// RIMs are manifests of the measurements of GPUs.
	RIMs []*attest.RIM
}

// Mask says which bits must be set and which must be clear. Nil is the default.
type Mask struct {
	Set   *attest.Bits `yaml:"set"`
	Clear *attest.Bits `yaml:"clear"`
}

func (m Mask) named() bool { return m.Set != nil || m.Clear != nil }

// bits returns the mask with the bits that must be set unless it says otherwise: that no bit must be, or that these must be clear.
func (m Mask) bits(set attest.Bits) (wantSet, wantClear attest.Bits) {
	if m.Clear != nil {
		wantClear = *m.Clear
	}
	switch set &^= wantClear; {
	case m.Set == nil:
	case *m.Set == 0:
		set = 0
	default:
		set |= *m.Set
	}
	return set, wantClear
}

// wantsTEE reports whether a key's signature cannot be enough.
func (p *Policy) wantsTEE() bool {
	return len(p.Formats) > 0 || len(p.Measurements) > 0 || len(p.Registers) > 0 || len(p.RIMs) > 0 || len(p.MinTCB) > 0 || len(p.Platform) > 0 ||
		p.VMPL > 0 || p.Attributes.named() || p.XFAM.named()
}

// file is a policy as users write it.
type file struct {
	TEE          []string          `yaml:"tee"`
	Measurements []string          `yaml:"measurements"`
	Registers    map[string]string `yaml:"registers"`
	Debug        bool              `yaml:"debug"`
	Migration    bool              `yaml:"migration"`
	MinTCB       map[string]minTCB `yaml:"min_tcb"`
	TCB          string            `yaml:"tcb"`
	VMPL         uint32            `yaml:"vmpl"`
	Platform     map[string]bool   `yaml:"platform"`
	Attributes   Mask              `yaml:"attributes"`
	XFAM         Mask              `yaml:"xfam"`
	MaxAge       string            `yaml:"max_age"`
	Nonce        string            `yaml:"nonce"`
	Keys         []string          `yaml:"keys"`      // in PEM
	TPMRoots     []string          `yaml:"tpm_roots"` // in PEM
	TPMKeys      []string          `yaml:"tpm_keys"`
}

// minTCB is the minimum of a product: its parts by name, or 16 hex digits.
type minTCB struct {
	parts map[string]uint8
	whole string
}

// UnmarshalYAML reads either form. Digits alone are text here, whatever number YAML takes them for.
func (m *minTCB) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		m.whole = n.Value
		return nil
	}
	return n.Decode(&m.parts)
}

func (m *minTCB) tcb(product string) (t attest.TCB, err error) {
	if m.parts != nil {
		return attest.ComposeTCB(product, m.parts)
	}
	return t, t.UnmarshalText([]byte(m.whole))
}

// checkValues refuses what YAML reads as nothing: a key without a value, an empty list, and what follows a first document. A policy
// must not be weaker than it looks.
func checkValues(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var n yaml.Node
	if err := d.Decode(&n); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("a policy is one YAML document; remove the line --- and everything after this line")
	}
	for _, top := range n.Content {
		if top.Tag != "!!null" { // comments alone: nothing is demanded
			return checkNode(top)
		}
	}
	return nil
}

func checkNode(n *yaml.Node) error {
	switch {
	case n.Tag == "!!null":
		return fmt.Errorf("line %d: a value is missing; write a value, or remove the key", n.Line)
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return fmt.Errorf("line %d: the list is empty; write entries, or remove the key", n.Line)
	}
	for _, c := range n.Content {
		if err := checkNode(c); err != nil {
			return err
		}
	}
	return nil
}

// ReadPolicy reads a policy file.
func ReadPolicy(text []byte) (Policy, error) {
	var f file
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return Policy{}, err
	}
	if err := checkValues(text); err != nil {
		return Policy{}, err
	}
	p := Policy{Formats: f.TEE, Measurements: f.Measurements, Registers: f.Registers, Debug: f.Debug, Migration: f.Migration, MinTCB: map[string]attest.TCB{},
		TCBUnchecked: f.TCB == "unchecked", VMPL: f.VMPL, Platform: f.Platform, Attributes: f.Attributes, XFAM: f.XFAM, Nonce: f.Nonce}
	if f.TCB != "" && !p.TCBUnchecked {
		return Policy{}, fmt.Errorf("tcb %q: want unchecked, or a minimum in min_tcb", f.TCB)
	}
	for product, m := range f.MinTCB {
		if !slices.Contains(attest.TCBProducts(), product) {
			return Policy{}, fmt.Errorf("min_tcb %q: want %s", product, strings.Join(attest.TCBProducts(), ", "))
		}
		t, err := m.tcb(product)
		if err != nil {
			return Policy{}, fmt.Errorf("min_tcb %s: %w: write {%s}, or the 16 hex digits of the whole TCB", product, err, strings.ReplaceAll(t.Parts(product), " 0", " N"))
		}
		p.MinTCB[product] = t
	}
	for n, k := range f.Keys {
		id, err := PublicKey([]byte(k))
		if err != nil {
			return Policy{}, fmt.Errorf("key %d: %w", n+1, err)
		}
		p.Keys = append(p.Keys, id)
	}
	for n, k := range f.TPMRoots {
		if p.TPM.Roots == nil {
			p.TPM.Roots = x509.NewCertPool()
		}
		if !p.TPM.Roots.AppendCertsFromPEM([]byte(k)) {
			return Policy{}, fmt.Errorf("tpm_roots %d: want certificates in PEM", n+1)
		}
	}
	p.TPM.Keys = f.TPMKeys
	if f.MaxAge != "" {
		d, err := time.ParseDuration(f.MaxAge)
		if err != nil || d <= 0 {
			return Policy{}, fmt.Errorf("max_age %q: want a duration like 24h", f.MaxAge)
		}
		p.MaxAge = d
	}
	return p, p.Check()
}

// Check finds what no evidence could be compared with.
func (p *Policy) Check() error {
	all := []string{"tdx", "sev-snp", "nitro", "tpm", gpu}
	for _, f := range p.Formats {
		if !slices.Contains(all, f) {
			return fmt.Errorf("tee %q: want %s", f, strings.Join(all, ", "))
		}
	}
	for _, m := range p.Measurements {
		if err := digest(m, 48); err != nil {
			return fmt.Errorf("measurement %q: %w", m, err)
		}
	}
	for _, k := range p.TPM.Keys {
		if b, err := base64.RawStdEncoding.DecodeString(strings.TrimPrefix(k, "SHA256:")); err != nil || len(b) != 32 || !strings.HasPrefix(k, "SHA256:") {
			return fmt.Errorf("tpm_keys %q: want SHA256: and 43 characters, as verify prints the key", k)
		}
	}
	for name, v := range p.Registers {
		if !registerName.MatchString(name) {
			return fmt.Errorf("register %q: want %s", name, registerNames)
		}
		if err := digest(v, 48, 32, 64, 16); err != nil {
			return fmt.Errorf("register %s %q: %w", name, v, err)
		}
	}
	if err := p.checkProtection(); err != nil {
		return err
	}
	return checkNonce(p.Nonce)
}

// The registers that evidence has.
const registerNames = "rtmr0 to rtmr3, mrseam, mrsignerseam, mrconfigid, mrowner, mrownerconfig, host_data, id_key_digest, author_key_digest, family_id, image_id, chip_id, pcr0 ..., gpu0_m1 ..."

var registerName = regexp.MustCompile(`^(rtmr[0-3]|mrseam|mrsignerseam|mrconfigid|mrowner|mrownerconfig|host_data|id_key_digest|author_key_digest|family_id|image_id|chip_id|pcr\d{1,2}|gpu\d+_m\d+)$`)

// checkProtection finds what is said of a TEE's protection and cannot be meant.
func (p *Policy) checkProtection() error {
	for product, t := range p.MinTCB {
		switch {
		case t == 0:
			return fmt.Errorf("min_tcb %s: a minimum of 0 accepts any firmware; to accept any firmware, write tcb: unchecked instead", product)
		case !t.ReservedAreZero(product):
			return fmt.Errorf("min_tcb %s %s: this TCB has levels in reserved bytes; a %s processor has only %s", product, t, product, t.Parts(product))
		}
	}
	if p.TCBUnchecked && len(p.MinTCB) > 0 {
		return errors.New("tcb: unchecked and min_tcb contradict each other; remove one of these keys")
	}
	if p.VMPL > attest.MostVMPL {
		return fmt.Errorf("vmpl %d: want 0 to %d", p.VMPL, attest.MostVMPL)
	}
	for name := range p.Platform {
		if !attest.KnownPlatformFact(name) {
			return fmt.Errorf("platform %q: want %s, or bit6 for a bit without a name", name, strings.Join(attest.PlatformFacts(), ", "))
		}
	}
	for name, m := range map[string]Mask{"attributes": p.Attributes, "xfam": p.XFAM} {
		if on, off := m.bits(0); on&off != 0 {
			return fmt.Errorf("%s: %s must be both set and clear", name, on&off)
		}
	}
	set, _ := p.Attributes.bits(0)
	switch {
	case set&attest.TDUnderDebug != 0 && !p.Debug:
		return fmt.Errorf("attributes: set has %s, which needs debug: true in the policy", (set & attest.TDUnderDebug).Attributes())
	case set&attest.TDMigratable != 0 && !p.Migration:
		return fmt.Errorf("attributes: set has %s, which needs migration: true in the policy", attest.TDMigratable.Attributes())
	}
	return nil
}

// digest says whether a text is hex of one of some sizes.
func digest(s string, sizes ...int) error {
	b, err := hex.DecodeString(s)
	if err != nil || !slices.Contains(sizes, len(b)) || s != hex.EncodeToString(b) {
		return fmt.Errorf("want %d bytes as hex in lower case", sizes[0])
	}
	return nil
}
