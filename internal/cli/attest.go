package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/proof"
	"github.com/teescope/teescope/internal/result"
)

// attesting are the flags of `attest`.
type attesting struct {
	provider, key, newKey, nonce string
	tpm                          tpmFlags
	gpuCommand                   string
	offline, replace             bool

	providers []*attest.Provider
	now       func() time.Time
	roots     attest.Trust
}

func attestCommand(env Env) *cobra.Command {
	return (&attesting{providers: attest.Providers, now: host.Local().Now}).command(env)
}

func (a *attesting) command(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "attest RESULT.json",
		Short: "Bind a result to the TEE that made it, or sign it with a key",
		Long: `Attest asks this machine's TEE for a quote over the digest of a result. It also asks the
vendor's service for the data that verify needs, and stores both in the result. Run attest
where the experiment ran: in the confidential VM or the enclave.

Without a TEE a result stays unattested. A key (--key, --new-key) can sign the result instead.
That proves who holds the key, not where the result was made.

With --provider nvidia, this machine's GPUs sign reports about the result. The reports say
nothing about the CPU, so verify accepts them only with a policy that names nvidia-gpu.

Nothing else in the file changes. The file is replaced completely or not at all.

Exit status: 0 attested or signed; 1 attested, but verify refuses the result (for example
because the TCB is out of date); 4 neither, and the file is unchanged.`,
		Example: "  teescope attest result.json\n" +
			"  teescope attest result.json --provider nvidia  # asks the GPUs with NVIDIA's nvattest\n" +
			"  teescope attest result.json --new-key me.pem   # signs, and writes me.pem and me.pem.pub",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), env, args[0]) },
	}
	c.Flags().StringVar(&a.provider, "provider", "", "source of the quote: "+a.names()+" (default: this machine's TEE)")
	c.Flags().StringVar(&a.key, "key", "", "sign with the private key in `FILE` (Ed25519 or ECDSA P-256, PEM) instead")
	c.Flags().StringVar(&a.newKey, "new-key", "", "sign with a new key instead; write the private key to `FILE` and the public key to FILE.pub")
	c.Flags().StringVar(&a.nonce, "nonce", "", "nonce in `HEX` that the verifier chose; it proves that the quote was made after the nonce was chosen")
	c.Flags().BoolVar(&a.offline, "offline", false, "do not ask the vendor's service; verify then cannot check whether the TCB was current")
	c.Flags().BoolVar(&a.replace, "replace", false, "replace the attestation or signature of the result")
	a.tpm.flags(c)
	c.Flags().StringVar(&a.gpuCommand, "gpu-command", "", "with --provider nvidia: `COMMAND` that prints evidence as nvattest does, with {nonce} for the nonce (default \""+attest.NVIDIACommand+"\")")
	c.MarkFlagsMutuallyExclusive("provider", "key", "new-key")
	return c
}

func (a *attesting) names() string {
	var names []string
	for _, p := range a.providers {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func (a *attesting) run(ctx context.Context, env Env, path string) error {
	doc, e, err := result.Document(path)
	if err != nil {
		return err
	}
	switch file, err := os.ReadFile(path); {
	case err != nil:
		return err
	case !bytes.Equal(file, doc):
		return fmt.Errorf("attest %s: the file is compressed; run gunzip first", path)
	}
	if e.Attestation != nil && !a.replace {
		return fmt.Errorf("attest %s: the result is already attested or signed (%s, %s); check the result with `teescope verify`, or replace the attestation with --replace", path, e.Attestation.Format, e.Attestation.MadeAt.Format(time.RFC3339))
	}
	at, err := a.attestation(ctx, env, doc)
	if err != nil {
		return fmt.Errorf("attest %s: %w; the file is unchanged", path, err)
	}
	out, err := result.Attach(doc, at)
	if err != nil {
		return fmt.Errorf("attest %s: %w; the file is unchanged", path, err)
	}
	r, err := proof.Verify(out, proof.Options{Now: a.now(), Roots: a.roots, Policy: proof.Policy{Debug: true}})
	if err != nil {
		return fmt.Errorf("attest %s: %w; the file is unchanged", path, err)
	}
	if r.Origin == proof.Refused && at.Quote == nil {
		return fmt.Errorf("attest %s: %s; the file is unchanged", path, r.Line)
	}
	if err := result.Rewrite(path, doc, out); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(env.Stdout, "%s: %s\n", path, r.Line); err == nil && r.Origin == proof.Refused {
		return outcome(exitRegression)
	}
	return err
}

// attestation gets a signature or a quote.
func (a *attesting) attestation(ctx context.Context, env Env, doc []byte) (*result.Attestation, error) {
	if a.key == "" && a.newKey == "" {
		return a.quote(ctx, doc)
	}
	for _, p := range a.providers {
		if p.Named {
			continue
		}
		if _, _, err := p.Open(attest.Settings{}); err == nil {
			fmt.Fprintf(env.Stderr, "note: this machine has a TEE (%s); without a key the result would be attested, which proves more\n", p.Name)
		}
	}
	key, err := a.signer()
	if err != nil {
		return nil, err
	}
	return proof.Sign(doc, key, a.nonce, a.now())
}

// quote asks the named TEE, or the one that is here.
func (a *attesting) quote(ctx context.Context, doc []byte) (*result.Attestation, error) {
	var lacks []string
	settings, err := a.tpm.settings()
	if err != nil {
		return nil, err
	}
	for _, p := range a.providers {
		if a.provider != "" && p.Name != a.provider || a.provider == "" && p.Named {
			continue
		}
		q, c, err := p.Open(attest.Settings{Parallel: 1, TPM: settings, NVIDIA: a.gpuCommand})
		if errors.Is(err, errors.ErrUnsupported) && a.provider == "" {
			lacks = append(lacks, contain.OneLine(err))
			continue
		}
		if err != nil {
			return nil, err
		}
		if a.offline {
			c = attest.Stored(nil)
		}
		return proof.Attest(ctx, doc, q, c, a.nonce, a.now(), a.roots)
	}
	if a.provider != "" {
		return nil, fmt.Errorf("--provider %q: want %s", a.provider, a.names())
	}
	return nil, fmt.Errorf("no TEE on this machine (%s), so the result is unattested; --key or --new-key signs the result instead, which proves who holds the key", strings.Join(lacks, "; "))
}

// signer reads the key, or makes one and writes it before anything is signed with it.
func (a *attesting) signer() (crypto.Signer, error) {
	if a.newKey == "" {
		return readKey(a.key)
	}
	private, public, err := proof.NewKey()
	if err != nil {
		return nil, err
	}
	if err = writeNew(a.newKey, private, 0o600); err == nil {
		if err = writeNew(a.newKey+".pub", public, 0o644); err != nil {
			err = errors.Join(err, os.Remove(a.newKey))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--new-key: %w; name another file, or sign with --key", err)
	}
	return proof.PrivateKey(private)
}

// writeNew writes a file that was not there.
func writeNew(name string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// readSecret reads a file that others cannot read.
func readSecret(flag, name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return nil, fmt.Errorf("%s %s: file mode %04o lets other users read or write the key; run chmod 600 %s", flag, name, m, name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}

// readKey reads a private key that others cannot read.
func readKey(name string) (crypto.Signer, error) {
	text, err := readSecret("--key", name)
	if err != nil {
		return nil, err
	}
	key, err := proof.PrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", name, err)
	}
	return key, nil
}

// readWithOrigin reads a result, and says what is proved of where it was made.
func readWithOrigin(path string) (*result.Experiment, *proof.Report, error) {
	doc, e, err := result.Document(path)
	if err != nil {
		return nil, nil, err
	}
	r, err := proof.Verify(doc, proof.Options{Now: host.Local().Now()})
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return e, r, nil
}

// verifying are the flags of `verify`.
type verifying struct {
	policy, nonce, asOf string
	measurements, keys  []string
	rims                []string
	debug, asJSON       bool
	maxAge              time.Duration

	now   func() time.Time
	roots attest.Trust
}

func verifyCommand(env Env) *cobra.Command {
	return (&verifying{now: host.Local().Now}).command(env)
}

func (v *verifying) command(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "verify RESULT.json",
		Short: "Say what the attestation or signature of a result proves, and what not",
		Long: `Verify checks without any network: the digest of the result, the signatures up to the
vendor's root, the TCB and revocations (from the data stored in the result), that the host can
neither debug nor migrate the TEE, and the requirements of the flags or the policy file. It
prints one line. AMD does not publish which TCB is current: SEV-SNP needs a policy with min_tcb.

Certificates and revocation lists are checked for the time that the attestation states;
--as-of sets another time. A quote proves where the result was when it was attested. It does not
prove that the clock there was honest.

Exit status: 0 attested, or signed by a named key, 1 refused, 2 unattested or something
that is needed cannot be checked, 4 usage error or no result.`,
		Example: "  teescope verify result.json\n" +
			"  teescope verify result.json --policy policy.yaml --json\n" +
			"  teescope verify result.json --policy gpu.yaml --rim driver.swidtag --rim vbios.swidtag\n" +
			"  teescope verify result.json --key me.pem.pub",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return v.run(env, args[0]) },
	}
	c.Flags().StringVar(&v.policy, "policy", "", "YAML `FILE` with the requirements on the evidence: tee, measurements, min_tcb and others (docs/attested-results.md)")
	c.Flags().StringSliceVar(&v.measurements, "measurement", nil, "expected measurement in `HEX`; may be repeated, and then one of the measurements must match")
	c.Flags().StringSliceVar(&v.keys, "key", nil, "`FILE` with an expected public key in PEM; may be repeated, and then one of the keys must match")
	c.Flags().StringSliceVar(&v.rims, "rim", nil, "`FILE` with the measurements that NVIDIA publishes for the driver or VBIOS of a GPU (RIM); the signature of this file is not verified")
	c.Flags().BoolVar(&v.debug, "allow-debug", false, "accept a TEE in debug mode, in which the host can read the TEE's memory")
	c.Flags().DurationVar(&v.maxAge, "max-age", 0, "maximum age of the attestation, from the time that the attestation states")
	c.Flags().StringVar(&v.nonce, "nonce", "", "expected nonce in `HEX`")
	c.Flags().StringVar(&v.asOf, "as-of", "", "check certificates and revocation lists for this time instead of the attestation's (2026-11-25T12:00:00Z, or now)")
	c.Flags().BoolVar(&v.asJSON, "json", false, "print data instead of text")
	return c
}

// options joins the policy file and the flags.
func (v *verifying) options() (proof.Options, error) {
	o := proof.Options{Now: v.now(), Roots: v.roots}
	if v.policy != "" {
		text, err := os.ReadFile(v.policy)
		if err != nil {
			return o, fmt.Errorf("--policy: %w", err)
		}
		if o.Policy, err = proof.ReadPolicy(text); err != nil {
			return o, fmt.Errorf("--policy %s: %w", v.policy, err)
		}
	}
	p := &o.Policy
	p.Measurements = append(p.Measurements, v.measurements...)
	p.Debug = p.Debug || v.debug
	p.Nonce = cmp.Or(v.nonce, p.Nonce)
	p.MaxAge = cmp.Or(v.maxAge, p.MaxAge)
	for _, name := range v.keys {
		text, err := os.ReadFile(name)
		if err != nil {
			return o, fmt.Errorf("--key: %w", err)
		}
		id, err := proof.PublicKey(text)
		if err != nil {
			return o, fmt.Errorf("--key %s: %w", name, err)
		}
		p.Keys = append(p.Keys, id)
	}
	for _, name := range v.rims {
		text, err := os.ReadFile(name)
		if err != nil {
			return o, fmt.Errorf("--rim: %w", err)
		}
		m, err := attest.ReadRIM(text)
		if err != nil {
			return o, fmt.Errorf("--rim %s: %w", name, err)
		}
		p.RIMs = append(p.RIMs, m)
	}
	if p.MaxAge < 0 {
		return o, fmt.Errorf("--max-age %s: want a time above 0", p.MaxAge)
	}
	switch v.asOf {
	case "":
	case "now":
		o.AsOf = o.Now
	default:
		t, err := time.Parse(time.RFC3339, v.asOf)
		if err != nil {
			return o, fmt.Errorf("--as-of %q: want a time like 2026-11-25T12:00:00Z, or now", v.asOf)
		}
		o.AsOf = t
	}
	return o, p.Check()
}

func (v *verifying) run(env Env, path string) error {
	o, err := v.options()
	if err != nil {
		return err
	}
	doc, _, err := result.Document(path)
	if err != nil {
		return err
	}
	r, err := proof.Verify(doc, o)
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	if v.asJSON {
		err = printJSON(env.Stdout, r)
	} else {
		_, err = fmt.Fprintf(env.Stdout, "%s: %s\n", path, r.Line)
	}
	if err != nil {
		return err
	}
	if s := r.Status(); s != exitOK {
		return outcome(s)
	}
	return nil
}
