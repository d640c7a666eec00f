package attest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/host"
)

var simulated = Provider{
	Name:      "simulated",
	Doc:       "no TEE: quotes that take a given time, signed by keys made for the run",
	Named:     true,
	Simulated: true,
	Open: func(s Settings) (Quoter, Collateral, error) {
		d, err := NewSimulated(s)
		return d, d, err
	},
}

const simulatedFormat = "simulated"

// Simulated is a device that does not exist, and the service that has the collateral
// of its quotes. A quote takes the time that Settings state, and is signed for real,
// so that verifying it is the work that verifying is: a chain of certificates, a
// signature, a signed list of what is revoked. It proves nothing of any machine.
type Simulated struct {
	delay, fetch time.Duration
	turns        chan struct{}
	key          *ecdsa.PrivateKey
	leaf         []byte // certificate of key, DER
	collateral   []byte
}

// simulatedQuote is the evidence: data, signed by the key of a certificate.
type simulatedQuote struct {
	Data, Leaf, Signature []byte
}

// simulatedCollateral is what a verifier fetches: the root, and a list that it signed.
type simulatedCollateral struct {
	Root, List, Signature []byte
}

// revocations are the certificates that no longer count, and until when the list does.
type revocations struct {
	Serials []string
	Until   time.Time
}

const (
	simulatedURL = "simulated:collateral"
	// lifetime of keys that are made for one run.
	lifetime = 24 * time.Hour
)

// NewSimulated makes the device's keys.
func NewSimulated(s Settings) (*Simulated, error) {
	if s.Delay < 0 || s.Fetch < 0 || s.Parallel < 1 {
		return nil, fmt.Errorf("simulate quotes: delays of %s and %s, %d at once: want at least 0, 0 and 1", s.Delay, s.Fetch, s.Parallel)
	}
	d := &Simulated{delay: s.Delay, fetch: s.Fetch, turns: make(chan struct{}, s.Parallel)}
	now := host.Local().Now()
	root, rootKey, err := certify(1, "simulated root", now, nil, nil)
	if err == nil {
		var leaf *x509.Certificate
		if leaf, d.key, err = certify(2, "simulated device", now, root, rootKey); err == nil {
			d.leaf = leaf.Raw
			d.collateral, err = publish(root, rootKey, revocations{Serials: []string{}, Until: now.Add(lifetime)})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("simulate quotes: %w", err)
	}
	return d, nil
}

// certify makes a key and its certificate, signed by that of parent or, for a root,
// by itself.
func certify(serial int64, name string, now time.Time, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of the %s: %w", name, err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature}
	if parent == nil {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of the %s: %w", name, err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		return nil, nil, fmt.Errorf("read the certificate of the %s: %w", name, err)
	}
	return c, key, nil
}

// publish signs the list.
func publish(root *x509.Certificate, key *ecdsa.PrivateKey, r revocations) ([]byte, error) {
	list, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the revocation list: %w", err)
	}
	sum := sha256.Sum256(list)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign the revocation list: %w", err)
	}
	return json.Marshal(simulatedCollateral{Root: root.Raw, List: list, Signature: signature})
}

// Quote waits for its turn, then for the stated time.
func (d *Simulated) Quote(ctx context.Context, data [Size]byte) (*Evidence, error) {
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a quote: %w", ctx.Err())
	}
	sum := sha256.Sum256(data[:])
	signature, err := ecdsa.SignASN1(rand.Reader, d.key, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign a simulated quote: %w", err)
	}
	quote, err := json.Marshal(simulatedQuote{Data: data[:], Leaf: d.leaf, Signature: signature})
	if err != nil {
		return nil, fmt.Errorf("write a simulated quote: %w", err)
	}
	select {
	case <-time.After(d.delay):
		return &Evidence{Format: simulatedFormat, Quote: quote}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a quote: %w", ctx.Err())
	}
}

// Get is the collateral's service, which takes the stated time to answer.
func (d *Simulated) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	if url != simulatedURL {
		return nil, nil, fmt.Errorf("fetch %s: the simulated service has only %s", url, simulatedURL)
	}
	select {
	case <-time.After(d.fetch):
		return nil, d.collateral, nil
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("fetch %s: %w", url, ctx.Err())
	}
}

// inspectSimulated verifies a simulated quote with the root that the collateral names, which
// is anybody's.
func inspectSimulated(e *Evidence, c *watched, now time.Time, _ Trust) (*Inspection, error) {
	var q simulatedQuote
	if err := json.Unmarshal(e.Quote, &q); err != nil {
		return nil, fmt.Errorf("read the quote: %w", err)
	}
	return &Inspection{Data: q.Data, Facts: Facts{TEE: "simulated", Debug: new(false)}, Signature: c.collateralError(verifySimulated(&q, c, now))}, nil
}

func verifySimulated(q *simulatedQuote, c *watched, now time.Time) error {
	_, body, err := c.Get(simulatedURL)
	if err != nil {
		return err
	}
	var from simulatedCollateral
	if err := json.Unmarshal(body, &from); err != nil {
		return fmt.Errorf("read the collateral: %w", err)
	}
	root, err := x509.ParseCertificate(from.Root)
	if err != nil {
		return fmt.Errorf("read the root's certificate: %w", err)
	}
	if !signed(root, from.List, from.Signature) {
		return errors.New("the revocation list is not signed by the root")
	}
	var list revocations
	if err := json.Unmarshal(from.List, &list); err != nil {
		return fmt.Errorf("read the revocation list: %w", err)
	}
	leaf, err := x509.ParseCertificate(q.Leaf)
	if err != nil {
		return fmt.Errorf("read the device's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	switch {
	case err != nil:
		return fmt.Errorf("the device's certificate: %w", err)
	case now.After(list.Until):
		return fmt.Errorf("the revocation list is out of date since %s", list.Until)
	case slices.Contains(list.Serials, leaf.SerialNumber.String()):
		return errors.New("the device's certificate is revoked")
	case !signed(leaf, q.Data, q.Signature):
		return errors.New("the quote is not signed by the device")
	}
	return nil
}

// signed reports whether a certificate's key, on P-256, has signed a message.
func signed(c *x509.Certificate, message, signature []byte) bool {
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	sum := sha256.Sum256(message)
	return ok && ecdsa.VerifyASN1(key, sum[:], signature)
}
