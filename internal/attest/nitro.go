package attest

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"
)

const nitroFormat = "nitro"

// nitroRoot is the SHA-256 of the root certificate of AWS Nitro Enclaves, which AWS publishes
// (https://docs.aws.amazon.com/enclaves/latest/user/verify-root.html).
var nitroRoot = [32]byte{
	0x64, 0x1a, 0x03, 0x21, 0xa3, 0xe2, 0x44, 0xef, 0xe4, 0x56, 0x46, 0x31, 0x95, 0xd6, 0x06, 0x31,
	0x7e, 0xd7, 0xcd, 0xcc, 0x3c, 0x17, 0x56, 0xe0, 0x98, 0x93, 0xf3, 0xc6, 0x8f, 0x79, 0xbb, 0x5b,
}

// nitro is the Nitro Security Module of an enclave (Linux, drivers/misc/nsm.c).
var nitro = Provider{
	Name: "nitro",
	Doc:  "the AWS Nitro enclave that this is, by /dev/nsm",
	Open: func(Settings) (Quoter, Collateral, error) {
		const device = "/dev/nsm"
		exchange, err := openNSM(device)
		if err != nil {
			return nil, nil, fmt.Errorf("open %s: %w: %w (evidence of this kind needs an AWS Nitro enclave)", device, errors.ErrUnsupported, err)
		}
		return nsm{exchange}, Stored(nil), nil
	},
}

// nsm asks the security module: a request in CBOR, an answer in CBOR.
type nsm struct {
	exchange func(request, answer []byte) (int, error)
}

type nsmRequest struct {
	Attestation struct {
		UserData []byte `cbor:"user_data"`
	}
}

type nsmAnswer struct {
	Attestation *struct {
		Document []byte `cbor:"document"`
	}
	Error string
}

// Quote asks for a document with the data as its user data.
func (n nsm) Quote(ctx context.Context, data [Size]byte) (*Evidence, error) {
	if err := ctx.Err(); err != nil { // the kernel's call itself cannot be ended
		return nil, err
	}
	var r nsmRequest
	r.Attestation.UserData = data[:]
	request, err := cbor.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("get a document of the enclave: %w", err)
	}
	answer := make([]byte, 0x3000) // the device's own limit
	size, err := n.exchange(request, answer)
	if err != nil {
		return nil, fmt.Errorf("get a document of the enclave: %w", err)
	}
	var a nsmAnswer
	if err := cbor.Unmarshal(answer[:size], &a); err != nil {
		return nil, fmt.Errorf("read the answer of the enclave's module: %w", err)
	}
	if a.Attestation == nil {
		return nil, fmt.Errorf("get a document of the enclave: the enclave's module refused the request with the error %q", a.Error)
	}
	return &Evidence{Format: nitroFormat, Quote: a.Attestation.Document}, nil
}

// nitroDocument is what the module signs
// (https://github.com/aws/aws-nitro-enclaves-nsm-api/blob/main/docs/attestation_process.md).
type nitroDocument struct {
	Module      string            `cbor:"module_id"`
	Digest      string            `cbor:"digest"`
	Timestamp   int64             `cbor:"timestamp"` // milliseconds
	PCRs        map[uint64][]byte `cbor:"pcrs"`
	Certificate []byte            `cbor:"certificate"`
	CABundle    [][]byte          `cbor:"cabundle"` // the root first
	UserData    []byte            `cbor:"user_data"`
	PublicKey   []byte            `cbor:"public_key"` // as whoever asked has named it, like the nonce
	Nonce       []byte            `cbor:"nonce"`
}

// inspectNitro verifies a document: COSE_Sign1 with ES384 by the key of its certificate. An
// enclave in debug mode has registers of zeros.
func inspectNitro(e *Evidence, _ *watched, now time.Time, roots Trust) (*Inspection, error) {
	var signed cose.UntaggedSign1Message
	if err := signed.UnmarshalCBOR(e.Quote); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	strict, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden}.DecMode()
	if err != nil {
		return nil, err
	}
	var d nitroDocument
	if err := strict.Unmarshal(signed.Payload, &d); err != nil {
		return nil, fmt.Errorf("read the document's content: %w", err)
	}
	boot := d.PCRs[0]
	if d.Digest != "SHA384" || len(boot) != 48 {
		return nil, fmt.Errorf("the document has digest %q and PCR0 of %d bytes, want SHA384 and 48", d.Digest, len(boot))
	}
	at := time.UnixMilli(d.Timestamp).UTC()
	i := &Inspection{Data: d.UserData, Facts: Facts{TEE: "nitro", Measurement: hex.EncodeToString(boot), Debug: new(zero(boot)), Time: &at, Registers: Registers{}},
		Standing: fmt.Errorf("%w: AWS Nitro has no TCB levels, and AWS advises against checking Nitro's revocation lists", ErrNonePublished)}
	for n, v := range d.PCRs {
		if !zero(v) {
			i.Facts.Registers[fmt.Sprintf("pcr%d", n)] = hex.EncodeToString(v)
		}
	}
	i.Signature = nitroSigned(&signed, &d, now, roots)
	return i, nil
}

// nitroSigned follows the document's signature to the root.
func nitroSigned(signed *cose.UntaggedSign1Message, d *nitroDocument, now time.Time, roots Trust) error {
	want := nitroRoot
	if roots.Nitro != nil {
		want = *roots.Nitro
	}
	if len(d.CABundle) == 0 || sha256.Sum256(d.CABundle[0]) != want {
		return errors.New("the document's chain does not begin with the root of AWS Nitro Enclaves")
	}
	pools := [2]*x509.CertPool{x509.NewCertPool(), x509.NewCertPool()}
	for n, der := range d.CABundle {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("read certificate %d of the chain: %w", n, err)
		}
		pools[min(n, 1)].AddCert(c)
	}
	leaf, err := x509.ParseCertificate(d.Certificate)
	if err != nil {
		return fmt.Errorf("read the enclave's certificate: %w", err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pools[0], Intermediates: pools[1], CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return fmt.Errorf("the enclave's certificate: %w", err)
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return fmt.Errorf("the enclave's key is %s, want ECDSA", keyName(leaf.PublicKey))
	}
	v, err := cose.NewVerifier(cose.AlgorithmES384, key)
	if err == nil {
		err = signed.Verify(nil, v)
	}
	if err != nil {
		return fmt.Errorf("the document's signature: %w", err)
	}
	return nil
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
