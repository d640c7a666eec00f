package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/attest"
)

// Accept returns nil if the policy accepts a peer's evidence about the binding of a handshake. What Verify wants of a
// result's evidence is wanted here; what it leaves open, for lack of collateral or of a key of the policy, is refused. Roots are
// those of the vendors, except in tests.
func (p *Policy) Accept(ctx context.Context, evidence []byte, binding [attest.Size]byte, c attest.Collateral, now time.Time, roots attest.Trust) error {
	e, err := attest.Unpack(evidence)
	if err != nil {
		return err
	}
	i, err := attest.Inspect(ctx, e, c, now, p.trust(roots))
	if err != nil {
		return err
	}
	if i.Facts.TEE == "simulated" {
		return errors.New("no hardware vouches for a simulated quote")
	}
	if i.Facts.GPUs != nil {
		return errors.New("a GPU's report proves nothing about the machine where the channel ends")
	}
	var r Report
	r.test("binding", i.IsBoundTo(binding), "", "the evidence is about another handshake: replayed, or passed on by somebody in between")
	r.environment(i, *p, now)
	for _, c := range []*Check{r.failed(), r.lacking()} {
		if c != nil {
			return fmt.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	return nil
}

// ForChannel refuses what a policy says of results only.
func (p *Policy) ForChannel() error {
	switch {
	case p.Nonce != "":
		return errors.New("nonce: a nonce is only for results; the evidence of a channel is always about the channel's own handshake")
	case len(p.RIMs) > 0 || slices.Contains(p.Formats, gpu):
		return errors.New("nvidia-gpu: a GPU's report proves nothing about the machine where the channel ends")
	case len(p.Keys) > 0:
		return errors.New("keys: keys are only for signed results; a channel needs the evidence of a TEE")
	}
	return nil
}
