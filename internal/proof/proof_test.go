package proof

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/result"
)

var update = flag.Bool("update", false, "write the test vector anew")

// made is when the results of the tests are attested.
var made = attesttest.Made.Add(time.Minute)

// document is a small result.
func document(t testing.TB, change func(*result.Experiment)) []byte {
	t.Helper()
	value := 0.0125
	e := &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: "4f6c0c9e-0000-4000-8000-000000000001", Name: "a <small> result, 5 €", StartedAt: made.Add(-time.Hour),
		Design:       result.Design{Kind: result.Single, Grade: result.GradeA, Seed: 9007199254740991, PairsPlanned: 1, Alpha: 0.05, Margin: 0.03, Primary: "startup_seconds"},
		Workload:     result.Workload{Name: "startup", Version: 1, Metrics: []result.MetricDesc{{Name: "startup_seconds", Unit: "seconds", Better: "lower"}}},
		Cases:        []result.Case{{ID: "default", Identity: "sha256:00"}},
		Environments: []result.Environment{{ID: "native", Role: result.Baseline, Launcher: "native"}},
		Runs: []result.Run{{ID: "p00-default-native", Env: "native", Case: "default", StartedAt: made.Add(-30 * time.Minute), Status: result.OK,
			Metrics: []result.Metric{{Name: "startup_seconds", Value: &value, Source: result.Measured, N: 1}}}},
	}
	if change != nil {
		change(e)
	}
	b, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// attach returns a document with its attestation.
func attach(t testing.TB, doc []byte, a *result.Attestation, err error) []byte {
	t.Helper()
	if err == nil {
		doc, err = result.Attach(doc, a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func attested(t testing.TB, m *attesttest.Machine, doc []byte, nonce string) []byte {
	t.Helper()
	a, err := Attest(t.Context(), doc, m, m.Collateral, nonce, made, m.Trust)
	return attach(t, doc, a, err)
}

// keys are one of each kind.
func keys(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	private, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	edwards, err := PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	nist, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{ed25519Format: edwards, ecdsaFormat: nist}
}

// idOf is the fingerprint of a key.
func idOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	id, err := PublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestVerify: what is right is proved, and what is wrong is refused for that reason.
func TestVerify(t *testing.T) {
	doc := document(t, nil)
	other := document(t, func(e *result.Experiment) { e.Name = "another" })
	good := attesttest.SEV(t, attesttest.Options{})
	nitro := attesttest.Nitro(t, attesttest.Options{})
	measurement := hex.EncodeToString(func() (b []byte) {
		for n := range 48 {
			b = append(b, byte(n+1))
		}
		return b
	}())
	pcr0 := "07" + strings.Repeat("00", 47)
	soon := made.Add(time.Hour)
	offline := func(m *attesttest.Machine) *attesttest.Machine { c := *m; c.Collateral = nil; return &c }
	key := keys(t)[ecdsaFormat]
	signed := func(doc []byte) []byte { a, err := Sign(doc, key, "", made); return attach(t, doc, a, err) }
	simulated, err := attest.NewSimulated(attest.Settings{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	fake, err := Attest(t.Context(), doc, simulated, simulated, "", time.Now(), attest.Trust{}) // clock: its keys are made now
	if err != nil {
		t.Fatal(err)
	}
	swap := func(doc []byte, from, to string) []byte {
		out := strings.Replace(string(doc), from, to, 1)
		if out == string(doc) {
			t.Fatalf("the document has no %s", from)
		}
		return []byte(out)
	}
	// moved is the attestation of one document in another.
	moved := func(from, to []byte) []byte {
		e, err := result.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		return attach(t, to, e.Attestation, nil)
	}
	// relabelled claims the other document's digest.
	relabelled := func(from, to []byte) []byte {
		e, err := result.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		e.Attestation.Digest, err = result.Digest(to)
		return attach(t, to, e.Attestation, err)
	}
	// with is the document with another attestation.
	with := func(doc []byte, change func(*result.Attestation)) []byte {
		e, err := result.Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		change(e.Attestation)
		return attach(t, doc, e.Attestation, nil)
	}
	for _, tc := range []struct {
		name   string
		doc    []byte
		o      Options
		origin string
		status int
		want   string // in the line
	}{
		{"nothing", doc, Options{}, Unattested, 2, "unattested: not proved: where"},
		{"a guest", attested(t, good, doc, ""), Options{Roots: good.Trust}, Attested, 0, "an SEV-SNP guest had exactly this result"},
		{"an enclave", attested(t, nitro, doc, ""), Options{Roots: nitro.Trust}, Attested, 0, "not proved: what software ran there"},
		{"expected measurement", attested(t, good, doc, ""), Options{Roots: good.Trust, Policy: Policy{Measurements: []string{strings.Repeat("00", 48), measurement}}}, Attested, 0, "with the expected measurement"},
		{"another measurement", attested(t, good, doc, ""), Options{Roots: good.Trust, Policy: Policy{Measurements: []string{strings.Repeat("00", 48)}}}, Refused, 1, "measurement: the measurement is 0102"},
		{"expected registers", attested(t, nitro, doc, ""), Options{Roots: nitro.Trust, Policy: Policy{Registers: map[string]string{"pcr0": pcr0}}}, Attested, 0, "with the expected measurement"},
		{"another register", attested(t, nitro, doc, ""), Options{Roots: nitro.Trust, Policy: Policy{Registers: map[string]string{"pcr8": pcr0}}}, Refused, 1, `pcr8 is ""`},
		{"another TEE", attested(t, nitro, doc, ""), Options{Roots: nitro.Trust, Policy: Policy{Formats: []string{"tdx"}}}, Refused, 1, "the policy wants tdx"},
		{"edited", swap(attested(t, good, doc, ""), "0.0125", "0.0124"), Options{Roots: good.Trust}, Refused, 1, "changed after it was attested"},
		{"quote of another result", moved(attested(t, good, other, ""), doc), Options{Roots: good.Trust}, Refused, 1, "of another result"},
		{"quote of another result, with this one's digest", relabelled(attested(t, good, other, ""), doc), Options{Roots: good.Trust}, Refused, 1, "binding"},
		{"another time", swap(attested(t, good, doc, ""), `"made_at": "2026`, `"made_at": "2027`), Options{Roots: good.Trust, AsOf: made}, Refused, 1, "binding"},
		{"nonce", attested(t, good, doc, "0aff"), Options{Roots: good.Trust, Policy: Policy{Nonce: "0aff"}}, Attested, 0, "attested"},
		{"wrong nonce", attested(t, good, doc, "0aff"), Options{Roots: good.Trust, Policy: Policy{Nonce: "0afe"}}, Refused, 1, "nonce"},
		{"nonce written into it", swap(attested(t, good, doc, "0aff"), "0aff", "0afe"), Options{Roots: good.Trust, Policy: Policy{Nonce: "0afe"}}, Refused, 1, "binding"},
		{"no nonce", attested(t, good, doc, ""), Options{Roots: good.Trust, Policy: Policy{Nonce: "0afe"}}, Refused, 1, "nonce"},
		{"young enough", attested(t, good, doc, ""), Options{Roots: good.Trust, Policy: Policy{MaxAge: 2 * time.Hour}}, Attested, 0, "attested"},
		{"too old", attested(t, good, doc, ""), Options{Roots: good.Trust, Policy: Policy{MaxAge: time.Minute}}, Refused, 1, "1h0m0s by the attested machine's clock, the policy allows 1m0s"},
		{"too old by the hardware", attested(t, nitro, doc, ""), Options{Roots: nitro.Trust, Policy: Policy{MaxAge: time.Minute}}, Refused, 1, "by the hardware's clock"},
		{"of tomorrow", attested(t, good, doc, ""), Options{Roots: good.Trust, Now: made.Add(-time.Hour)}, Refused, 1, "in the future"},
		{"lists that have run out", attested(t, good, doc, ""), Options{Roots: good.Trust, AsOf: made.AddDate(0, 3, 0)}, Refused, 1, "the revocation list is valid only from"},
		{"certificates that have run out", attested(t, nitro, doc, ""), Options{Roots: nitro.Trust, AsOf: made.AddDate(1, 0, 0)}, Refused, 1, "expired"},
		{"the vendor's root", attested(t, good, doc, ""), Options{}, Refused, 1, "signature"},
		{"no collateral", attested(t, offline(good), doc, ""), Options{Roots: good.Trust}, Unproved, 2, "attest the result again where the vendor's service can be reached"},
		{"a simulated quote", attach(t, doc, fake, nil), Options{Now: time.Now()}, Simulated, 2, "no hardware vouches"}, // clock: its keys are made now
		{"no quote", with(attested(t, good, doc, ""), func(a *result.Attestation) { a.Quote = nil }), Options{Roots: good.Trust}, Refused, 1, "evidence"},
		{"half a quote", with(attested(t, good, doc, ""), func(a *result.Attestation) { a.Quote = a.Quote[:len(a.Quote)/2] }), Options{Roots: good.Trust}, Refused, 1, "evidence"},
		{"no certificate of the chip", with(attested(t, good, doc, ""), func(a *result.Attestation) { a.Certificates = nil }), Options{Roots: good.Trust}, Unproved, 2, "signature not checked"},
		{"no signature", with(signed(doc), func(a *result.Attestation) { a.Signature = nil }), Options{}, Refused, 1, "signature"},
		{"no public key", with(signed(doc), func(a *result.Attestation) { a.PublicKey = nil }), Options{}, Refused, 1, "read the public key"},
		{"unknown evidence", swap(attested(t, good, doc, ""), `"sev_guest"`, `"cca_guest"`), Options{Roots: good.Trust}, Refused, 1, "cca_guest"},
		{"signed by anybody", signed(doc), Options{}, Signed, 2, "no key was named"},
		{"signed by a key", signed(doc), Options{Policy: Policy{Keys: []string{"SHA256:x", idOf(t, key)}}}, Signed, 0, "not proved: where, how or when it was made"},
		{"signed by another key", signed(doc), Options{Policy: Policy{Keys: []string{"SHA256:x"}}}, Refused, 1, "none of the named keys"},
		{"signed and edited", swap(signed(doc), "0.0125", "0.0124"), Options{Policy: Policy{Keys: []string{idOf(t, key)}}}, Refused, 1, "changed after it was attested"},
		{"signature of another result", relabelled(signed(other), doc), Options{Policy: Policy{Keys: []string{idOf(t, key)}}}, Refused, 1, "did not sign this result"},
		{"signed where a TEE is wanted", signed(doc), Options{Policy: Policy{Keys: []string{idOf(t, key)}, Formats: []string{"tdx"}}}, Refused, 1, "does not prove a TEE"},
		{"a quote where a key is wanted", attested(t, good, doc, ""), Options{Roots: good.Trust, Policy: Policy{Keys: []string{idOf(t, key)}}}, Refused, 1, "no key has signed"},
		{"a member that nobody signed", swap(signed(doc), `"format": "ecdsa-p256"`, `"format": "ecdsa-p256", "note": "trust me"`), Options{Policy: Policy{Keys: []string{idOf(t, key)}}}, Refused, 1, "members or spellings"},
		{"a quote beside a signature", swap(signed(doc), `"format": "ecdsa-p256"`, `"format": "ecdsa-p256", "quote": "AAAA"`), Options{Policy: Policy{Keys: []string{idOf(t, key)}}}, Refused, 1, "does not cover"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.o.Now.IsZero() {
				tc.o.Now = soon
			}
			if e, err := result.Parse(tc.doc); err == nil && e.Attestation != nil && e.Attestation.Format == "sev_guest" {
				tc.o.Policy.MinTCB = attesttest.MinTCB
			}
			r, err := Verify(tc.doc, tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Origin != tc.origin || r.Status() != tc.status || !strings.Contains(r.Line, tc.want) || strings.Contains(r.Line, "\n") {
				t.Errorf("status %d, %s\nwant %d, %s with %q", r.Status(), r.Line, tc.status, tc.origin, tc.want)
			}
		})
	}
}

// TestMachines: what is wrong with a machine, the result says.
func TestMachines(t *testing.T) {
	doc := document(t, nil)
	for name, machine := range attesttest.All {
		for _, tc := range []struct {
			o      attesttest.Options
			p      Policy
			origin string
			want   string
		}{
			{attesttest.Options{}, Policy{}, Attested, "its clock was honest"},
			{attesttest.Options{Debug: true}, Policy{}, Refused, "debug: on"},
			{attesttest.Options{Debug: true}, Policy{Debug: true}, Attested, "that the host stayed outside (debug is on)"},
			{attesttest.Options{Revoked: true}, Policy{}, Refused, "revoked"},
			{attesttest.Options{OutOfDate: true}, Policy{}, Refused, "tcb: as of"},
		} {
			if name == "nitro" && (tc.o.Revoked || tc.o.OutOfDate) {
				continue // AWS says neither
			}
			m := machine(t, tc.o)
			tc.p.MinTCB = attesttest.MinTCB
			r, err := Verify(attested(t, m, doc, ""), Options{Policy: tc.p, Now: made.Add(time.Minute), Roots: m.Trust})
			if err != nil || r.Origin != tc.origin || !strings.Contains(r.Line, tc.want) {
				t.Errorf("%s %+v %+v: %v, %+v, want %s with %q", name, tc.o, tc.p, err, r, tc.origin, tc.want)
			}
		}
	}
}

// TestAnyByteOfAResult changes each byte of attested and signed results. What is still proved has the
// same canonical form: another space, or another spelling of the same character or number. The
// bytes of quotes and collateral themselves are changed by the tests of package attest.
func TestAnyByteOfAResult(t *testing.T) {
	doc := document(t, nil)
	type sample struct {
		doc  []byte
		o    Options
		skip bool // inside of what is in base64
	}
	all := map[string]sample{}
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		all[name] = sample{attested(t, m, doc, "0aff"), Options{Now: made, Roots: m.Trust, Policy: Policy{Nonce: "0aff", MinTCB: attesttest.MinTCB}}, name != "nitro"}
	}
	for name, key := range keys(t) {
		a, err := Sign(doc, key, "0aff", made)
		all[name] = sample{attach(t, doc, a, err), Options{Now: made, Policy: Policy{Keys: []string{idOf(t, key)}}}, false}
	}
	encoded := regexp.MustCompile(`[A-Za-z0-9+/]{65,}`)
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, err := result.CanonicalOf(json.RawMessage(s.doc))
			if err != nil {
				t.Fatal(err)
			}
			if r, err := Verify(s.doc, s.o); err != nil || r.Status() != 0 {
				t.Fatalf("unchanged: %+v, %v", r, err)
			}
			inside := make([]bool, len(s.doc))
			for _, at := range encoded.FindAllIndex(s.doc, -1) {
				for n := at[0] + 8; n < at[1]-8; n++ {
					inside[n] = true
				}
			}
			accepted := map[string]int{}
			for at := range s.doc {
				// Another byte, the other case of a letter, and another white space.
				for _, flip := range []byte{1, 'a' ^ 'A', ' ' ^ '\n'} {
					if inside[at] && s.skip || flip > 1 && name != ed25519Format {
						continue
					}
					changed := slices.Clone(s.doc)
					changed[at] ^= flip
					r, err := Verify(changed, s.o)
					if err != nil || r.Status() != 0 {
						continue
					}
					if now, err := result.CanonicalOf(json.RawMessage(changed)); err != nil || !bytes.Equal(now, whole) {
						t.Errorf("byte %d, %q for %q, is accepted: ...%s...", at, changed[at], s.doc[at], s.doc[max(0, at-30):min(len(s.doc), at+30)])
					}
					accepted[fmt.Sprintf("%q for %q", changed[at], s.doc[at])]++
				}
			}
			t.Logf("accepted with the same canonical form: %v", accepted)
			for c := range accepted {
				if !slices.Contains([]string{`'\n' for ' '`, `' ' for '\n'`, `'C' for 'c'`, `'E' for 'e'`}, c) {
					t.Errorf("%s is accepted", c)
				}
			}
		})
	}
}

// TestAttestRefuses: evidence that does not verify or is about something else is no attestation.
func TestAttestRefuses(t *testing.T) {
	doc := document(t, nil)
	m := attesttest.SEV(t, attesttest.Options{})
	for _, tc := range []struct {
		name  string
		q     attest.Quoter
		nonce string
		roots attest.Trust
		doc   []byte
		want  string
	}{
		{"another root", m, "", attest.Trust{}, doc, "does not verify"},
		{"other data", elsewhere{m}, "", m.Trust, doc, "a quote for other data"},
		{"a nonce that is none", m, "xyz", m.Trust, doc, "nonce"},
		{"a nonce in capitals", m, "0AFF", m.Trust, doc, "lower case"},
		{"a long nonce", m, strings.Repeat("00", 65), m.Trust, doc, "at most 64 bytes"},
		{"no document", m, "", m.Trust, []byte("{"), "canonical form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if a, err := Attest(t.Context(), tc.doc, tc.q, m.Collateral, tc.nonce, made, tc.roots); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %+v, %v, want %q", tc.name, a, err, tc.want)
			}
		})
	}
}

// elsewhere is a machine that answers about other data.
type elsewhere struct{ attest.Quoter }

func (e elsewhere) Quote(ctx context.Context, data [attest.Size]byte) (*attest.Evidence, error) {
	data[0]++
	return e.Quoter.Quote(ctx, data)
}

// TestPolicy: a policy that cannot be meant is refused.
func TestPolicy(t *testing.T) {
	_, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	id, err := PublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("00", 48)
	p, err := ReadPolicy([]byte("tee: [tdx]\nmeasurements: [" + zeros + "]\nregisters: {rtmr1: " + zeros + "}\ndebug: true\nmax_age: 24h\nnonce: 0aff\nkeys:\n- |\n  " + strings.ReplaceAll(strings.TrimSpace(string(public)), "\n", "\n  ") + "\n"))
	if err != nil || !slices.Equal(p.Formats, []string{"tdx"}) || len(p.Measurements) != 1 || p.Registers["rtmr1"] != zeros || !p.Debug || p.MaxAge != 24*time.Hour || p.Nonce != "0aff" || !slices.Equal(p.Keys, []string{id}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ReadPolicy(nil); err != nil || p.wantsTEE() {
		t.Errorf("an empty policy: %+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"measurement: [aa]":  "field measurement not found",
		"measurements: [aa]": "want 48 bytes",
		"measurements: [" + strings.Repeat("AA", 48) + "]": "lower case",
		"registers: {pcr0: zz}":                            "register pcr0",
		"tee: [sgx]":                                       "want tdx, sev-snp, nitro",
		"max_age: 3":                                       "want a duration",
		"max_age: -1h":                                     "want a duration",
		"nonce: zz":                                        "nonce",
		"keys: [abc]":                                      "key 1",
		"debug: perhaps":                                   "cannot unmarshal",
		"- a":                                              "cannot unmarshal",
		"\x00":                                             "control characters",
	} {
		t.Run(text, func(t *testing.T) {
			if p, err := ReadPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %+v, %v, want %q", text, p, err, want)
			}
		})
	}
}

// TestKeys: keys of other kinds, and files that hold none.
func TestKeys(t *testing.T) {
	private, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"a public key":  {public, "signing needs the private key"},
		"P-384":         {pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), "want an Ed25519"},
		"a certificate": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}), `has the type "CERTIFICATE"`},
		"cut off":       {private[:40], "want an Ed25519"},
		"broken":        {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:9]}), "want an Ed25519"},
		"nothing":       {nil, "want an Ed25519"},
	} {
		t.Run(name, func(t *testing.T) {
			if k, err := PrivateKey(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %T, %v, want %q", name, k, err, tc.want)
			}
		})
	}
	if _, err := PublicKey(private); err == nil || !strings.Contains(err.Error(), "want a PUBLIC KEY") {
		t.Errorf("a private key for a public one: %v", err)
	}
}

// TestVector compares with the vector of docs/attested-results.md: a result, its canonical form,
// the two statements and its signature.
func TestVector(t *testing.T) {
	file := func(name string) string { return filepath.Join("testdata", name) }
	read := func(name string) []byte {
		b, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if *update {
		private, public, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		key, err := PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		doc := document(t, nil)
		a, err := Sign(doc, key, "0aff", made)
		for name, b := range map[string][]byte{"result.json": doc, "private.pem": private, "public.pem": public, "signed.json": attach(t, doc, a, err)} {
			golden.Write(t, file(name), b)
		}
	}
	doc, want := read("result.json"), read("signed.json")
	key, err := PrivateKey(read("private.pem"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Sign(doc, key, "0aff", made)
	if got := attach(t, doc, a, err); !bytes.Equal(got, want) {
		t.Errorf("the signed result is\n%s\nwant\n%s", got, want)
	}
	canonical, err := result.Canonical(want)
	if err != nil {
		t.Fatal(err)
	}
	said, err := statement(signaturePurpose, a)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := Bound(a)
	if err != nil {
		t.Fatal(err)
	}
	steps := fmt.Sprintf("%s\n%s\n%s\n", canonical, said, hex.EncodeToString(bound[:]))
	if *update {
		golden.Write(t, file("steps.txt"), []byte(steps))
	}
	if want := read("steps.txt"); steps != string(want) {
		t.Errorf("the steps are\n%s\nwant\n%s", steps, want)
	}
	id, err := PublicKey(read("public.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(want, Options{Policy: Policy{Keys: []string{id}, Nonce: "0aff"}, Now: made}); err != nil || r.Status() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzVerify: whatever comes as a result, nothing panics, and nothing else than what was attested is proved.
func FuzzVerify(f *testing.F) {
	doc := document(f, nil)
	m := attesttest.Nitro(f, attesttest.Options{})
	good := attested(f, m, doc, "")
	f.Add(good)
	f.Add(doc)
	f.Add([]byte(`{"schema_version":"1.4.0","attestation":{"format":"tdx_guest","quote":"BAACAIEAAAA="}}`))
	want, err := result.Digest(doc)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Verify(b, Options{Now: made, Roots: m.Trust})
		if err == nil && r.Status() == 0 && r.Digest != want {
			t.Errorf("proved %s", r.Line)
		}
	})
}
