package proof

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/teescope/teescope/internal/result"
)

const (
	ed25519Format = "ed25519"
	ecdsaFormat   = "ecdsa-p256"
)

// errKey says which keys there are.
var errKey = errors.New("want an Ed25519 or an ECDSA P-256 key in PEM")

// NewKey makes an Ed25519 key: the private part in PEM (PKCS #8), the public part in PEM (PKIX).
func NewKey() (private, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	own, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: own}), nil
}

// PrivateKey reads a private key in PEM.
func PrivateKey(text []byte) (crypto.Signer, error) {
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, errKey
	}
	var key any
	var err error
	switch b.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(b.Bytes)
	case "PUBLIC KEY":
		return nil, errors.New("the PEM block is a public key; signing needs the private key")
	default:
		return nil, fmt.Errorf("the PEM block has the type %q: %w", b.Type, errKey)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKey, err)
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return k, nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return k, nil
		}
	}
	return nil, fmt.Errorf("the key is a %T: %w", key, errKey)
}

// PublicKey reads a public key in PEM, and returns its fingerprint.
func PublicKey(text []byte) (string, error) {
	b, _ := pem.Decode(text)
	switch {
	case b == nil:
		return "", errKey
	case b.Type != "PUBLIC KEY":
		return "", fmt.Errorf("the PEM block has the type %q: want a PUBLIC KEY", b.Type)
	}
	if _, err := publicKey(b.Bytes); err != nil {
		return "", err
	}
	return fingerprint(b.Bytes), nil
}

func publicKey(der []byte) (any, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKey, err)
	}
	switch k := key.(type) {
	case ed25519.PublicKey:
		return k, nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return k, nil
		}
	}
	return nil, fmt.Errorf("the key is a %T: %w", key, errKey)
}

// fingerprint names a public key as OpenSSH writes it, over its PKIX form.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// sign puts the signature of a statement into an attestation.
func sign(a *result.Attestation, key crypto.Signer, statement []byte) (err error) {
	if a.PublicKey, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return err
	}
	if _, ok := key.(ed25519.PrivateKey); ok {
		a.Format = ed25519Format
		a.Signature, err = key.Sign(rand.Reader, statement, crypto.Hash(0))
		return err
	}
	a.Format = ecdsaFormat
	sum := sha256.Sum256(statement)
	a.Signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	return err
}

// verifySignature returns the fingerprint of the key that signed a statement.
func verifySignature(a *result.Attestation, statement []byte) (string, error) {
	key, err := publicKey(a.PublicKey)
	if err != nil {
		return "", fmt.Errorf("read the public key: %w", err)
	}
	sum := sha256.Sum256(statement)
	good := false
	switch k := key.(type) {
	case ed25519.PublicKey:
		good = a.Format == ed25519Format && ed25519.Verify(k, statement, a.Signature)
	case *ecdsa.PublicKey:
		good = a.Format == ecdsaFormat && ecdsa.VerifyASN1(k, sum[:], a.Signature)
	}
	if !good {
		return "", errors.New("the key that is stored in the result did not sign this result, time and nonce")
	}
	return fingerprint(a.PublicKey), nil
}
