package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// certify makes the authority, the API server's certificates (as a server, and as a client of kubelets) and the key that signs the tokens
// of accounts.
func (c *Cluster) certify() error {
	own, err := c.key("ca.key")
	if err != nil {
		return err
	}
	server, err := c.key("server.key")
	if err != nil {
		return err
	}
	client, err := c.key("kubelet-client.key")
	if err != nil {
		return err
	}
	accounts, err := c.key("accounts.key")
	if err != nil {
		return err
	}
	sign := func(name string, cert, by *x509.Certificate, public crypto.PublicKey) error {
		cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
		der, err := x509.CreateCertificate(rand.Reader, cert, by, public, own)
		if err != nil {
			return err
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if cert.IsCA {
			c.pool.AppendCertsFromPEM(text)
		}
		return c.write(name, string(text))
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	if err := sign("ca.crt", authority, authority, own.Public()); err != nil {
		return err
	}
	if err := sign("kubelet-client.crt", &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, client.Public()); err != nil {
		return err
	}
	if err := sign("server.crt", &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(serverIP), net.ParseIP("10.96.0.1")},
		DNSNames:    []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}, authority, server.Public()); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	return c.write("accounts.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}

func (c *Cluster) key(name string) (*ecdsa.PrivateKey, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, err
	}
	return k, c.write(name, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}
