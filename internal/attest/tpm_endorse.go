package attest

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
)

// A TPM's maker certifies its endorsement key, which cannot sign. Who wants to trust the TPM's
// attestation key must know that both are in one TPM: Endorse certifies the attestation key and
// encrypts the certificate so that only a TPM with both keys can read it (TPM 2.0 library
// specification, part 1, "Credential Protection").

// TPMIdentity is what Endorse needs to know of a TPM. None of it is secret.
type TPMIdentity struct {
	Endorsement []byte `json:"endorsement_certificate"` // DER
	Key         []byte `json:"attestation_key"`         // TPMT_PUBLIC
}

// SealedCertificate is a certificate that only one TPM can read.
type SealedCertificate struct {
	Credential  []byte `json:"credential"`  // TPM2B_ID_OBJECT's content: a key, by TPM2_MakeCredential
	Secret      []byte `json:"secret"`      // TPM2B_ENCRYPTED_SECRET's content
	Certificate []byte `json:"certificate"` // AES-256-GCM under that key, nonce 0: it seals once
}

// endorsementCertificate is where a TPM has the certificate of its RSA endorsement key (TCG EK
// Credential Profile for TPM 2.0, section 2.2.1.4).
const endorsementCertificate = tpm2.TPMHandle(0x01c00002)

// Identity reads who the TPM is.
func (t *TPM) Identity() (*TPMIdentity, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cert, err := t.stored(endorsementCertificate)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the TPM's endorsement key: %w (not every TPM maker stores this certificate)", err)
	}
	key, forget, err := t.primary(attestationKey)
	if err != nil {
		return nil, err
	}
	defer forget()
	public, err := key.OutPublic.Contents()
	if err != nil {
		return nil, fmt.Errorf("read the TPM's key: %w", err)
	}
	return &TPMIdentity{Endorsement: cert, Key: tpm2.Marshal(*public)}, nil
}

// stored reads what the TPM keeps at an index.
func (t *TPM) stored(at tpm2.TPMHandle) ([]byte, error) {
	public, err := tpm2.NVReadPublic{NVIndex: at}.Execute(t.device)
	if err != nil {
		return nil, err
	}
	info, err := public.NVPublic.Contents()
	if err != nil {
		return nil, err
	}
	var out []byte
	for len(out) < int(info.DataSize) {
		const most = 512 // each TPM hands out that much at once
		r, err := tpm2.NVRead{
			AuthHandle: tpm2.AuthHandle{Handle: at, Name: public.NVName, Auth: tpm2.PasswordAuth(nil)},
			NVIndex:    tpm2.NamedHandle{Handle: at, Name: public.NVName},
			Size:       uint16(min(most, int(info.DataSize)-len(out))), Offset: uint16(len(out)),
		}.Execute(t.device)
		if err != nil {
			return nil, err
		}
		if len(r.Data.Buffer) == 0 {
			return nil, errors.New("the TPM returned no data")
		}
		out = append(out, r.Data.Buffer...)
	}
	return oneDER(out), nil
}

// oneDER cuts off what a TPM stores behind a certificate.
func oneDER(b []byte) []byte {
	var first asn1.RawValue
	if _, err := asn1.Unmarshal(b, &first); err != nil {
		return b
	}
	return first.FullBytes
}

// subjectAltName is where an endorsement certificate names the TPM, in a form that crypto/x509 does
// not read, marked as critical (TCG EK Credential Profile, section 3.2.9).
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// endorsed verifies the chain of an endorsement key's certificate, and returns the key.
func endorsed(der []byte, roots, between *x509.CertPool, now time.Time) (*rsa.PublicKey, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the TPM's endorsement key: %w", err)
	}
	c.UnhandledCriticalExtensions = slices.DeleteFunc(c.UnhandledCriticalExtensions, subjectAltName.Equal)
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, fmt.Errorf("the certificate of the TPM's endorsement key: %w", err)
	}
	key, ok := c.PublicKey.(*rsa.PublicKey)
	if !ok || key.N.BitLen() != 2048 {
		return nil, fmt.Errorf("the TPM's endorsement key is %s, want RSA with 2048 bits", keyName(c.PublicKey))
	}
	return key, nil
}

// Endorse certifies the attestation key of a TPM whose endorsement certificate leads to a root of
// its maker, and seals the certificate to that TPM. The certificate is valid for lifetime.
func Endorse(id *TPMIdentity, roots, between *x509.CertPool, ca *x509.Certificate, by crypto.Signer, now time.Time, lifetime time.Duration) (*SealedCertificate, error) {
	ek, err := endorsed(id.Endorsement, roots, between, now)
	if err != nil {
		return nil, err
	}
	q := tpmQuote{Key: id.Key}
	key, err := q.signer()
	if err != nil {
		return nil, err
	}
	name := tpm2.TPM2BName{}
	attested, err := tpm2.Unmarshal[tpm2.TPMTPublic](id.Key)
	if err == nil {
		var n *tpm2.TPM2BName
		if n, err = tpm2.ObjectName(attested); err == nil {
			name = *n
		}
	}
	if err != nil {
		return nil, fmt.Errorf("name the TPM's key: %w", err)
	}
	print, err := fingerprint(ek)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "attestation key of the TPM with endorsement key " + print},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true}, ca, key, by)
	if err != nil {
		return nil, fmt.Errorf("certify the TPM's key: %w", err)
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	public := tpm2.RSAEKTemplate
	public.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: ek.N.Bytes()})
	to, err := tpm2.ImportEncapsulationKey(&public)
	if err != nil {
		return nil, fmt.Errorf("use the TPM's endorsement key: %w", err)
	}
	credential, encrypted, err := tpm2.CreateCredential(rand.Reader, to, name.Buffer, secret)
	if err != nil {
		return nil, fmt.Errorf("seal the certificate to the TPM: %w", err)
	}
	gcm, err := oneTimeCipher(secret)
	if err != nil {
		return nil, err
	}
	return &SealedCertificate{Credential: credential, Secret: encrypted, Certificate: gcm.Seal(nil, make([]byte, gcm.NonceSize()), der, nil)}, nil
}

// oneTimeCipher is a cipher for one message under a key.
func oneTimeCipher(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// Activate opens a certificate that was sealed to this TPM.
func (t *TPM) Activate(s *SealedCertificate) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ek, forgetEK, err := t.primary(tpm2.RSAEKTemplate)
	if err != nil {
		return nil, err
	}
	defer forgetEK()
	key, forget, err := t.primary(attestationKey)
	if err != nil {
		return nil, err
	}
	defer forget()
	r, err := tpm2.ActivateCredential{
		ActivateHandle: tpm2.AuthHandle{Handle: key.ObjectHandle, Name: key.Name, Auth: tpm2.PasswordAuth(nil)},
		KeyHandle: tpm2.AuthHandle{Handle: ek.ObjectHandle, Name: ek.Name, Auth: tpm2.Policy(tpm2.TPMAlgSHA256, 16,
			func(device transport.TPM, session tpm2.TPMISHPolicy, nonce tpm2.TPM2BNonce) error {
				_, err := tpm2.PolicySecret{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHEndorsement, Auth: tpm2.PasswordAuth(nil)}, PolicySession: session, NonceTPM: nonce}.Execute(device)
				return err
			})},
		CredentialBlob: tpm2.TPM2BIDObject{Buffer: s.Credential},
		Secret:         tpm2.TPM2BEncryptedSecret{Buffer: s.Secret},
	}.Execute(t.device)
	if err != nil {
		return nil, fmt.Errorf("open the sealed certificate: the certificate was made for another TPM, or was changed: %w", err)
	}
	gcm, err := oneTimeCipher(r.CertInfo.Buffer)
	if err != nil {
		return nil, fmt.Errorf("open the sealed certificate: %w", err)
	}
	der, err := gcm.Open(nil, make([]byte, gcm.NonceSize()), s.Certificate, nil)
	if err != nil {
		return nil, fmt.Errorf("open the sealed certificate: the certificate was changed: %w", err)
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the sealed certificate: %w", err)
	}
	return der, nil
}

// keyName names the algorithm and size of a public key, as in "ECDSA on P-256" or "RSA with 3072 bits".
func keyName(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA with %d bits", k.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA on " + k.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return "of an algorithm that Go does not know"
}
