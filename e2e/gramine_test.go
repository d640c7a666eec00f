package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/result"
)

// needGramine skips a test without Gramine on PATH.
func needGramine(t *testing.T) {
	t.Helper()
	for _, name := range []string{"gramine-direct", "gramine-manifest"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not on PATH; package gramine of https://packages.gramineproject.io has it. Without it, tests of the launcher read the manifests that it writes", name)
		}
	}
}

// TestGramine: servers and programs do the same work natively and in Gramine, and are counted in both.
func TestGramine(t *testing.T) {
	needGramine(t)
	small := []string{"--param", "connections=4", "--param", "warm=200ms", "--param", "measure=1s"}
	for name, args := range map[string][]string{
		"startup dynamic": {"startup", "--param", "form=dynamic"},
		"startup static":  {"startup"},
		"custom":          {"custom", "--param", "command=sha256sum /usr/bin/env"},
		"redis":           append([]string{"redis", "--param", "keys=2000"}, small...),
		"memcached":       append([]string{"memcached", "--param", "keys=2000"}, small...),
		"nginx":           append([]string{"nginx", "--param", "threads=1"}, small...), // processes in Gramine share no memory, so each worker counts for itself,
		"gateway":         append([]string{"gateway", "--param", "gateway=direct"}, small...),
	} {
		t.Run(name, func(t *testing.T) { sameInGramine(t, args...) })
	}
}

// sameInGramine runs a workload once natively and once in Gramine, with the same digest of the work, and returns the result.
func sameInGramine(t *testing.T, args ...string) *result.Experiment {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.json")
	envs := []string{"--env", "native", "--env", "gramine-direct"}
	if strings.HasPrefix(args[0], "e10-") { // it has its own
		envs = nil
	}
	_, said, code := run(t, append(append([]string{"bench", "run"}, append(args, envs...)...), "--pairs", "1", "--no-counters", "--out", path, "--data", t.TempDir())...)
	if code != 0 && code != 3 { // one pair gives no verdict
		t.Fatalf("exit status %d: %s", code, said)
	}
	e := whole(t, path)
	for i := range e.Runs {
		if r := &e.Runs[i]; r.OutputDigest != e.Runs[0].OutputDigest {
			t.Errorf("%s: digest %s, want %s", r.ID, r.OutputDigest, e.Runs[0].OutputDigest)
		}
	}
	return e
}

// TestJavaInGramine: the servers in Java and Go of E10 give the same answers natively and in Gramine.
func TestJavaInGramine(t *testing.T) {
	needGramine(t)
	programs := javaPrograms(t)
	for _, version := range []string{"1.2", "1.3"} {
		t.Run("TLS "+version, func(t *testing.T) {
			e := sameInGramine(t, "e10-tls-scaling", "--variants", "jvm-local,jvm-direct,go-static,go-static-direct", "--param", "programs="+programs, "--param", "tls="+version,
				"--param", "clients=2", "--param", "scaling=strong", "--param", "strong-total=200", "--param", "warm=10")
			if len(e.Runs) != 4 {
				t.Errorf("%d runs, want 4", len(e.Runs))
			}
		})
	}
}

// TestProgramsInGramine: two programs in Gramine, which the kernel both calls "exe", are told apart by the program in each.
func TestProgramsInGramine(t *testing.T) {
	needGramine(t)
	needRoot(t)
	m := startMonitor(t, "monitor", "--interval", "1s")
	env := openEnv(t, "gramine-direct", nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	for _, name := range []string{"sha256sum", "md5sum"} {
		go func() {
			defer func() { ended <- struct{}{} }()
			_, _ = env.Run(ctx, program(name, "/dev/zero")) // it is cancelled below
		}()
	}
	defer func() { cancel(); <-ended; <-ended }()
	await.Event(t, "both programs have series of their own", func() error {
		got := m.query(t, `tee_sampled_unit_seconds_total{process="exe",state="running"}`, "unit")
		for _, name := range []string{"sha256sum", "md5sum"} {
			found := false
			for unit := range got {
				found = found || strings.HasSuffix(unit, "Gramine ("+name+")")
			}
			if !found {
				return fmt.Errorf("it has only %v", got)
			}
		}
		return nil
	})
	await.Event(t, "the explanation says what runs in the process", func() error {
		out, said, _ := run(t, "explain", "--server", m.url, "--process", "exe")
		if !strings.Contains(out, "Gramine (md5sum) and Gramine (sha256sum), added up") {
			return fmt.Errorf("%s%s", out, said)
		}
		return nil
	})
}
