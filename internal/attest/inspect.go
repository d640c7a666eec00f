package attest

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	sevtrust "github.com/google/go-sev-guest/verify/trust"
)

// Inspection is what was found out about evidence.
type Inspection struct {
	// Data is what the evidence is bound to; bind makes that of what was asked for, where it is not the same.
	Data  []byte
	bind  func(asked []byte) []byte
	Facts Facts
	// Signature is nil if the hardware's signature and the certificates up to the vendor's
	// root are good. Without that the other fields mean nothing.
	Signature error
	// Standing is nil if the vendor's collateral says that the TCB is current and nothing is
	// revoked. It wraps ErrNoCollateral where that is not at hand, ErrNonePublished where
	// the vendor has none, and ErrNotRead where teescope does not read it.
	Standing error
}

// IsBoundTo reports whether the evidence is bound to what was asked for.
func (i *Inspection) IsBoundTo(asked [Size]byte) bool {
	want := asked[:]
	if i.bind != nil {
		want = i.bind(want)
	}
	return bytes.Equal(i.Data, want)
}

// Facts are what evidence says of the environment that asked for it.
type Facts struct {
	TEE string `json:"tee"` // "tdx", "sev-snp", "nitro", "tpm", "nvidia-gpu", "simulated"
	// NoTEE: it says what was started, and nothing protects that from the host.
	NoTEE bool `json:"no_tee,omitempty"`
	// Measurement is that of what was started, in hex: MRTD, MEASUREMENT or PCR0. Registers
	// are further ones by name; those that are all zero are not written.
	Measurement string    `json:"measurement,omitempty"`
	Registers   Registers `json:"registers,omitzero"`
	// SNP and TDX are what evidence of these kinds says of the environment's protection.
	SNP *SNP `json:"sev_snp,omitempty"`
	TDX *TDX `json:"tdx,omitempty"`
	// GPUs are those that the evidence is of, which then says nothing of the environment around them.
	GPUs []GPU `json:"gpus,omitempty"`
	// Debug: the host may read, change or profile what is inside; nil where evidence does not say (a TPM, a GPU).
	Debug *bool `json:"debug,omitempty"`
	// TCB are the versions of firmware and microcode, in words.
	TCB string `json:"tcb,omitempty"`
	// Key is the fingerprint of a TPM's attestation key, EventLog what its log explains.
	Key      string `json:"key,omitempty"`
	EventLog string `json:"event_log,omitempty"`
	// Time is the hardware's own; most has none.
	Time *time.Time `json:"time,omitempty"`
}

// The reasons why the standing of evidence is not known.
var (
	ErrNoCollateral  = errors.New("no collateral")
	ErrNonePublished = errors.New("the vendor publishes none")
	ErrNotRead       = errors.New("not read")
)

// Trust are the roots that evidence must lead to. The zero value has those of the vendors,
// as the libraries hold them; a test has its own.
type Trust struct {
	TDX *x509.CertPool
	SEV map[string][]*sevtrust.AMDRootCerts
	// Nitro and NVIDIA are the SHA-256 of the root certificate.
	Nitro, NVIDIA *[32]byte
	// TPM has no default: anybody can make one.
	TPM TPMTrust
}

// Inspect verifies evidence as of a time, as far as the collateral goes. Its error says that
// it is no evidence at all.
func Inspect(ctx context.Context, e *Evidence, c Collateral, now time.Time, roots Trust) (*Inspection, error) {
	inspect, ok := map[string]func(*Evidence, *watched, time.Time, Trust) (*Inspection, error){
		tdxFormat: inspectTDX, sevFormat: inspectSEV, nitroFormat: inspectNitro, tpmFormat: inspectTPM, nvidiaFormat: inspectNVIDIA, simulatedFormat: inspectSimulated,
	}[e.Format]
	if !ok {
		return nil, fmt.Errorf("verify evidence of format %q: %w", e.Format, errors.ErrUnsupported)
	}
	most := mostQuote
	switch e.Format {
	case tpmFormat:
		most = mostTPM
	case nvidiaFormat:
		most = mostNVIDIA
	}
	if len(e.Quote) > most || len(e.Aux) > most {
		return nil, fmt.Errorf("verify evidence of format %s: a quote of %d bytes and certificates of %d bytes are too large for this format", e.Format, len(e.Quote), len(e.Aux))
	}
	quiet()
	return unbroken(func() (*Inspection, error) {
		i, err := inspect(e, &watched{ctx: ctx, from: c}, now, roots)
		if err != nil {
			return nil, fmt.Errorf("verify evidence of format %s: %w", e.Format, err)
		}
		return i, nil
	})
}

// unbroken returns a panic as an error: the libraries take lengths in evidence at their word.
func unbroken(f func() (*Inspection, error)) (i *Inspection, err error) {
	defer func() {
		if p := recover(); p != nil {
			i, err = nil, fmt.Errorf("verify evidence: the evidence is malformed (%v)", p)
		}
	}()
	return f()
}

// watched is a collateral in the form of go-tdx-guest's getters, which take no context. It knows
// whether it lacked something, as the libraries do not wrap its error.
type watched struct {
	ctx     context.Context
	from    Collateral
	missing string
}

func (w *watched) Get(url string) (map[string][]string, []byte, error) {
	header, body, err := w.from.Get(w.ctx, url)
	if errors.Is(err, ErrNoCollateral) {
		w.missing = url
	}
	return header, body, err
}

// collateralError returns the error of a verification that may have lacked collateral.
func (w *watched) collateralError(err error) error {
	if err != nil && w.missing != "" {
		return fmt.Errorf("%w: %s is not stored", ErrNoCollateral, w.missing)
	}
	return err
}

// Fetched is a piece of collateral.
type Fetched struct {
	URL    string
	Header map[string][]string
	Body   []byte
}

// Stored is collateral that was fetched before.
type Stored []Fetched

// Get never asks anybody.
func (s Stored) Get(_ context.Context, url string) (map[string][]string, []byte, error) {
	for _, f := range s {
		if f.URL != url {
			continue
		}
		for name, values := range f.Header {
			if spelled, err := issuers(values); err != nil || !slices.Equal(spelled, values) || name != tcbChain && name != identityChain {
				return nil, nil, fmt.Errorf("read %s: the header %s does not have the form in which teescope stores headers", url, name)
			}
		}
		if !bytes.Equal(oneSpelling(f.Body), f.Body) {
			return nil, nil, fmt.Errorf("read %s: the body does not have the form in which teescope stores bodies", url)
		}
		return f.Header, f.Body, nil
	}
	return nil, nil, fmt.Errorf("fetch %s: %w", url, ErrNoCollateral)
}

// Recorder is a collateral that keeps what it got, to be stored.
type Recorder struct {
	From Collateral

	mu  sync.Mutex
	got map[string]Fetched
}

// Get asks the collateral behind it.
func (r *Recorder) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	header, body, err := r.From.Get(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got == nil {
		r.got = map[string]Fetched{}
	}
	f := Fetched{URL: url, Body: oneSpelling(body)}
	for _, name := range []string{tcbChain, identityChain} { // the headers that are read
		if values, ok := header[name]; ok {
			chain, err := issuers(values)
			if err != nil {
				return nil, nil, fmt.Errorf("fetch %s: %s: %w", url, name, err)
			}
			f.Header = map[string][]string{name: chain}
		}
	}
	r.got[url] = f
	return header, body, nil
}

// Stored returns what was fetched, in the order of addresses.
func (r *Recorder) Stored() Stored {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s Stored
	for _, url := range slices.Sorted(maps.Keys(r.got)) {
		s = append(s, r.got[url])
	}
	return s
}
