package channel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
)

// Mock makes evidence without a TEE, for tests and for measurements of everything
// except the quote: an Ed25519 signature over a measurement and the binding, by a key
// that no hardware protects. It proves nothing.
type Mock struct {
	Measurement [48]byte
	key         ed25519.PrivateKey
}

const mockHead = "teescope mock evidence, proves nothing\x00"

// NewMock makes a Mock; equal secrets give the same key, in any process.
func NewMock(secret string) *Mock {
	seed := sha256.Sum256([]byte(secret))
	return &Mock{key: ed25519.NewKeyFromSeed(seed[:])}
}

// Attest is that of Attester.
func (m *Mock) Attest(_ context.Context, binding [64]byte) ([]byte, error) {
	said := append(append([]byte(mockHead), m.Measurement[:]...), binding[:]...)
	return append(said, ed25519.Sign(m.key, said)...), nil
}

// Verify is that of Verifier; it accepts only this Mock's evidence.
func (m *Mock) Verify(_ context.Context, evidence []byte, binding [64]byte) error {
	want := append(append([]byte(mockHead), m.Measurement[:]...), binding[:]...)
	signature, ok := bytes.CutPrefix(evidence, want)
	switch {
	case !ok && !bytes.HasPrefix(evidence, []byte(mockHead)):
		return errors.New("it is not mock evidence")
	case !ok:
		return errors.New("it is of another program or another session")
	case !ed25519.Verify(m.key.Public().(ed25519.PublicKey), want, signature):
		return errors.New("its signature is wrong")
	}
	return nil
}
