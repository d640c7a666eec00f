package proof

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/attest"
)

// Policy is what a verifier wants of the evidence. The zero value wants a genuine TEE
// with a current TCB that is not in debug mode, whatever runs in it.
type Policy struct {
	// Formats are the TEEs that count: "tdx", "sev-snp", "nitro", and "tpm" and "nvidia-gpu", which
	// are none of the environment. Empty is all but the GPUs.
	Formats []string
	// Measurements are the ones of which the environment must have one, in hex.
	Measurements []string
	// Registers must all have these values, in hex: "rtmr1", "pcr8", "host_data".
	Registers map[string]string
	// Debug allows environments that the host can look into.
	Debug bool
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

// wantsTEE reports whether a key's signature cannot be enough.
func (p *Policy) wantsTEE() bool {
	return len(p.Formats) > 0 || len(p.Measurements) > 0 || len(p.Registers) > 0 || len(p.RIMs) > 0
}

// file is a policy as users write it.
type file struct {
	TEE          []string          `yaml:"tee"`
	Measurements []string          `yaml:"measurements"`
	Registers    map[string]string `yaml:"registers"`
	Debug        bool              `yaml:"debug"`
	MaxAge       string            `yaml:"max_age"`
	Nonce        string            `yaml:"nonce"`
	Keys         []string          `yaml:"keys"`      // in PEM
	TPMRoots     []string          `yaml:"tpm_roots"` // in PEM
	TPMKeys      []string          `yaml:"tpm_keys"`
}

// ReadPolicy reads a policy file.
func ReadPolicy(text []byte) (Policy, error) {
	var f file
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return Policy{}, err
	}
	p := Policy{Formats: f.TEE, Measurements: f.Measurements, Registers: f.Registers, Debug: f.Debug, Nonce: f.Nonce}
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
			return fmt.Errorf("tpm_keys %q: want SHA256: and 43 characters, as verify prints it", k)
		}
	}
	for name, v := range p.Registers {
		if err := digest(v, 48, 32); err != nil {
			return fmt.Errorf("register %s %q: %w", name, v, err)
		}
	}
	return checkNonce(p.Nonce)
}

// digest says whether a text is hex of one of some sizes.
func digest(s string, sizes ...int) error {
	b, err := hex.DecodeString(s)
	if err != nil || !slices.Contains(sizes, len(b)) || s != hex.EncodeToString(b) {
		return fmt.Errorf("want %d bytes as hex in lower case", sizes[0])
	}
	return nil
}
