package load

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// BenchmarkSecret makes the key of Certificate public knowledge: it is for servers
// under test on the harness's own machine, whose certificate is part of the job and so
// identical in every run and arm. Nothing else may trust it.
const BenchmarkSecret = "teescope benchmark: a key that everybody knows, for nothing else"

// Certificate makes a self-signed server certificate for names and addresses, and its
// P-256 key (PKCS #8), both in PEM. Clients trust the certificate itself. Equal secrets
// give equal bytes; with "" the key is new.
func Certificate(secret string, names ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if secret != "" {
		// A SHA-256 value is a valid P-256 scalar, except for one in 2^32.
		scalar := sha256.Sum256([]byte(secret))
		private, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar[:])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "teescope server under test"},
		// Valid so long that no clock is needed, even if a TEE's clock is wrong.
		NotBefore:   time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:    time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	// Without a source of randomness the signature follows RFC 6979 and is the same
	// each time.
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate for %q: %w", names, err)
	}
	secretDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secretDER}), nil
}
