// Package peer proves this side of a channel, and judges the other (docs/channel.md).
package peer

import (
	"context"
	"fmt"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/proof"
)

// Self makes evidence of this machine, as an Attester of package channel.
type Self struct{ attest.Quoter }

// Attest gets a quote about the binding of a handshake.
func (s Self) Attest(ctx context.Context, binding [attest.Size]byte) ([]byte, error) {
	e, err := s.Quote(ctx, binding)
	if err != nil {
		return nil, err
	}
	return e.Pack()
}

// Other judges the other side of a channel by a policy, as a Verifier of package channel.
type Other struct {
	Policy     proof.Policy
	Collateral attest.Collateral
	Now        func() time.Time
	// Roots are those of the vendors, except in tests.
	Roots attest.Trust
}

// Verify returns nil if the policy accepts the peer's evidence. What it fetches ends with the context,
// so nothing goes on after a handshake that timed out.
func (o *Other) Verify(ctx context.Context, evidence []byte, binding [attest.Size]byte) error {
	err := o.Policy.Accept(ctx, evidence, binding, o.Collateral, o.Now(), o.Roots)
	if ctx.Err() != nil { // the libraries do not wrap the error of a fetch
		return fmt.Errorf("verify the evidence: %w", ctx.Err())
	}
	return err
}
