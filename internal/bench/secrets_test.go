package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
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
	if _, err := Resume(t.Context(), l, o, path); err == nil || !strings.Contains(err.Error(), "the parameter env has a secret, which results do not contain") {
		t.Errorf("resume: %v", err)
	}
}
