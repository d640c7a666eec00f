package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestSecretsAreNotResumed: a launcher gets the secret of its parameter, no file has it, and the experiment is not continued with what
// stands in its place.
func TestSecretsAreNotResumed(t *testing.T) {
	const marker = "s3cretMarker"
	ctx, cancel := context.WithCancel(t.Context())
	envs := map[string]*scripted{"native": {factor: 1, fail: func(n int) error {
		if n == 3 {
			cancel()
		}
		return nil
	}}, "tee": {factor: 1}}
	p, o, l := bed(t, 6, envs)
	o.Command = []string{"teescope", "bench", "run", "--token", marker}
	p.Arms[1].Params = Params{"env": "API_TOKEN=" + marker}
	open, got := p.Arms[1].Launcher.Open, ""
	p.Arms[1].Launcher.Open = func(ctx context.Context, h *host.Host, params Params) (Environment, error) {
		got = params["env"]
		return open(ctx, h, params)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	_, err := Run(ctx, p, o, path)
	if !errors.Is(err, ErrStopped) || got != "API_TOKEN="+marker {
		t.Fatalf("the launcher got %q; error %v", got, err)
	}
	b, err := os.ReadFile(path + ".partial")
	if err != nil || strings.Contains(string(b), marker) || strings.Count(string(b), "xxxxx") < 2 {
		t.Errorf("the stream: %s, %v", b, err)
	}
	if _, err := Resume(t.Context(), l, o, path); err == nil || !strings.Contains(err.Error(), "results do not record secrets, and parameter env had one") {
		t.Errorf("resume: %v", err)
	}
}

// TestIdentityWithoutSecrets: the identity of a case with a secret is that of the parameters as the result records them, so a result as it
// was written is not an edited one, and the identity says nothing about the secret.
func TestIdentityWithoutSecrets(t *testing.T) {
	l, identities := members(), map[string]bool{}
	for _, secret := range []string{"s3cretMarker", "other"} {
		p, err := onePlan(Choice{Experiment: job(), Params: Params{"kind": "x", "command": "redis-benchmark -a " + secret + " -n 10"}}, l)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := document(p, Options{Host: host.Local()})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "r.json")
		if err := result.Write(path, doc); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var written result.Experiment
		if err := json.Unmarshal(b, &written); err != nil {
			t.Fatal(err)
		}
		if got := written.Cases[0].Params["command"]; got != "redis-benchmark -a xxxxx -n 10" {
			t.Errorf("the file has the command %q", got)
		}
		if err := l.Edited(&written); err != nil {
			t.Error(err)
		}
		identities[written.Cases[0].Identity] = true
	}
	if len(identities) != 1 {
		t.Errorf("the identities depend on the secret: %v", identities)
	}
}

// TestNamesDifferWithoutSecrets: a result can tell the cases and environments of each plan apart.
func TestNamesDifferWithoutSecrets(t *testing.T) {
	sweep := func(values ...string) Choice {
		e := job()
		e.Params, e.Sweep = map[string]string{"kind": "x"}, map[string][]string{"command": values}
		return Choice{Experiment: e}
	}
	l := members()
	for _, x := range l.Launchers {
		x.Params = append(x.Params, Param{Name: "env"})
	}
	for name, c := range map[string]struct {
		choice Choice
		err    string
	}{
		"cases":           {sweep("redis-cli -a one", "redis-cli -a two"), `two cases differ only in a secret, and results do not record secrets: both would be "command=redis-cli -a xxxxx"`},
		"cases that stay": {sweep("redis-cli -a one get", "redis-cli -a two set"), ""},
		"environments":    {Choice{Experiment: job(), Envs: []string{"native", "tee,env=API_TOKEN=a", "tee,env=API_TOKEN=b", "tee,env=API_TOKEN=c"}}, `two environments differ only in a secret, and results do not record secrets: both would be "tee,env=API_TOKEN=xxxxx"`},
		"labels":          {Choice{Experiment: job(), Envs: []string{"native", "a=tee,env=API_TOKEN=a", "b=tee,env=API_TOKEN=b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewPlans(c.choice, l)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: error %v, want %q", name, err, c.err)
			}
		})
	}
}
