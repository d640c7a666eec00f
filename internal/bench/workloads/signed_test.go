package workloads

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/proof"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/report/formats"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// resultOf makes a result of two arms, each of which gave an output of a fixture six times.
func resultOf(t testing.TB, f *fixture, o bench.Outcome) *result.Experiment {
	t.Helper()
	samples, err := f.workload.Parse(o)
	if len(samples) == 0 { // which of them may be missing is judged by TestFixtures
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	e := &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: "4f6c0c9e-0000-4000-8000-000000000001", Name: f.label(), StartedAt: began,
		Design:       result.Design{Kind: result.Interleaved, Grade: result.GradeA, PairsPlanned: 6, Alpha: 0.05, Margin: 0.03, Primary: f.workload.Primary(f.params).Name},
		Workload:     result.Workload{Name: f.workload.Name, Version: f.workload.Version, Doc: f.workload.Doc},
		Cases:        []result.Case{{ID: "default", Params: f.params, Identity: "sha256:00"}},
		Environments: []result.Environment{{ID: "a", Role: result.Baseline, Launcher: "native"}, {ID: "b", Role: result.Treatment, Launcher: "native"}},
	}
	for _, d := range f.workload.Metrics(f.params) {
		e.Workload.Metrics = append(e.Workload.Metrics, result.Describe(d))
	}
	for pair := range 6 {
		for i, env := range e.Environments {
			r := result.Run{ID: fmt.Sprintf("p%02d-default-%s", pair, env.ID), Env: env.ID, Case: "default", Pair: pair, Position: i, StartedAt: began.Add(time.Duration(2*pair+i) * time.Minute), Status: result.OK}
			for _, s := range samples {
				m := result.Metric{Name: s.Desc.Name, Value: &s.Value, Source: result.Measured, N: 1}
				if s.Hist != nil {
					m.Histogram = &result.Histogram{Bounds: s.Hist.Bounds, Counts: s.Hist.Counts, Sum: s.Hist.Sum}
				}
				r.Metrics = append(r.Metrics, m)
			}
			e.Runs = append(e.Runs, r)
		}
	}
	return e
}

// TestSigned: what each workload measures can be read back, compared, reported in each format, signed with a key and attested, and
// the signature is of what was read.
func TestSigned(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	now := time.Now().UTC().Truncate(time.Second)
	tee, err := attest.NewSimulated(attest.Settings{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*bench.Workload]bool{}
	for _, f := range fixtures(t) {
		for _, name := range f.outputs() {
			if !strings.HasPrefix(name, "good") {
				continue
			}
			seen[f.workload] = true
			t.Run(f.label()+"/"+name, func(t *testing.T) {
				e := resultOf(t, f, f.outcome(t, name))
				verdict.Conclude(e, verdict.Options{})
				doc, err := json.MarshalIndent(e, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				read, err := result.Parse(doc)
				if err != nil {
					t.Fatalf("it cannot be read: %v\n%s", err, doc)
				}
				if again, err := json.MarshalIndent(read, "", " "); err != nil || !bytes.Equal(again, doc) {
					t.Errorf("what is read is not what was written: %v", err)
				}
				if len(read.Comparisons) == 0 || len(read.Comparisons) != len(e.Comparisons) {
					t.Errorf("%d comparisons, %d were made", len(read.Comparisons), len(e.Comparisons))
				}
				for _, format := range formats.All {
					var b bytes.Buffer
					if err := format.Write(&b, report.Document{Experiments: []*result.Experiment{read}, Made: now}); err != nil || b.Len() == 0 {
						t.Errorf("format %s: %v", format.Name, err)
					}
				}
				signed, err := proof.Sign(doc, key, "", now)
				checkOrigin(t, doc, signed, err, proof.Signed)
				attested, err := proof.Attest(t.Context(), doc, tee, tee, "", now, attest.Trust{})
				checkOrigin(t, doc, attested, err, proof.Simulated)
			})
		}
	}
	for _, w := range All {
		if !seen[w] {
			t.Errorf("workload %s has no good output", w.Name)
		}
	}
}

// checkOrigin attaches an attestation, and verifies it.
func checkOrigin(t *testing.T, doc []byte, a *result.Attestation, err error, want string) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", want, err)
		return
	}
	b, err := result.Attach(doc, a)
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.Verify(b, proof.Options{Now: a.MadeAt})
	if err != nil || r.Origin != want {
		t.Errorf("it is %+v, %v; want %s", r, err, want)
	}
}

// TestNoMostIsAbsent: a metric without an upper limit says so, and no limit is a number that JSON does not keep.
func TestNoMostIsAbsent(t *testing.T) {
	const exact = 1 << 53
	unlimited := 0
	for _, f := range fixtures(t) {
		for _, d := range f.workload.Metrics(f.params) {
			m := result.Describe(d)
			if m.Least < -exact || m.Most > exact {
				t.Errorf("%s, %s: from %v to %v", f.label(), d.Name, m.Least, m.Most)
			}
			if !m.Unlimited {
				continue
			}
			unlimited++
			b, err := json.Marshal(m)
			if err != nil || bytes.Contains(b, []byte(`"most"`)) || !bytes.Contains(b, []byte(`"unlimited":true`)) {
				t.Errorf("%s: %s, %v", d.Name, b, err)
			}
			if why := m.Impossible(1e6); why != "" {
				t.Errorf("%s of a million: %s", d.Name, why)
			}
			if m.Impossible(-1) == "" || m.Impossible(1<<63) == "" {
				t.Errorf("%s can be anything", d.Name)
			}
		}
	}
	if unlimited < 5 {
		t.Errorf("%d metrics have no limit: the test does not test", unlimited)
	}
}
