package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestMongoDB fills and loads a real server of MongoDB's protocol, built as a user does, from
// files that must match their sums. The first time, Maven fetches them from its repository.
// stand-in: mongo-java-server
func TestMongoDB(t *testing.T) {
	tool(t, "mvn", "maven")
	tool(t, "javac", "openjdk-17-jdk-headless")
	tool(t, "make", "make")
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "r.json")
	if err := os.CopyFS(dir, os.DirFS("../workloads/mongodb")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "target")); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "make", "-C", dir).CombinedOutput()
	if text := string(said); strings.Contains(text, "ould not transfer") || strings.Contains(text, "in offline mode") {
		t.Skipf("Maven cannot reach its repository: %.200s", text)
	} else if err != nil {
		t.Fatalf("make: %v\n%s", err, text)
	}
	_, errs, code := run(t, "bench", "run", "mongodb", "--param", "server=mongo-java-server", "--param", "programs="+filepath.Join(dir, "target"), "--env", "native", "--pairs", "1",
		"--param", "connections=4", "--param", "keys=2000", "--param", "warm=200ms", "--param", "requests=1000", "--metric", "service_mean_seconds", "--out", out, "--data", t.TempDir())
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	e := whole(t, out)
	for i := range e.Runs {
		if m := e.Runs[i].Metric("server_requests_total"); m == nil || m.Value == nil || *m.Value != 1000 {
			t.Errorf("%s: the server counts %v requests, want 1000", e.Runs[i].ID, valueOf(m))
		}
	}
	if why := e.Environments[0].Missing["identity"]; why != "" {
		t.Errorf("it was not checked that the load reaches the server: %s", why)
	}
}

// TestFerretDB fills and loads FerretDB, where it was built: it counts what the load counts, and the result says which version it is.
func TestFerretDB(t *testing.T) {
	built := filepath.Join(filepath.Dir(binary), "ferretdb")
	if _, err := os.Stat(built); err != nil {
		t.Skip("ferretdb is not next to teescope: `make ferretdb` builds it in about three minutes")
	}
	said, err := exec.CommandContext(t.Context(), built, "--version").Output()
	own, _, _ := strings.Cut(strings.TrimPrefix(string(said), "version: "), "\n")
	if err != nil || !strings.HasPrefix(own, "v") {
		t.Fatalf("ferretdb --version: %v: %q", err, said)
	}
	out := filepath.Join(t.TempDir(), "r.json")
	text, errs, code := run(t, "bench", "run", "mongodb", "--param", "server=ferretdb", "--env", "native", "--pairs", "1", "--param", "connections=4", "--param", "keys=500",
		"--param", "warm=200ms", "--param", "requests=200", "--metric", "service_mean_seconds", "--out", out, "--data", t.TempDir())
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	e := whole(t, out)
	for i := range e.Runs {
		r := &e.Runs[i]
		if m := r.Metric("server_requests_total"); m == nil || m.Value == nil || *m.Value != 200 {
			t.Errorf("%s: the server counts %v requests, want 200", r.ID, valueOf(m))
		}
		for _, name := range []string{"server_memory_bytes", "server_cpu_per_request_seconds"} {
			if m := r.Metric(name); m == nil || m.Value != nil || !strings.HasPrefix(m.Reason, "the server does not report ") {
				t.Errorf("%s: %s is %v, want none, with the reason", r.ID, name, m)
			}
		}
	}
	server := e.Environments[0].Software.Versions[result.ServerVersion]
	if !strings.HasPrefix(server, "FerretDB "+own+", for MongoDB ") || !strings.Contains(text, server) {
		t.Errorf("the server is %q, want FerretDB %s, and in\n%s", server, own, text)
	}
	if why := e.Environments[0].Missing["identity"]; why != "" {
		t.Errorf("it was not checked that the load reaches the server: %s", why)
	}
	if len(e.Environments[0].Changed) > 0 {
		t.Errorf("the environment changed: %v", e.Environments[0].Changed)
	}
}
