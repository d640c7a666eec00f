package zkvm

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"os"
	"strings"
	"testing"
)

// ran is a guest after its end.
func ran(t *testing.T, guest string, input []byte) *machine {
	t.Helper()
	program, err := os.ReadFile("guests/" + guest + ".elf")
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(program, input)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.run(10_000_000); err != nil {
		t.Fatalf("%s: %v", guest, err)
	}
	return m
}

// certificate reads the input of the guest rsa-2048: modulus, message, signature.
func certificate(t *testing.T) (modulus, message, signature []byte) {
	t.Helper()
	text, err := os.ReadFile("guests/rsa-2048.hex")
	if err != nil {
		t.Fatal(err)
	}
	var parts [3][]byte
	lines := strings.Fields(string(text))
	for i, n := range []int{256, 64, 256} {
		if len(lines) != len(parts) {
			t.Fatalf("%d lines, want %d", len(lines), len(parts))
		}
		if parts[i], err = hex.DecodeString(lines[i]); err != nil || len(parts[i]) != n {
			t.Fatalf("line %d has %d bytes, want %d: %v", i+1, len(parts[i]), n, err)
		}
	}
	return parts[0], parts[1], parts[2]
}

// TestGuests: each guest computes what it says, commits to the hash of its public values, and takes as many cycles as the committed program did when it
// was proved (the recorded outputs of the workload have the same numbers). Other numbers are another job: raise the version of the workload zkvm.
func TestGuests(t *testing.T) {
	number := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	chain := make([]byte, sha256.Size)
	for range 10 {
		sum := sha256.Sum256(chain)
		chain = sum[:]
	}
	modulus, message, signature := certificate(t)
	for _, c := range []struct {
		guest         string
		input, public []byte
		cycles        int
	}{
		{"fibonacci", number(0), append(number(0), number(0)...), 5926},
		{"fibonacci", number(50), append(number(50), number(12586269025&0xffffffff)...), 6229},
		{"sha256", number(0), append(number(0), make([]byte, sha256.Size)...), 6402},
		{"sha256", number(10), append(number(10), chain...), 66603},
		{"rsa-2048", bytes.Join([][]byte{modulus, message, signature}, nil), append(bytes.Clone(modulus), message...), 2628878},
	} {
		t.Run(c.guest, func(t *testing.T) {
			m := ran(t, c.guest, c.input)
			if *m.exit != 0 || !bytes.Equal(m.public, c.public) {
				t.Errorf("%s of %x ends with %d and %x, want %x", c.guest, c.input, *m.exit, m.public, c.public)
			}
			var committed []byte
			for _, w := range m.committed {
				committed = binary.LittleEndian.AppendUint32(committed, w)
			}
			if sum := sha256.Sum256(c.public); !bytes.Equal(committed, sum[:]) {
				t.Errorf("%s commits to %x, want %x", c.guest, committed, sum)
			}
			if m.cycles != c.cycles {
				t.Errorf("%s of %x takes %d cycles, want %d", c.guest, c.input[:4], m.cycles, c.cycles)
			}
		})
	}
}

// TestWrongSignature: a guest that is given anything but a right signature ends with 1 and says nothing.
func TestWrongSignature(t *testing.T) {
	modulus, message, signature := certificate(t)
	n := new(big.Int).SetBytes(modulus)
	sum := sha256.Sum256(message)
	if err := rsa.VerifyPKCS1v15(&rsa.PublicKey{N: n, E: 65537}, crypto.SHA256, sum[:], signature); err != nil {
		t.Fatal(err)
	}
	flipped := func(b []byte, i int) []byte {
		b = bytes.Clone(b)
		b[i] ^= 1
		return b
	}
	for what, in := range map[string][][]byte{
		"another signature":               {modulus, message, flipped(signature, 255)},
		"another message":                 {modulus, flipped(message, 0), signature},
		"another modulus":                 {flipped(modulus, 100), message, signature},
		"an even modulus":                 {flipped(modulus, 255), message, signature},
		"a modulus of 2047 bits":          {append([]byte{modulus[0] & 0x7f}, modulus[1:]...), message, signature},
		"a signature that is the modulus": {modulus, message, modulus},
		"a signature of zeros":            {modulus, message, make([]byte, 256)},
	} {
		t.Run(what, func(t *testing.T) {
			m := ran(t, "rsa-2048", bytes.Join(in, nil))
			if *m.exit != 1 || len(m.public) != 0 || m.committed != [8]uint32{} {
				t.Errorf("%s: ends with %d, public values %x, commitment %x", what, *m.exit, m.public, m.committed)
			}
		})
	}
}
