package bench

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/environment"
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
		t.Run(text, func(t *testing.T) {
			got := CompareClocks(text, before, after)
			if (got == nil) != (want == nil) || got != nil && (math.Abs(got.Seconds-want.Seconds) > 1e-6 || math.Abs(got.Uncertainty-want.Uncertainty) > 1e-6) {
				t.Errorf("%q: %+v, want %+v", text, got, want)
			}
		})
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
		s.learn("a", Outcome{Outside: host.Output{Stdout: []byte(mtu)}})
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

// TestServer: what the server of a run says that it is belongs to the environment, and another server in a later run is a change.
func TestServer(t *testing.T) {
	w := &Workload{Server: func(o Outcome) string { return string(o.Outside.Stdout) }}
	s := &session{Plan: &Plan{Workload: w}, doc: &result.Experiment{Environments: []result.Environment{{ID: "a"}}}}
	rec := s.doc.Environment("a")
	for _, c := range []struct {
		says, known, change string
		news                bool
	}{
		{"", "", "", false}, // a run that failed
		{"B 1.0", "B 1.0", "", true},
		{"B 1.0", "B 1.0", "", false},
		{"B 2.0", "B 1.0", `"B 1.0" before the runs, "B 2.0" in one of them`, true},
	} {
		t.Run(c.says, func(t *testing.T) {
			news := s.learn("a", Outcome{Outside: host.Output{Stdout: []byte(c.says)}})
			if got := rec.Software.Versions[result.ServerVersion]; news != c.news || got != c.known || rec.Changed["software.versions.server"] != c.change {
				t.Errorf("after %q: news %v, %q, %q", c.says, news, got, rec.Changed)
			}
		})
	}
	again := &result.Environment{ID: "a"}
	found(rec, again)
	if d := environment.Diff(rec, again); len(d) > 0 || again.Changed["software.versions.server"] == "" {
		t.Errorf("after a stop: %v, %v", d, again.Changed)
	}
}

// TestUnknownPath: why an end is unknown, which names ports, is no part of the fingerprint.
func TestUnknownPath(t *testing.T) {
	w := &Workload{Path: func(o Outcome) map[string]string { return map[string]string{"near.problem": string(o.Outside.Stdout)} }}
	s := &session{Plan: &Plan{Workload: w}, doc: &result.Experiment{Environments: []result.Environment{{ID: "a"}}}}
	rec := s.doc.Environment("a")
	environment.Fingerprint(rec)
	first := rec.Fingerprint
	for i, why := range []string{"no way to 192.0.2.1:5001", "no way to 192.0.2.1:5002"} {
		t.Run(why, func(t *testing.T) {
			if news := s.learn("a", Outcome{Outside: host.Output{Stdout: []byte(why)}}); news != (i == 0) {
				t.Errorf("run %d: news is %v", i, news)
			}
		})
	}
	if len(rec.Path)+len(rec.Changed) != 0 || rec.Fingerprint != first || !strings.HasSuffix(rec.Missing["network_path.near"], ":5001") {
		t.Errorf("%+v", rec)
	}
}

// TestPathSurvivesStop: the path and its change, found before a stop, are in the result.
func TestPathSurvivesStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	envs := map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}}
	envs["tee"].fail = func(n int) error {
		if n == 5 {
			cancel()
		}
		return nil
	}
	p, o, l := bed(t, 6, envs)
	runs := 0
	p.Workload.Path = func(Outcome) map[string]string {
		runs++
		return map[string]string{"near.mtu": map[bool]string{true: "1500", false: "9000"}[runs <= 4]}
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if _, err := Run(ctx, p, o, path); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	p.Workload.Path = func(Outcome) map[string]string { return map[string]string{"near.mtu": "1500"} }
	e, err := Resume(t.Context(), l, o, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range e.Environments {
		if env.Path["near.mtu"] != "1500" || !strings.Contains(env.Changed["network_path.near.mtu"], "9000") {
			t.Errorf("%s: %v, %v", env.ID, env.Path, env.Changed)
		}
	}
}
