package proof

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/result"
)

func manifest(t testing.TB, version string, indexes ...int) *attest.RIM {
	t.Helper()
	m, err := attest.ReadRIM(attesttest.NVIDIAManifest(version, indexes...))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestGPUs: reports of GPUs are about exactly one result, and say nothing of where it was made: only a policy that names
// them accepts one, and the line says what stays open.
func TestGPUs(t *testing.T) {
	doc := document(t, nil)
	m := attesttest.NVIDIA(t, attesttest.GH100, attesttest.GH100)
	good := attested(t, m, doc, "0aff")
	driver, vbios := manifest(t, attesttest.NVIDIADriver, 0, 1, 35), manifest(t, attesttest.NVIDIAVBIOS, 2)
	wrong, err := attest.ReadRIM(bytes.Replace(attesttest.NVIDIAManifest(attesttest.NVIDIAVBIOS, 2), []byte("0202"), []byte("0203"), 1))
	if err != nil {
		t.Fatal(err)
	}
	named := []string{gpu}
	const open = "not proved: where it was made (a GPU's report says nothing about the CPU), "
	for _, tc := range []struct {
		name   string
		doc    []byte
		p      Policy
		status int
		want   []string
	}{
		{"without a policy", good, Policy{}, 2, []string{"unproved: proved: 2 NVIDIA GPUs (GH100 A01 GSP BROM A, driver 590.12, VBIOS 96.00.A5.00.01, mode spt; ", open,
			"which firmware the GPU ran", "that confidential mode was on and debugging off", "that no certificate was revoked", "environment not checked: a GPU's report says nothing about the CPU"}},
		{"named", good, Policy{Formats: named}, 0, []string{"attested: proved: 2 NVIDIA GPUs", "signed a report about exactly this result", open, "which firmware"}},
		{"another TEE wanted", good, Policy{Formats: []string{"sev-snp"}}, 1, []string{"refused: environment"}},
		{"nonce", good, Policy{Formats: named, Nonce: "0aff"}, 0, []string{"attested"}},
		{"another nonce", good, Policy{Formats: named, Nonce: "0afe"}, 1, []string{"refused: nonce"}},
		{"manifests", good, Policy{Formats: named, RIMs: []*attest.RIM{driver, vbios}}, 0, []string{"its firmware is that of the named manifests", open + "that confidential mode"}},
		{"one manifest", good, Policy{Formats: named, RIMs: []*attest.RIM{vbios}}, 2, []string{"unproved", "2 measurements equal those in the manifests; no manifest was named for driver 590.12 of GPU 0, driver 590.12 of GPU 1"}},
		{"another manifest", good, Policy{Formats: named, RIMs: []*attest.RIM{driver, wrong}}, 1, []string{"refused: firmware: GPU 0 (A) differs from the manifests", "in these measurements: 2"}},
		{"a register", good, Policy{Formats: named, Registers: map[string]string{"gpu1_m3": strings.Repeat("02", 48)}}, 0, []string{"its registers are those of the policy"}},
		{"another register", good, Policy{Formats: named, Registers: map[string]string{"gpu1_m3": strings.Repeat("03", 48)}}, 1, []string{"refused: measurement: gpu1_m3"}},
		{"a measurement", good, Policy{Formats: named, Measurements: []string{strings.Repeat("03", 48)}}, 1, []string{"name registers"}},
		{"another result", bytes.Replace(good, []byte("0.0125"), []byte("0.0124"), 1), Policy{Formats: named}, 1, []string{"refused: digest"}},
		{"another time", bytes.Replace(good, []byte("12:01:00Z\",\n  \"nonce"), []byte("12:02:00Z\",\n  \"nonce"), 1), Policy{Formats: named}, 1, []string{"refused: binding"}},
		{"manifests for a CPU", attested(t, attesttest.SEV(t, attesttest.Options{}), doc, ""), Policy{RIMs: []*attest.RIM{driver}}, 1, []string{"refused: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "another time" && bytes.Equal(tc.doc, good) {
				t.Fatal("nothing was changed")
			}
			if err := tc.p.Check(); err != nil {
				t.Fatal(err)
			}
			r, err := Verify(tc.doc, Options{Policy: tc.p, Now: made.Add(time.Hour), Roots: m.Trust})
			if err != nil || r.Status() != tc.status {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, w := range tc.want {
				if !strings.Contains(r.Line, w) {
					t.Errorf("%s\nhas no %q", r.Line, w)
				}
			}
			if strings.Contains(r.Line, "what software ran there") {
				t.Errorf("%s\nsays something of a machine", r.Line)
			}
		})
	}
}

// TestGPUOfAnotherResult: a machine whose command answers with an old report is found out when it attests.
func TestGPUOfAnotherResult(t *testing.T) {
	doc := document(t, nil)
	m := attesttest.NVIDIA(t, attesttest.GH100)
	if _, err := Attest(t.Context(), doc, elsewhere{m}, nil, "", made, m.Trust); err == nil || !strings.Contains(err.Error(), "a quote for other data") {
		t.Errorf("an old report: %v", err)
	}
	whole := attested(t, m, doc, "")
	a, err := result.CanonicalAttestation(whole)
	if err != nil || !bytes.Contains(a, []byte(`"format":"nvidia_gpu"`)) {
		t.Errorf("%.200s, %v", a, err)
	}
}

// TestUnusedCollateral: evidence that uses no collateral has none stored with it, as nothing would vouch for its bytes.
func TestUnusedCollateral(t *testing.T) {
	for name, m := range map[string]*attesttest.Machine{"nvidia": attesttest.NVIDIA(t, attesttest.GH100), "nitro": attesttest.Nitro(t, attesttest.Options{})} {
		t.Run(name, func(t *testing.T) {
			doc := document(t, nil)
			for _, stored := range [][]result.Collateral{nil, {{URL: "https://example.org", Body: []byte("x")}}} {
				a, err := Attest(t.Context(), doc, m, nil, "", made, m.Trust)
				if err == nil {
					a.Collateral = stored
				}
				r, err := Verify(attach(t, doc, a, err), Options{Policy: Policy{Formats: []string{gpu, "nitro"}}, Now: made.Add(time.Hour), Roots: m.Trust})
				if err != nil || (r.Status() == 1) != (stored != nil) || stored != nil && !strings.Contains(r.Line, "the result also has collateral") {
					t.Errorf("%s with %d pieces: %+v, %v", name, len(stored), r, err)
				}
			}
		})
	}
}

// TestGPUPeer: no channel takes a GPU's report for evidence of a machine.
func TestGPUPeer(t *testing.T) {
	m := attesttest.NVIDIA(t, attesttest.GH100)
	e, err := m.Quote(t.Context(), [attest.Size]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Pack()
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{Formats: []string{gpu}}
	if err := p.Accept(t.Context(), b, [attest.Size]byte{1}, nil, made, m.Trust); err == nil || !strings.Contains(err.Error(), "proves nothing about the machine") {
		t.Errorf("a GPU's report: %v", err)
	}
	for _, p := range []Policy{{Formats: []string{"sev-snp", gpu}}, {RIMs: []*attest.RIM{manifest(t, "1", 1)}}} {
		if err := p.ForChannel(); err == nil || !strings.Contains(err.Error(), gpu) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
