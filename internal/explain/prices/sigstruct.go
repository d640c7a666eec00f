package prices

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
)

// enclavePage is a page that an enclave is made of, in order and without gaps.
type enclavePage struct {
	// kind is the SECINFO's flags: permissions and, from bit 8, the page's type.
	kind    uint64
	content []byte // 4096 bytes
}

const (
	enclaveSize   = 4 * 4096 // of its addresses, a power of two
	enclaveFrames = 1        // pages of a thread's save area
)

// enclavePages are those that workloads/micro/enclave.c adds: a thread control
// structure, its save area, and code. The offsets are those of the SDM, volume 3D.
func enclavePages() []enclavePage {
	tcs, code := make([]byte, 4096), make([]byte, 4096)
	le := binary.LittleEndian
	le.PutUint64(tcs[16:], 1*4096)     // OSSA: the second page
	le.PutUint32(tcs[28:], 1)          // NSSA
	le.PutUint64(tcs[32:], 2*4096)     // OENTRY: the third page
	le.PutUint32(tcs[64:], 0xffffffff) // FSLIMIT
	le.PutUint32(tcs[68:], 0xffffffff) // GSLIMIT
	copy(code, []byte{
		0x48, 0x89, 0xcb, // mov %rcx, %rbx: back to behind the EENTER
		0xb8, 0x04, 0x00, 0x00, 0x00, // mov $4, %eax: EEXIT
		0x0f, 0x01, 0xd7, // enclu
	})
	return []enclavePage{{0x100, tcs}, {0x203, make([]byte, 4096)}, {0x205, code}}
}

// measurement is MRENCLAVE: the hash of what ECREATE, EADD and EEXTEND add to it.
func measurement(pages []enclavePage) []byte {
	h, le := sha256.New(), binary.LittleEndian
	block := make([]byte, 64)
	copy(block, "ECREATE\x00")
	le.PutUint32(block[8:], enclaveFrames)
	le.PutUint64(block[12:], enclaveSize)
	h.Write(block)
	for i, p := range pages {
		block = make([]byte, 64)
		copy(block, "EADD")
		le.PutUint64(block[8:], uint64(i)*4096)
		le.PutUint64(block[16:], p.kind)
		h.Write(block)
		for at := 0; at < 4096; at += 256 {
			block = make([]byte, 64)
			copy(block, "EEXTEND\x00")
			le.PutUint64(block[8:], uint64(i)*4096+uint64(at))
			h.Write(block)
			h.Write(p.content[at : at+256])
		}
	}
	return h.Sum(nil)
}

// sigstruct is the signature by which an enclave of this measurement may be
// launched, with a key that nobody has afterwards.
func sigstruct(measured []byte) ([]byte, error) {
	s, le := make([]byte, 1808), binary.LittleEndian
	copy(s, "\x06\x00\x00\x00\xe1\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00")      // HEADER
	le.PutUint32(s[20:], 0x20260101)                                                 // DATE
	copy(s[24:], "\x01\x01\x00\x00\x60\x00\x00\x00\x60\x00\x00\x00\x01\x00\x00\x00") // HEADER2
	le.PutUint32(s[512:], 3)                                                         // EXPONENT
	le.PutUint32(s[904:], 0xffffffff)                                                // MISCMASK
	le.PutUint64(s[928:], 4)                                                         // ATTRIBUTES: 64 bits
	le.PutUint64(s[936:], 3)                                                         // XFRM: x87 and SSE
	le.PutUint64(s[944:], 0xffffffffffffffff)                                        // their masks
	le.PutUint64(s[952:], 0xffffffffffffffff)
	copy(s[960:], measured) // ENCLAVEHASH

	n, d, err := throwAway()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}

	// PKCS #1 v1.5 of the hash of the two signed parts.
	hash := sha256.Sum256(slices.Concat(s[:128], s[900:1028]))
	padded := slices.Repeat([]byte{0xff}, 384)
	padded[0], padded[1] = 0, 1
	tail := append([]byte("\x00\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"), hash[:]...)
	copy(padded[384-len(tail):], tail)
	x := new(big.Int).Exp(new(big.Int).SetBytes(padded), d, n)

	q1, rest := new(big.Int).DivMod(new(big.Int).Mul(x, x), n, new(big.Int))
	q2 := new(big.Int).Div(new(big.Int).Mul(rest, x), n)
	for at, v := range map[int]*big.Int{128: n, 516: x, 1040: q1, 1424: q2} {
		field := s[at : at+384]
		v.FillBytes(field)
		slices.Reverse(field)
	}
	return s, nil
}

// throwAway returns the modulus of 3,072 bits and the private exponent of a key with exponent 3.
// It signs one enclave and hides nothing, so it has four primes (RFC 8017, section 3.2), which
// are found faster than two large ones.
func throwAway() (n, d *big.Int, err error) {
	const primes, bits = 4, 3072
	one, three := big.NewInt(1), big.NewInt(3)
	for {
		n, phi := big.NewInt(1), big.NewInt(1)
		for range primes {
			p := new(big.Int)
			for new(big.Int).Mod(p, three).Int64() != 2 { // 3 has an inverse only if it does not divide p-1
				if p, err = rand.Prime(rand.Reader, bits/primes); err != nil {
					return nil, nil, err
				}
			}
			n.Mul(n, p)
			phi.Mul(phi, p.Sub(p, one))
		}
		if n.BitLen() == bits {
			return n, new(big.Int).ModInverse(three, phi), nil
		}
	}
}
