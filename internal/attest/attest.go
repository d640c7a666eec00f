// Package attest gets evidence from a TEE that is bound to 64 bytes of the caller's,
// and verifies it. It takes no cryptography into its own hands: what hardware signed
// is verified by the libraries of go-tdx-guest, go-sev-guest, go-cose and go-tpm, and reports of NVIDIA's
// GPUs by Go's own. The one provider that no hardware vouches for says so in its name and in its evidence.
package attest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// mostQuote bounds evidence; that of TEEs is below 16 KiB. That of a TPM has an event log.
const (
	mostQuote = 64 << 10
	mostTPM   = 1 << 20
)

// Size is how many bytes of the caller's evidence is bound to: REPORTDATA of TDX,
// REPORT_DATA of SEV-SNP.
const Size = 64

// Evidence is what a provider answers.
type Evidence struct {
	// Format says how to verify it: the name of the kernel's provider ("tdx_guest",
	// "sev_guest"), "nitro", "tpm2", "nvidia_gpu", or "simulated".
	Format string
	// Quote is the evidence, Aux what came with it (SEV-SNP, NVIDIA: the certificates).
	Quote, Aux []byte
}

// Quoter is an open provider. It is safe for concurrent use.
type Quoter interface {
	// Quote gets evidence that is bound to data.
	Quote(ctx context.Context, data [Size]byte) (*Evidence, error)
}

// Settings are those of a provider without hardware, of a TPM and of GPUs; others do not use them.
type Settings struct {
	// Delay is what a quote takes, Parallel how many are made at once; further ones
	// wait for their turn. Fetch is what fetching collateral takes.
	Delay, Fetch time.Duration
	Parallel     int
	// TPM says which TPM is used.
	TPM TPMSettings
	// NVIDIA is the command that asks GPUs, with {nonce} for the nonce; "" is NVIDIACommand.
	NVIDIA string
}

// Provider is a source of evidence.
type Provider struct {
	Name, Doc string
	// Named: it is no TEE, so it is used only where somebody names it.
	Named bool
	// Device: the evidence is of a device, and says nothing of the machine around it.
	Device bool
	// Simulated: no hardware vouches for what it says, and its times are those of
	// Settings.
	Simulated bool
	// Open returns the device and the service that has the collateral of its
	// evidence. Its error wraps errors.ErrUnsupported where there is no such device.
	Open func(Settings) (Quoter, Collateral, error)
}

// Providers are all of them.
var Providers = []*Provider{&configfsTSM, &nitro, &tpm, &nvidia, &simulated}

// Find finds a provider by name.
func Find(name string) (*Provider, error) {
	for _, p := range Providers {
		if p.Name == name {
			return p, nil
		}
	}
	var names []string
	for _, p := range Providers {
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("provider %q: want %s", name, strings.Join(names, " or "))
}

// Collateral is what a verifier needs besides the evidence (certificates, TCB levels,
// revocation lists), by URL. Get ends when its context does.
type Collateral interface {
	Get(ctx context.Context, url string) (header map[string][]string, body []byte, err error)
}

// ErrNotBound is wrapped when evidence is genuine and of other data: replayed, say.
var ErrNotBound = errors.New("the evidence is bound to other data")

// Verify says whether evidence is genuine at a time and bound to data. It wraps
// errors.ErrUnsupported where the format is unknown.
func Verify(ctx context.Context, e *Evidence, data [Size]byte, c Collateral, now time.Time) error {
	i, err := Inspect(ctx, e, c, now, Trust{})
	if err != nil {
		return err
	}
	for _, err := range []error{i.Signature, i.Standing} {
		if err != nil && !errors.Is(err, ErrNonePublished) {
			return fmt.Errorf("verify evidence of format %s: %w", e.Format, err)
		}
	}
	if !i.IsBoundTo(data) {
		return ErrNotBound
	}
	return nil
}

// packed is evidence as bytes: CBOR with small keys, as quotes are not text.
type packed struct {
	Format string `cbor:"1,keyasint"`
	Quote  []byte `cbor:"2,keyasint"`
	Aux    []byte `cbor:"3,keyasint,omitempty"`
}

// Pack writes evidence as one string of bytes, for a channel.
func (e *Evidence) Pack() ([]byte, error) { return cbor.Marshal(packed(*e)) }

// Unpack reads what Pack has written, or anything else that a peer sent.
func Unpack(b []byte) (*Evidence, error) {
	var p packed
	strict, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	if err == nil {
		err = strict.Unmarshal(b, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("read evidence of %d bytes: %w", len(b), err)
	}
	e := Evidence(p)
	return &e, nil
}
