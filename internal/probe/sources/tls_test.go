package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// The library of a running process is found and hooked, and every handshake is counted, the
// client's and the server's.
func TestTLSHandshakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "causes")
	if text, err := exec.Command("cc", "-O2", "-pthread", "-o", path, "../../../workloads/causes/causes.c", "-lssl", "-lcrypto").CombinedOutput(); err != nil {
		probetest.Skip(t, "OpenSSL", fmt.Errorf("build causes: %w: %s", err, text))
	}
	r, err := tls.Open(host.Local(), nil)
	if err != nil {
		probetest.Skip(t, "tls", fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
	}
	defer r.Close()
	count := func() map[string]float64 {
		out := map[string]float64{}
		err := r.Read(t.Context(), func(x metric.Sample) {
			if x.Desc == tlsHandshakes {
				out[x.Labels[0]] = x.Value
			}
		})
		t.Logf("error %v", err) // about processes that this one may not examine
		return out
	}
	name := probetest.Name("s") // short, because the server has a longer one
	await.Event(t, "the program makes a handshake", func() error {
		p := await.Converse(t, exec.Command(path, "--wait", "--name", name, "--seconds", "1", "--shares", "handshake=0.9"))
		p.Line(t)
		was := count() // also hooks what it finds
		fmt.Fprintln(p.In)
		var did struct {
			Events struct{ Handshake float64 }
		}
		if err := json.Unmarshal([]byte(p.Line(t)), &did); err != nil {
			t.Fatal(err)
		}
		p.Line(t)
		is := count()
		fmt.Fprintln(p.In)
		if code := p.ExitStatus(t); code != 0 {
			t.Error(p.Last())
		}
		if did.Events.Handshake == 0 {
			return errors.New("it made none")
		}
		for _, process := range []string{name, name + "-server"} {
			if n := is[process] - was[process]; n != did.Events.Handshake {
				t.Errorf("%s: %g handshakes, want %g", process, n, did.Events.Handshake)
			}
		}
		return nil
	})
}

func TestEndsSandboxed(t *testing.T) {
	for release, want := range map[string]bool{
		"5.15.0-91-generic": false, "6.1.0-18-amd64": false, "6.10.11": false, "6.11.2-arch1-1": true, "6.12.0": true, "6.12.19+deb13-amd64": true,
		"6.12.20": false, "6.12.41+deb13-cloud-amd64": false, "6.13.8": true, "6.14.0-15-generic": false, "6.18.44-fc": false, "7.0.1": false, "": false, "six": false,
	} {
		t.Run(release, func(t *testing.T) {
			if got := endsSandboxed(release); got != want {
				t.Errorf("%q: %v, want %v", release, got, want)
			}
		})
	}
}
