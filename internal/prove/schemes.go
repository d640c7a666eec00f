package prove

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark/backend/groth16"
	"github.com/consensys/gnark/backend/plonk"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/frontend/cs/r1cs"
	"github.com/consensys/gnark/frontend/cs/scs"
	"github.com/consensys/gnark/test/unsafekzg"
)

// curve is that of all proofs.
const curve = ecc.BN254

// key is a proving or verifying key.
type key interface {
	// WriteRawTo writes points uncompressed, which are read many times faster.
	WriteRawTo(io.Writer) (int64, error)
	// UnsafeReadFrom does not check that points are in their subgroup: keys are our own, and the digest of their file was checked.
	UnsafeReadFrom(io.Reader) (int64, error)
}

// scheme is a proof system.
type scheme struct {
	name, doc string
	builder   frontend.NewBuilder
	setUp     func(constraint.ConstraintSystem) (proving, verifying key, err error)
	empty     func() (proving, verifying key)
	prove     func(cs constraint.ConstraintSystem, proving key, full witness.Witness) (io.WriterTo, error)
	verify    func(proof io.Reader, verifying key, public witness.Witness) error
}

// schemes are those known. In both, whoever makes the set-up could keep its secrets and forge proofs. Here one process makes it, so
// the keys are for measurements and for nothing else.
var schemes = []*scheme{&groth, &plonkish}

var groth = scheme{
	name: "groth16", doc: "the smallest proofs; a set-up for each circuit",
	builder: r1cs.NewBuilder[constraint.U64],
	setUp: func(cs constraint.ConstraintSystem) (key, key, error) {
		p, v, err := groth16.Setup(cs)
		return p, v, err
	},
	empty: func() (key, key) { return groth16.NewProvingKey(curve), groth16.NewVerifyingKey(curve) },
	prove: func(cs constraint.ConstraintSystem, proving key, full witness.Witness) (io.WriterTo, error) {
		return groth16.Prove(cs, proving.(groth16.ProvingKey), full)
	},
	verify: func(proof io.Reader, verifying key, public witness.Witness) error {
		p := groth16.NewProof(curve)
		if _, err := p.ReadFrom(proof); err != nil {
			return fmt.Errorf("read the proof: %w", err)
		}
		return groth16.Verify(p, verifying.(groth16.VerifyingKey), public)
	},
}

var plonkish = scheme{
	name: "plonk", doc: "a set-up that serves all circuits of its size (KZG); here made with known secrets, as a test is",
	builder: scs.NewBuilder[constraint.U64],
	setUp: func(cs constraint.ConstraintSystem) (key, key, error) {
		canonical, lagrange, err := unsafekzg.NewSRS(cs)
		if err != nil {
			return nil, nil, err
		}
		p, v, err := plonk.Setup(cs, canonical, lagrange)
		return p, v, err
	},
	empty: func() (key, key) { return plonk.NewProvingKey(curve), plonk.NewVerifyingKey(curve) },
	prove: func(cs constraint.ConstraintSystem, proving key, full witness.Witness) (io.WriterTo, error) {
		return plonk.Prove(cs, proving.(plonk.ProvingKey), full)
	},
	verify: func(proof io.Reader, verifying key, public witness.Witness) error {
		p := plonk.NewProof(curve)
		if _, err := p.ReadFrom(proof); err != nil {
			return fmt.Errorf("read the proof: %w", err)
		}
		return plonk.Verify(p, verifying.(plonk.VerifyingKey), public)
	},
}

// accepts verifies a proof from its bytes, the verifying key and the expected public values. If the proof is wrong, of another
// circuit or about other values, the error wraps errRefused.
func (s *scheme) accepts(proof []byte, verifying key, public witness.Witness) (err error) {
	defer func() { // package gnark indexes a proof of another circuit out of range
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: the verifier crashed: %v", errRefused, v)
		}
	}()
	rest := bytes.NewReader(proof)
	if err := s.verify(rest, verifying, public); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if rest.Len() > 0 {
		return fmt.Errorf("%w: %d bytes follow it", errRefused, rest.Len())
	}
	return nil
}

// bytesOf is the encoding of a proof.
func bytesOf(proof io.WriterTo) ([]byte, error) {
	var b bytes.Buffer
	if _, err := proof.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("encode the proof: %w", err)
	}
	if b.Len() == 0 {
		return nil, errors.New("the proof is empty")
	}
	return b.Bytes(), nil
}
