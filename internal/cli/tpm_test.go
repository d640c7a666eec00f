package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/attest/swtpm"
	"github.com/teescope/teescope/internal/proof"
)

// TestTPMCommand goes the whole way on a TPM in software: a CA certifies its key, a result is attested by it,
// and a channel is carried by it; who does not know the TPM is told so.
func TestTPMCommand(t *testing.T) {
	socket, maker := swtpm.Start(t)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inPEM := func(kind string, der ...[]byte) (out []byte) {
		for _, d := range der {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: d})...)
		}
		return out
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "site"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0)}
	ca, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	caFile, keyFile, roots := write("ca.pem", inPEM("CERTIFICATE", ca)), write("ca.key", inPEM("PRIVATE KEY", der)), write("maker.pem", inPEM("CERTIFICATE", maker[0].Raw, maker[1].Raw))
	ok := func(args ...string) string {
		t.Helper()
		out, errs, code := run(t, args...)
		if code != exitOK || errs != "" {
			t.Fatalf("%v: status %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	identity := write("identity.json", []byte(ok("tpm", "identity", "--tpm", socket)))
	sealed := write("sealed.json", []byte(ok("tpm", "endorse", identity, "--roots", roots, "--ca", caFile, "--ca-key", keyFile)))
	leaf := write("tpm.pem", []byte(ok("tpm", "activate", sealed, "--tpm", socket)))

	path := someResult(t, "r.json")
	out := ok("attest", path, "--provider", "tpm", "--tpm", socket, "--tpm-certificate", leaf)
	if !strings.HasPrefix(out, path+": unproved: proved: a machine with the TPM key SHA256:") || !strings.Contains(out, "a TPM is not a TEE") || !strings.Contains(out, "one in software is only as honest") {
		t.Errorf("attest says %s", out)
	}
	out, _, code := run(t, "verify", path, "--json")
	var r proof.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitInconclusive || r.Facts == nil || !r.Facts.NoTEE || len(r.Facts.Key) != len("SHA256:")+43 {
		t.Fatalf("status %d, %v: %s", code, err, out)
	}
	yaml := func(name, list string) string { return write(name, []byte(list)) }
	known := yaml("known.yaml", "tee: [tpm]\ntpm_roots:\n- |\n  "+strings.ReplaceAll(strings.TrimSpace(string(inPEM("CERTIFICATE", ca))), "\n", "\n  ")+"\n")
	for policy, want := range map[string]string{
		known: "attested: proved: a machine with a known TPM had exactly this result",
		yaml("key.yaml", "tpm_keys: ["+r.Facts.Key+"]\n"):                                                  "attested: proved: a machine with a known TPM",
		yaml("none.yaml", "tpm_keys: [SHA256:"+strings.Repeat("A", 43)+"]\n"):                              "no trusted key or certificate vouches for this TPM",
		yaml("tdx.yaml", "tee: [tdx]\ntpm_keys: ["+r.Facts.Key+"]\n"):                                      "refused: environment: the evidence is from tpm",
		yaml("pcr.yaml", "tpm_keys: ["+r.Facts.Key+"]\nregisters: {pcr0: "+strings.Repeat("ab", 32)+"}\n"): "refused: measurement: pcr0 is",
	} {
		out, errs, code := run(t, "verify", path, "--policy", policy)
		if !strings.Contains(out, want) || (code == exitOK) != strings.HasPrefix(want, "attested") {
			t.Errorf("%s: status %d\n%s%s want %q", filepath.Base(policy), code, out, errs, want)
		}
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := write("edited.json", bytes.Replace(doc, []byte("0.0125"), []byte("0.0124"), 1))
	if out, _, code := run(t, "verify", edited, "--policy", known); code != exitRegression || !strings.Contains(out, "refused: digest") {
		t.Errorf("edited: status %d\n%s", code, out)
	}

	// A channel whose listening side has this TPM.
	m := attesttest.SEV(t, attesttest.Options{}) // for the clock: that of the TPM's certificate is now
	far := startSide(t, func(f *tunneling, env Env) *cobra.Command {
		f.providers = attest.Providers
		return f.listenCommand(env)
	}, m,
		"--listen", "127.0.0.1:0", "--to", echoing(t), "--provider", "tpm", "--tpm", socket, "--tpm-certificate", leaf)
	for policy, pass := range map[string]bool{known: true, yaml("key2.yaml", "tpm_keys: ["+r.Facts.Key+"]\n"): true, yaml("none2.yaml", "debug: false\n"): false, yaml("tdx2.yaml", "tee: [tdx]\n"): false} {
		near := startSide(t, func(f *tunneling, env Env) *cobra.Command { f.now = time.Now; return f.connectCommand(env) }, m,
			"--listen", "127.0.0.1:0", "--to", far.attested, "--policy", policy)
		if got, err := through(t, near.plain, "hello"); (err == nil && got == "hello") != pass {
			t.Errorf("%s: %q, %v\n%s", filepath.Base(policy), got, err, near.errs)
		}
	}

	open := write("open.key", inPEM("PRIVATE KEY", der))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"tpm", "identity"}, "teescope needs a TPM 2.0"},
		{[]string{"tpm", "endorse", identity, "--roots", caFile, "--ca", caFile, "--ca-key", keyFile}, "endorsement key"},
		{[]string{"tpm", "endorse", sealed, "--roots", roots, "--ca", caFile, "--ca-key", keyFile}, "endorsement key"},
		{[]string{"tpm", "endorse", caFile, "--roots", roots, "--ca", caFile, "--ca-key", keyFile}, "not one that `teescope tpm` writes"},
		{[]string{"tpm", "endorse", identity, "--roots", keyFile, "--ca", caFile, "--ca-key", keyFile}, "--roots"},
		{[]string{"tpm", "endorse", identity, "--roots", roots, "--ca", caFile, "--ca-key", open}, "chmod 600"},
		{[]string{"tpm", "endorse", identity, "--roots", roots, "--ca", caFile, "--ca-key", caFile}, "--ca-key"},
		{[]string{"tpm", "activate", identity, "--tpm", socket}, "made for another TPM, or was changed"},
		{[]string{"attest", someResult(t, "r.json"), "--provider", "tpm", "--tpm", socket, "--tpm-certificate", keyFile}, "--tpm-certificate"},
		{[]string{"verify", path, "--policy", yaml("bad.yaml", "tpm_keys: [x]\n")}, "tpm_keys"},
		{[]string{"verify", path, "--policy", yaml("bad2.yaml", "tpm_roots: [x]\n")}, "tpm_roots 1: want certificates in PEM"},
	} {
		out, errs, code := run(t, tc.args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, tc.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d\n%s%s want %q", fmt.Sprint(tc.args), code, out, errs, tc.want)
		}
	}
}
