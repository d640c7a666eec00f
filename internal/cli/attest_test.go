package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/proof"
)

// someResult is a file with a result that nobody has attested.
func someResult(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../proof/testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	b = bytes.Replace(b, []byte(`"version": 1,`), []byte(`"version": 999,`), 1) // its job was never run, so its identity is not that of a known version
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

// onMachine runs attest or verify on a machine with a TEE.
func onMachine(t *testing.T, m *attesttest.Machine, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	now := func() time.Time { return attesttest.Made.Add(time.Minute) }
	here := &attest.Provider{Name: "test", Open: func(attest.Settings) (attest.Quoter, attest.Collateral, error) { return m, m.Collateral, nil }}
	var out, errs bytes.Buffer
	env := Env{Stdout: &out, Stderr: &errs}
	c := (&attesting{providers: []*attest.Provider{here}, now: now, roots: m.Trust}).command(env)
	if args[0] == "verify" {
		c = (&verifying{now: now, roots: m.Trust}).command(env)
	}
	c.SetArgs(args[1:])
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	if err == nil {
		return out.String(), errs.String(), exitOK
	}
	var status outcome
	if errors.As(err, &status) {
		return out.String(), errs.String(), int(status)
	}
	return out.String(), errs.String() + contain.OneLine(err), exitUsage
}

// TestAttestCommand: a result is attested where it was made, and verified elsewhere.
func TestAttestCommand(t *testing.T) {
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		path := someResult(t, "r.json")
		out, errs, code := onMachine(t, m, "attest", path, "--nonce", "0aff")
		word := proof.Attested
		if name == "sev-snp" { // without a policy nobody has said which TCB is enough
			word = proof.Unproved
		}
		if code != exitOK || errs != "" || !strings.HasPrefix(out, path+": "+word+": proved: a") || strings.Count(out, "\n") != 1 {
			t.Fatalf("%s: status %d\n%s%s", name, code, out, errs)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: the file is now %v, %v", name, info.Mode(), err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || left != nil {
			t.Errorf("%s: files were left: %v", name, left)
		}
		least := writePolicy(t, "min_tcb: {milan: "+attesttest.MilanTCB.String()+"}\n")
		if out, errs, code := onMachine(t, m, "verify", path, "--nonce", "0aff", "--max-age", "1h", "--policy", least); code != exitOK || errs != "" {
			t.Errorf("%s: status %d\n%s%s", name, code, out, errs)
		}
		if out, _, code := onMachine(t, m, "verify", path, "--nonce", "0aff"); (code == exitInconclusive) != (word == proof.Unproved) || !strings.Contains(out, ": "+word+": ") || strings.Contains(out, "write into a policy: min_tcb: {milan: {") != (word == proof.Unproved) {
			t.Errorf("%s without a policy: status %d\n%s", name, code, out)
		}
		var r proof.Report
		out, _, code = onMachine(t, m, "verify", path, "--json", "--nonce", "0afe")
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitRegression || r.Origin != proof.Refused || r.Facts.TEE != name || len(r.Checks) < 5 {
			t.Errorf("%s: status %d, %v\n%s", name, code, err, out)
		}
		// Here nothing is trusted that the test signed.
		if out, _, code := run(t, "verify", path); code != exitRegression || !strings.Contains(out, "refused: signature") {
			t.Errorf("%s: status %d\n%s", name, code, out)
		}
		if _, errs, code := onMachine(t, m, "attest", path); code != exitUsage || !strings.Contains(errs, "already attested or signed") {
			t.Errorf("%s, twice: status %d, %s", name, code, errs)
		}
		if _, errs, code := onMachine(t, m, "attest", path, "--replace"); code != exitOK {
			t.Errorf("%s, replaced: status %d, %s", name, code, errs)
		}
	}
	m := attesttest.TDX(t, attesttest.Options{OutOfDate: true})
	if out, _, code := onMachine(t, m, "attest", someResult(t, "r.json")); code != exitRegression || !strings.Contains(out, "refused: tcb") {
		t.Errorf("an old TCB: status %d\n%s", code, out)
	}
	path := someResult(t, "r.json")
	if out, _, code := onMachine(t, attesttest.TDX(t, attesttest.Options{}), "attest", path, "--offline"); code != exitOK || !strings.Contains(out, "unproved: ") {
		t.Errorf("offline: status %d\n%s", code, out)
	}
}

// TestSignCommand: what a key signs, its public part verifies.
func TestSignCommand(t *testing.T) {
	path := someResult(t, "r.json")
	key := filepath.Join(t.TempDir(), "me.pem")
	if out, errs, code := run(t, "attest", path, "--new-key", key); code != exitOK || errs != "" || !strings.Contains(out, ": signed: ") {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode: %v, %v", info.Mode(), err)
	}
	if out, _, code := run(t, "verify", path); code != exitInconclusive || !strings.Contains(out, "no key was named") {
		t.Errorf("without the key: status %d\n%s", code, out)
	}
	if out, errs, code := run(t, "verify", path, "--key", key+".pub"); code != exitOK {
		t.Errorf("with the key: status %d\n%s%s", code, out, errs)
	}
	out, _, _ := run(t, "compare", path)
	if !strings.Contains(out, "signed") {
		t.Errorf("compare says nothing of the signature:\n%s", out)
	}
	if out, errs, _ := run(t, "report", path, "--out", "-", "--format", "text"); !strings.Contains(out, "not proved: where, how or when it was made") {
		t.Errorf("report does not say what a signature proves:\n%s%s", out, errs)
	}
	plain := someResult(t, "plain.json")
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, bytes.Replace(b, []byte("4f6c0c9e"), []byte("5f6c0c9e"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, errs, _ := run(t, "compare", path, plain); !strings.Contains(out, "r.json signed with a local key, plain.json unattested") {
		t.Errorf("compare of two says nothing of their origins:\n%s%s", out, errs)
	}
	// A result that was edited after it was signed.
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(doc, []byte("0.0125"), []byte("0.0124"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _, code := run(t, "verify", path, "--key", key+".pub"); code != exitRegression || !strings.Contains(out, "refused: digest: the result was changed") {
		t.Errorf("edited: status %d\n%s", code, out)
	}
	if out, _, _ := run(t, "gate", path); !strings.Contains(out, "origin: refused") {
		t.Errorf("gate says nothing of the edit:\n%s", out)
	}
	if out, errs, code := run(t, "report", path, "--out", "-", "--format", "text"); code != exitOK || !strings.Contains(out, "refused: digest") {
		t.Errorf("report says nothing of the edit: status %d\n%s%s", code, out, errs)
	}
	// A machine with a TEE, and a key: the key signs, and the note says what would prove more.
	other := someResult(t, "r.json")
	if out, errs, code := onMachine(t, attesttest.SEV(t, attesttest.Options{}), "attest", other, "--key", key); code != exitOK || !strings.Contains(errs, "has a TEE (test)") || !strings.Contains(out, ": signed: ") {
		t.Errorf("a key and a TEE: status %d\n%s%s", code, out, errs)
	}
}

// TestAttestRefuses: what cannot be done is said in one line, and the file is as it was.
func TestAttestRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private, _, err := proof.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key := file("key.pem", string(private), 0o600)
	good := someResult(t, "r.json")
	// As long as names get: there is no room for the name of the file that replaces it.
	unwritable := someResult(t, strings.Repeat("r", 245)+".json")
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	big := file("big.json", strings.Replace(string(whole), "9007199254740991", "9007199254740993", 1), 0o644)
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no TEE", []string{"attest", good}, "no TEE on this machine (open configfs-tsm: "},
		{"a TEE that is not here", []string{"attest", good, "--provider", "nitro"}, "evidence of this kind needs an AWS Nitro enclave"},
		{"an unknown TEE", []string{"attest", good, "--provider", "sgx"}, `--provider "sgx": want configfs-tsm, nitro, tpm, nvidia, simulated`},
		{"no GPU", []string{"attest", good, "--provider", "nvidia", "--gpu-command", "no-such-tool {nonce}"}, "install NVIDIA's nvattest"},
		{"an old report of a GPU", []string{"attest", good, "--provider", "nvidia", "--gpu-command", "sed -e s/{nonce}// ../attest/testdata/nvidia-hopper.json"}, "this machine returned a quote for other data than teescope requested"},
		{"a manifest that is none", []string{"verify", good, "--rim", key}, "--rim " + key + ": read the manifest"},
		{"no manifest", []string{"verify", good, "--rim", filepath.Join(dir, "none.xml")}, "--rim: open "},
		{"a key and a provider", []string{"attest", good, "--key", key, "--provider", "nitro"}, "none of the others can be"},
		{"no key", []string{"attest", good, "--key", filepath.Join(dir, "none.pem")}, "--key: stat "},
		{"a key for all", []string{"attest", good, "--key", file("open.pem", string(private), 0o644)}, "chmod 600"},
		{"a key that is none", []string{"attest", good, "--key", file("no.pem", "key", 0o600)}, "want an Ed25519 or an ECDSA P-256 key"},
		{"a key that is there", []string{"attest", good, "--new-key", key}, "file exists; name another file"},
		{"a folder that is not", []string{"attest", good, "--new-key", filepath.Join(dir, "none", "key.pem")}, "no such file"},
		{"a nonce that is none", []string{"attest", good, "--key", key, "--nonce", "hello"}, "want at most 64 bytes as hex"},
		{"a file that cannot be replaced", []string{"attest", unwritable, "--key", key}, "the file is unchanged"},
		{"a number without canonical form", []string{"attest", big, "--key", key}, "JSON keeps integers up to 2^53 exactly"},
		{"cut off", []string{"attest", file("cut.json", string(whole[:300]), 0o644), "--key", key}, "not a complete JSON document"},
		{"another document", []string{"attest", file("other.json", `{"a": 1}`, 0o644), "--key", key}, "not a result"},
		{"a wrong type", []string{"verify", file("type.json", strings.Replace(string(whole), "{", `{"attestation": 7,`, 1), 0o644)}, "does not follow the schema"},
		{"a quote that is no text", []string{"verify", file("quote.json", strings.Replace(string(whole), "{", `{"attestation": {"format": "x", "digest": "x", "made_at": "x", "quote": [1]},`, 1), 0o644)}, "does not follow the schema"},
		{"a quote that is not base64", []string{"verify", file("base.json", strings.Replace(string(whole), "{", `{"attestation": {"format": "x", "digest": "x", "made_at": "2026-11-20T12:00:00Z", "quote": "*"},`, 1), 0o644)}, "base64"},
		{"nothing to verify", []string{"verify", filepath.Join(dir, "none.json")}, "no such file"},
		{"verify what is cut off", []string{"verify", filepath.Join(dir, "cut.json")}, "not a complete JSON document"},
		{"no policy", []string{"verify", good, "--policy", filepath.Join(dir, "none.yaml")}, "--policy: open "},
		{"an unknown key in the policy", []string{"verify", good, "--policy", file("p.yaml", "mesurements: []\n", 0o644)}, "field mesurements not found"},
		{"a private key for a public one", []string{"verify", good, "--key", key}, "want a PUBLIC KEY"},
		{"a measurement that is none", []string{"verify", good, "--measurement", "abc"}, "want 48 bytes"},
		{"an age that is none", []string{"verify", good, "--max-age", "-1h"}, "want a time above 0"},
		{"a time that is none", []string{"verify", good, "--as-of", "yesterday"}, "want a time like"},
	} {
		out, errs, code := run(t, tc.args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, tc.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d\n%s%s want %q", tc.name, code, out, errs, tc.want)
		}
	}
	for _, path := range []string{good, unwritable} {
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s has changed: %v", path, err)
		}
	}
	if _, err := os.Stat(key + ".pub"); err == nil {
		t.Error("a public key was written for a key that was there")
	}
}

// TestAttestGPU: a result that GPUs have signed is attested for a policy that names them, with the manifests of their firmware.
func TestAttestGPU(t *testing.T) {
	m := attesttest.NVIDIA(t, attesttest.GH100)
	path := someResult(t, "r.json")
	out, errs, code := onMachine(t, m, "attest", path)
	if code != exitOK || errs != "" || !strings.Contains(out, "unproved: proved: an NVIDIA GPU (GH100 A01 GSP BROM A, driver 590.12, VBIOS 96.00.A5.00.01, mode spt) signed a report about exactly this result") {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	if out, errs, code := onMachine(t, m, "verify", path); code != exitInconclusive || !strings.Contains(out, "where it was made (a GPU's report says nothing about the CPU)") {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
	write := func(name string, text []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := write("gpu.yaml", []byte("tee: [nvidia-gpu]\n"))
	driver, vbios := write("driver.xml", attesttest.NVIDIAManifest(attesttest.NVIDIADriver, 3, 4)), write("vbios.xml", attesttest.NVIDIAManifest(attesttest.NVIDIAVBIOS, 5))
	var r proof.Report
	out, errs, code = onMachine(t, m, "verify", path, "--policy", policy, "--rim", driver, "--rim", vbios, "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK || r.Origin != proof.Attested || !strings.Contains(r.Line, "its firmware is that of the named manifests") || len(r.Facts.GPUs) != 1 || r.Facts.GPUs[0].Serial != "A" {
		t.Errorf("status %d, %v\n%s%s", code, err, out, errs)
	}
}

// TestOriginWords: an attested result names what attested it.
func TestOriginWords(t *testing.T) {
	path := someResult(t, "r.json")
	m := attesttest.SEV(t, attesttest.Options{})
	if out, errs, code := onMachine(t, m, "attest", path); code != exitOK {
		t.Fatal(out, errs)
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.Verify(doc, proof.Options{Now: attesttest.Made.Add(time.Minute), Roots: m.Trust, Policy: proof.Policy{MinTCB: attesttest.MinTCB}})
	if err != nil || r.Word() != "attested: an SEV-SNP guest" {
		t.Errorf("%v, %q: %s", err, r.Word(), r.Line)
	}
}
