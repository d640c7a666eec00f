package bench

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestCompareClocks: the truth lies within the uncertainty, whenever between the question and the answer the clock was
// read.
func TestCompareClocks(t *testing.T) {
	before := time.Unix(1_700_000_000, 0)
	after := before.Add(400 * time.Millisecond)
	for text, want := range map[string]*result.ClockOffset{
		"1700000000.200000000\n": {Seconds: 0, Uncertainty: 0.2},
		"1700003600.200000000":   {Seconds: 3600, Uncertainty: 0.2},
		"1699996400.200000000":   {Seconds: -3600, Uncertainty: 0.2},
		"1700000010.%N":          {Seconds: 10.3, Uncertainty: 0.7}, // from 9.6 to 11
		"1700000010.N":           {Seconds: 10.3, Uncertainty: 0.7},
		"1700000010":             {Seconds: 10.3, Uncertainty: 0.7},
		"":                       nil,
		"Thu Nov 26":             nil,
		"-5.000000000":           nil,
		"99999999999999999999":   nil,
		"9999999999999999":       nil,
	} {
		got := CompareClocks(text, before, after)
		if (got == nil) != (want == nil) || got != nil && (math.Abs(got.Seconds-want.Seconds) > 1e-6 || math.Abs(got.Uncertainty-want.Uncertainty) > 1e-6) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// TestRebooted: an experiment ends when the machine of an environment has been rebooted; it cannot be continued.
func TestRebooted(t *testing.T) {
	gone := errors.New("its boot ID was a and is b")
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1, fail: func(n int) error {
		if n == 3 {
			return errors.Join(gone, ErrRebooted)
		}
		return nil
	}}}
	p, o, _ := bed(t, 8, envs)
	_, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
	if !errors.Is(err, ErrRebooted) || !errors.Is(err, errAnew) || errors.Is(err, ErrKept) || !strings.Contains(err.Error(), "environment tee: ") || !strings.Contains(err.Error(), gone.Error()) {
		t.Errorf("%v", err)
	}
}

// TestPath: what runs find of the network path is part of the fingerprint, and a change of it is recorded.
func TestPath(t *testing.T) {
	w := &Workload{Path: func(o Outcome) map[string]string { return map[string]string{"near.mtu": string(o.Outside.Stdout)} }}
	s := &session{Plan: &Plan{Workload: w}, doc: &result.Experiment{Environments: []result.Environment{{ID: "a"}}}}
	rec := s.doc.Environment("a")
	found := func(mtu string) {
		s.path("a", Outcome{Outside: host.Output{Stdout: []byte(mtu)}})
	}
	found("1500")
	first := rec.Fingerprint
	if found("1500"); rec.Path["near.mtu"] != "1500" || len(rec.Changed) != 0 || first == "" || rec.Fingerprint != first {
		t.Errorf("%+v", rec)
	}
	if found("9000"); rec.Path["near.mtu"] != "1500" || !strings.Contains(rec.Changed["network_path.near.mtu"], `"9000" in one of them`) {
		t.Errorf("%v, %v", rec.Path, rec.Changed)
	}
	rec.Path["near.mtu"] = "9000"
	if found("9000"); rec.Fingerprint == first {
		t.Error("another path has the same fingerprint")
	}
}
