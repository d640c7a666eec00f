package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/attest"
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

// Peer judges the other side of a channel by a policy, as a Verifier of package channel. What
// Verify wants of a result's evidence is wanted here; what it leaves open for lack of collateral
// is refused.
type Peer struct {
	Policy     Policy
	Collateral attest.Collateral
	Now        func() time.Time
	// Roots are those of the vendors, except in tests.
	Roots attest.Trust
}

// Verify returns nil if the policy accepts the peer's evidence. The vendor's services do not
// take a context: it ends when the caller gives up, and they go on.
func (p *Peer) Verify(ctx context.Context, evidence []byte, binding [attest.Size]byte) error {
	judged := make(chan error, 1)
	go func() { judged <- p.judge(evidence, binding) }()
	select {
	case err := <-judged:
		return err
	case <-ctx.Done():
		return fmt.Errorf("verify the evidence: %w", ctx.Err())
	}
}

func (p *Peer) judge(evidence []byte, binding [attest.Size]byte) error {
	e, err := attest.Unpack(evidence)
	if err != nil {
		return err
	}
	now := p.Now()
	i, err := attest.Inspect(e, p.Collateral, now, p.Policy.trust(p.Roots))
	if err != nil {
		return err
	}
	if i.Facts.TEE == "simulated" {
		return errors.New("no hardware vouches for a simulated quote")
	}
	if i.Facts.GPUs != nil {
		return errors.New("a GPU's report says nothing of the machine in which the channel ends")
	}
	var r Report
	r.test("binding", i.About(binding), "", "the evidence is about another handshake: replayed, or passed on by somebody in between")
	r.environment(i, p.Policy, now)
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
		return errors.New("nonce: it is for results; the evidence of a channel is always about its own handshake")
	case len(p.RIMs) > 0 || slices.Contains(p.Formats, gpu):
		return errors.New("nvidia-gpu: a GPU's report says nothing of the machine in which the channel ends")
	case len(p.Keys) > 0:
		return errors.New("keys: they are for signed results; a channel needs the evidence of a TEE")
	}
	return nil
}
