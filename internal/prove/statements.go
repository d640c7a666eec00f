package prove

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"

	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/std/hash/sha2"
	"github.com/consensys/gnark/std/math/emulated"
	"github.com/consensys/gnark/std/math/uints"
)

// statement is what can be proved.
type statement struct {
	name, doc string
	// least and most bound the number of bytes that the circuit hashes; both are 0 for one that hashes none, and equal where
	// the number is fixed.
	least, most int
	// blank is the circuit to be compiled, for an input of that many bytes.
	blank func(bytes int) frontend.Circuit
	// truth is the circuit with its values. If changed, one bit of its public values is another, and the statement is false.
	truth func(bytes int, changed bool) frontend.Circuit
	// holds checks the statement outside the circuit.
	holds func(bytes int) error
}

// statements are those known.
var statements = []*statement{&rsaSignature, &hashed, &power}

// rsaSignature is the check of a certificate's signature: I know a signature of the public message by the public key.
var rsaSignature = statement{
	name: "rsa-2048", doc: "a 2,048-bit RSA PKCS#1 v1.5 signature over SHA-256 is right; key and message of 64 bytes are public, the signature is secret",
	least: len(signedMessage), most: len(signedMessage),
	blank: func(n int) frontend.Circuit { return &rsaCircuit{Message: make([]uints.U8, n)} },
	truth: func(_ int, changed bool) frontend.Circuit {
		message := []byte(signedMessage)
		if changed {
			message[0] ^= 1
		}
		return &rsaCircuit{
			Modulus:   emulated.ValueOf[ring](number(signedModulus)),
			Message:   uints.NewU8Array(message),
			Signature: emulated.ValueOf[ring](number(signedSignature)),
		}
	},
	holds: func(int) error {
		n := number(signedModulus)
		if n.BitLen() != modulusBits {
			return fmt.Errorf("the key has %d bits, want %d", n.BitLen(), modulusBits)
		}
		sum := sha256.Sum256([]byte(signedMessage))
		return rsa.VerifyPKCS1v15(&rsa.PublicKey{N: n, E: publicExponent}, crypto.SHA256, sum[:], number(signedSignature).FillBytes(make([]byte, modulusBits/8)))
	},
}

const modulusBits = 2048

// ring are the numbers modulo a 2,048-bit modulus, which the circuit gets as a value: package emulated has such parameters for
// 512 and 4,096 bits only.
type ring struct{}

func (ring) NbLimbs() uint     { return modulusBits / limbBits }
func (ring) BitsPerLimb() uint { return limbBits }
func (ring) IsPrime() bool     { return false }
func (ring) Modulus() *big.Int { return new(big.Int).Set(mostModulus) }

const limbBits = 64

var mostModulus = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), modulusBits), big.NewInt(1))

type rsaCircuit struct {
	Modulus   emulated.Element[ring] `gnark:",public"`
	Message   []uints.U8             `gnark:",public"`
	Signature emulated.Element[ring]
}

// encodedPrefix is what comes before the hash in an encoded message of 256 bytes (RFC 8017, section 9.2: 00 01 ff..ff 00 and the
// DigestInfo of SHA-256).
var encodedPrefix = func() []byte {
	info := []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	b := append([]byte{0, 1}, bytes.Repeat([]byte{0xff}, modulusBits/8-3-len(info)-sha256.Size)...)
	return append(append(b, 0), info...)
}()

// Define makes the constraints of Signature^65537 = encoded hash of Message, modulo Modulus.
func (c *rsaCircuit) Define(api frontend.API) error {
	f, err := emulated.NewField[ring](api)
	if err != nil {
		return err
	}
	h, err := sha2.New(api)
	if err != nil {
		return err
	}
	h.Write(c.Message)
	var encoded []frontend.Variable
	for _, b := range encodedPrefix {
		encoded = append(encoded, int(b))
	}
	for _, b := range h.Sum() {
		encoded = append(encoded, b.Val)
	}
	limbs := make([]frontend.Variable, modulusBits/limbBits)
	for i := range limbs { // the least significant limb first; bytes are the most significant first
		const each = limbBits / 8
		end := len(encoded) - i*each
		var limb frontend.Variable = 0
		for _, b := range encoded[end-each : end] {
			limb = api.Add(api.Mul(limb, 256), b)
		}
		limbs[i] = limb
	}
	x := &c.Signature
	for range 16 { // 65537 = 2^16 + 1
		x = f.ModMul(x, x, &c.Modulus)
	}
	x = f.ModMul(x, &c.Signature, &c.Modulus)
	f.ModAssertIsEqual(x, f.NewElement(limbs), &c.Modulus)
	return nil
}

// hashed is SHA-256 alone, for its throughput inside a circuit.
var hashed = statement{
	name: "sha256", doc: "a secret message has a public SHA-256",
	least: 1, most: 1 << 14,
	blank: func(n int) frontend.Circuit { return &hashCircuit{Message: make([]uints.U8, n)} },
	truth: func(n int, changed bool) frontend.Circuit {
		message := filler(n)
		sum := sha256.Sum256(message)
		if changed {
			sum[0] ^= 1
		}
		return &hashCircuit{Sum: [sha256.Size]uints.U8(uints.NewU8Array(sum[:])), Message: uints.NewU8Array(message)}
	},
	holds: func(int) error { return nil }, // truth computes the hash itself
}

type hashCircuit struct {
	Sum     [sha256.Size]uints.U8 `gnark:",public"`
	Message []uints.U8
}

// Define makes the constraints of Sum = SHA-256(Message).
func (c *hashCircuit) Define(api frontend.API) error {
	h, err := sha2.New(api)
	if err != nil {
		return err
	}
	h.Write(c.Message)
	for i, b := range h.Sum() {
		api.AssertIsEqual(b.Val, c.Sum[i].Val)
	}
	return nil
}

// filler returns n deterministic bytes.
func filler(n int) []byte {
	const text = "teescope hashes these words inside and outside of a circuit. "
	return bytes.Repeat([]byte(text), n/len(text)+1)[:n]
}

// power is a circuit of a few constraints, which is set up and proved in a moment. It is for tests of everything else.
var power = statement{
	name: "tiny", doc: "a public number is the 16th power of a secret one; five constraints, to try the workload out",
	blank: func(int) frontend.Circuit { return &powerCircuit{squarings: 4} },
	truth: func(_ int, changed bool) frontend.Circuit {
		const base = 3
		value := new(big.Int).Exp(big.NewInt(base), big.NewInt(1<<4), nil)
		if changed {
			value.Xor(value, big.NewInt(1))
		}
		return &powerCircuit{Base: base, Power: value}
	},
	holds: func(int) error { return nil },
}

type powerCircuit struct {
	squarings int
	Power     frontend.Variable `gnark:",public"`
	Base      frontend.Variable
}

// Define makes the constraints of Power = Base^(2^squarings).
func (c *powerCircuit) Define(api frontend.API) error {
	x := c.Base
	for range c.squarings {
		x = api.Mul(x, x)
	}
	api.AssertIsEqual(x, c.Power)
	return nil
}

// size checks the number of bytes that the statement hashes.
func (s *statement) size(n int) (int, error) {
	switch {
	case s.most == 0:
		return 0, nil
	case s.least == s.most:
		return s.most, nil
	case n < s.least || n > s.most:
		return 0, fmt.Errorf("-bytes %d: want %d to %d with -circuit %s", n, s.least, s.most, s.name)
	}
	return n, nil
}

// errRefused is what a proof has that does not prove its statement.
var errRefused = errors.New("the proof does not prove the statement")
