// Package attest gets evidence from a TEE that is bound to 64 bytes of the caller's,
// and verifies it. It takes no cryptography into its own hands: what hardware signed
// is verified by the libraries of go-tdx-guest and go-sev-guest. The one provider
// that no hardware vouches for says so in its name and in its evidence.
package attest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// mostQuote bounds evidence; that of hardware is below 16 KiB.
const mostQuote = 64 << 10

// Size is how many bytes of the caller's evidence is bound to: REPORTDATA of TDX,
// REPORT_DATA of SEV-SNP.
const Size = 64

// Evidence is what a provider answers.
type Evidence struct {
	// Format says how to verify it: the name of the kernel's provider ("tdx_guest",
	// "sev_guest"), or "simulated".
	Format string
	// Quote is the evidence, Aux what came with it (SEV-SNP: the certificates).
	Quote, Aux []byte
}

// Quoter is an open provider. It is safe for concurrent use.
type Quoter interface {
	// Quote gets evidence that is bound to data.
	Quote(ctx context.Context, data [Size]byte) (*Evidence, error)
}

// Settings are those of a provider without hardware; others do not use them.
type Settings struct {
	// Delay is what a quote takes, Parallel how many are made at once; further ones
	// wait for their turn. Fetch is what fetching collateral takes.
	Delay, Fetch time.Duration
	Parallel     int
}

// Provider is a source of evidence.
type Provider struct {
	Name, Doc string
	// Simulated: no hardware vouches for what it says, and its times are those of
	// Settings.
	Simulated bool
	// Open returns the device and the service that has the collateral of its
	// evidence. Its error wraps errors.ErrUnsupported where there is no such device.
	Open func(Settings) (Quoter, Collateral, error)
}

// Providers are all of them.
var Providers = []*Provider{&configfsTSM, &simulated}

// Find finds a provider by name.
func Find(name string) (*Provider, error) {
	for _, p := range Providers {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("provider %q: want %s or %s", name, configfsTSM.Name, simulated.Name)
}

// Collateral is what a verifier needs besides the evidence (certificates, TCB levels,
// revocation lists), by URL. It has the form of the getters of go-tdx-guest.
type Collateral interface {
	Get(url string) (header map[string][]string, body []byte, err error)
}

// ErrNotBound is wrapped when evidence is genuine and of other data: replayed, say.
var ErrNotBound = errors.New("the evidence is bound to other data")

// Verify says whether evidence is genuine at a time and bound to data. It wraps
// errors.ErrUnsupported where the format is unknown.
func Verify(e *Evidence, data [Size]byte, c Collateral, now time.Time) error {
	verify, ok := map[string]func(*Evidence, Collateral, time.Time) ([]byte, error){
		tdxFormat: verifyTDX, sevFormat: verifySEV, simulatedFormat: verifySimulated,
	}[e.Format]
	if !ok {
		return fmt.Errorf("verify evidence of format %q: %w", e.Format, errors.ErrUnsupported)
	}
	if len(e.Quote) > mostQuote || len(e.Aux) > mostQuote {
		return fmt.Errorf("verify evidence of format %s: %d and %d bytes: too large for this format", e.Format, len(e.Quote), len(e.Aux))
	}
	bound, err := verify(e, c, now)
	if err != nil {
		return fmt.Errorf("verify evidence of format %s: %w", e.Format, err)
	}
	if string(bound) != string(data[:]) {
		return ErrNotBound
	}
	return nil
}

// Cached is a collateral that is fetched once.
func Cached(c Collateral) Collateral { return &cache{from: c, have: map[string]answer{}} }

type cache struct {
	from Collateral
	mu   sync.Mutex
	have map[string]answer
}

type answer struct {
	header map[string][]string
	body   []byte
}

// Get asks the collateral behind it once for each URL; errors are not kept.
func (c *cache) Get(url string) (map[string][]string, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.have[url]; ok {
		return a.header, a.body, nil
	}
	header, body, err := c.from.Get(url)
	if err != nil {
		return nil, nil, err
	}
	c.have[url] = answer{header, body}
	return header, body, nil
}
