package cli

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/host"
)

// tpmFlags say which TPM a command uses.
type tpmFlags struct{ path, certificate string }

func (t *tpmFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&t.path, "tpm", "", "with --provider tpm: the TPM's device or socket (default "+attest.TPMDevice+")")
	c.Flags().StringVar(&t.certificate, "tpm-certificate", "", "with --provider tpm: `FILE` with the certificate chain of the TPM's attestation key, in PEM, leaf first; `teescope tpm activate` makes it")
}

func (t *tpmFlags) settings() (attest.TPMSettings, error) {
	s := attest.TPMSettings{Path: t.path}
	if t.certificate == "" {
		return s, nil
	}
	all, err := readCertificates("--tpm-certificate", t.certificate)
	for _, c := range all {
		s.Certificates = append(s.Certificates, c.Raw...)
	}
	return s, err
}

// readCertificates reads at least one certificate in PEM.
func readCertificates(flag, name string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	var out []*x509.Certificate
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			break
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s %s: certificate %d: %w", flag, name, len(out)+1, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s %s: want certificates in PEM", flag, name)
	}
	return out, nil
}

func tpmCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "tpm",
		Short: "Certify the key with which a TPM signs its quotes",
		Long: `A TPM's maker certifies its endorsement key, which cannot sign. These commands certify the
key that signs quotes, for a TPM whose endorsement certificate leads to its maker:

  on the machine            teescope tpm identity > identity.json
  where the CA's key is     teescope tpm endorse identity.json --roots maker.pem --ca ca.pem --ca-key ca.key > sealed.json
  on the machine            teescope tpm activate sealed.json > tpm.pem

Only the TPM that made identity.json can open sealed.json. A policy with ca.pem in tpm_roots
then accepts this TPM (docs/attested-results.md).`,
		Example: "  teescope tpm identity > identity.json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(tpmIdentityCommand(env), tpmEndorseCommand(env), tpmActivateCommand(env))
	return c
}

func tpmIdentityCommand(env Env) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:     "identity",
		Short:   "Print the certificate of the TPM's endorsement key, and the key that signs quotes",
		Example: "  teescope tpm identity > identity.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t, err := attest.OpenTPM(attest.TPMSettings{Path: path, Log: []byte{}})
			if err != nil {
				return err
			}
			id, err := t.Identity()
			if err != nil {
				return err
			}
			return printJSON(env.Stdout, id)
		},
	}
	c.Flags().StringVar(&path, "tpm", "", "the TPM's device or socket (default "+attest.TPMDevice+")")
	return c
}

func tpmEndorseCommand(env Env) *cobra.Command {
	var roots, ca, key string
	valid := duration(365 * 24 * time.Hour)
	c := &cobra.Command{
		Use:   "endorse IDENTITY.json",
		Short: "Certify a TPM's key with your own CA, encrypted so only that TPM can read it",
		Long: `Endorse verifies that the TPM's endorsement certificate leads to one of the roots, and
certifies the key that signs the TPM's quotes. The certificate is encrypted to the endorsement
key, so it is useless if the two keys are not in the same TPM.`,
		Example: "  teescope tpm endorse identity.json --roots maker.pem --ca ca.pem --ca-key ca.key > sealed.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var id attest.TPMIdentity
			if err := readJSON(args[0], &id); err != nil {
				return err
			}
			makers, err := readCertificates("--roots", roots)
			if err != nil {
				return err
			}
			own, err := readCertificates("--ca", ca)
			if err != nil {
				return err
			}
			signer, err := readCAKey(key)
			if err != nil {
				return err
			}
			top, between := x509.NewCertPool(), x509.NewCertPool()
			for _, m := range makers {
				if m.CheckSignatureFrom(m) == nil {
					top.AddCert(m)
				} else {
					between.AddCert(m)
				}
			}
			sealed, err := attest.Endorse(&id, top, between, own[0], signer, host.Local().Now(), time.Duration(valid))
			if err != nil {
				return fmt.Errorf("endorse %s: %w", args[0], err)
			}
			out, _ := unwrapped(env.Stdout).(io.Writer) // its key "secret" is only base64, which the other machine needs
			return printJSON(out, sealed)
		},
	}
	c.Flags().StringVar(&roots, "roots", "", "`FILE` with the certificates of the TPM's maker, in PEM: the roots and the intermediate certificates")
	c.Flags().StringVar(&ca, "ca", "", "`FILE` with the certificate of the CA, in PEM")
	c.Flags().StringVar(&key, "ca-key", "", "`FILE` with the CA's private key, in PEM (PKCS #8)")
	c.Flags().Var(&valid, "valid", "how long the certificate is valid")
	for _, name := range []string{"roots", "ca", "ca-key"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

// readCAKey reads a private key that others cannot read.
func readCAKey(name string) (crypto.Signer, error) {
	text, err := readSecret("--ca-key", name)
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, fmt.Errorf("--ca-key %s: want a private key in PEM", name)
	}
	key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("--ca-key %s: %w", name, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("--ca-key %s: want a key that can sign, not a %T", name, key)
	}
	return signer, nil
}

func tpmActivateCommand(env Env) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:     "activate SEALED.json",
		Short:   "Decrypt the certificate that was issued for this TPM",
		Example: "  teescope tpm activate sealed.json > tpm.pem\n  teescope attest result.json --provider tpm --tpm-certificate tpm.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var s attest.SealedCertificate
			if err := readJSON(args[0], &s); err != nil {
				return err
			}
			t, err := attest.OpenTPM(attest.TPMSettings{Path: path, Log: []byte{}})
			if err != nil {
				return err
			}
			der, err := t.Activate(&s)
			if err != nil {
				return fmt.Errorf("activate %s: %w", args[0], err)
			}
			return pem.Encode(env.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: der})
		},
	}
	c.Flags().StringVar(&path, "tpm", "", "the TPM's device or socket (default "+attest.TPMDevice+")")
	return c
}

// readJSON reads a file that one of these commands has written.
func readJSON(name string, into any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", name, errors.Join(errors.New("the file is not one that `teescope tpm` writes"), err))
	}
	return nil
}
