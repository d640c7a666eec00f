package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// together is why a value is missing if the harness, or the client of a load, was late on a busy machine.
const together = "arrived together"

// compared makes an experiment of two arms on this machine, whose runs must all be good and of the same work.
func compared(t *testing.T, args ...string) *result.Experiment {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	_, errs, code := run(t, append([]string{"bench", "run", "--env", "a=native", "--env", "b=native", "--pairs", "2", "--no-counters", "--out", path, "--data", dir}, args...)...)
	if code != 0 && code != 2 && code != 3 { // two pairs are too few for a verdict
		t.Fatalf("exit status %d: %s", code, errs)
	}
	e, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for i := range e.Runs {
		r := &e.Runs[i]
		if r.Status != result.OK && !strings.Contains(r.Reason, together) {
			t.Errorf("run %s: %s, %s", r.ID, r.Status, r.Reason)
		}
		digests[r.OutputDigest] = true
	}
	if len(e.Runs) != 4 || len(digests) != 1 || digests[""] {
		t.Errorf("%d runs with the digests %v, want 4 with one", len(e.Runs), digests)
	}
	return e
}

// wantMetrics checks that a run has these metrics.
func wantMetrics(t *testing.T, r *result.Run, names ...string) {
	t.Helper()
	for _, name := range names {
		m := r.Metric(name)
		if m != nil && m.Value == nil && strings.Contains(m.Reason, together) {
			continue
		}
		if m == nil || m.Value == nil || *m.Value <= 0 {
			t.Errorf("run %s: %s is %v: %s", r.ID, name, valueOf(m), r.Reason)
		}
	}
}

// TestProofs: each environment makes one set-up, in its first run, and every run proves and verifies.
func TestProofs(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"groth16", "plonk"} {
		e := compared(t, "zk-rsa", "--param", "circuit=tiny", "--param", "backend="+backend, "--param", "threads=1", "--param", "proofs=10")
		for i := range e.Runs {
			wantMetrics(t, &e.Runs[i], "prove_seconds", "verify_seconds", "set_up_seconds", "circuit_constraints", "proof_bytes", "prover_peak_rss_bytes")
		}
	}
}

// TestExecutions: the zkVM's prover, where it was built, proves the same execution in every run.
func TestExecutions(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(filepath.Dir(binary), "teescope-zkvm")); err != nil {
		t.Skip("teescope-zkvm is not next to teescope: `make zkvm` builds it with Rust in about five minutes")
	}
	e := compared(t, "zkvm", "--param", "guest=fibonacci", "--param", "n=100", "--param", "shard=65536")
	for i := range e.Runs {
		wantMetrics(t, &e.Runs[i], "prove_seconds", "cycles_per_second", "execute_seconds", "verify_seconds", "guest_cycles", "proof_shards", "proof_bytes", "prover_peak_rss_bytes")
	}
}

// TestModels: the small server of a language model makes the same tokens in every run, for users and on a schedule.
// stand-in: small-model
func TestModels(t *testing.T) {
	t.Parallel()
	for _, load := range []string{"users=2", "rate=50"} {
		e := compared(t, "llm", "--param", "layers=1", "--param", "width=32", "--param", "requests=6", "--param", "warm=1", "--param", "input=8", "--param", "output=8", "--param", load)
		for i := range e.Runs {
			wantMetrics(t, &e.Runs[i], "ttft_p50_seconds", "tpot_mean_seconds", "output_tokens_per_second", "output_tokens_total", "requests_total")
		}
	}
}

// TestRealModel: llama.cpp's server with a model, where both are, says the same text in every run to one user, and counts the same tokens as the client.
func TestRealModel(t *testing.T) {
	t.Parallel()
	wantLLM(t)
	for _, load := range []string{"users=1", "users=2"} {
		e := compared(t, "llm", "--param", "server=llama", "--param", "size=38m", "--param", "requests=4", "--param", "warm=1", "--param", "input=8", "--param", "output=8", "--param", load)
		for i := range e.Runs {
			wantMetrics(t, &e.Runs[i], "ttft_p50_seconds", "server_prompt_mean_seconds", "server_tpot_mean_seconds", "output_tokens_per_second", "output_tokens_total", "requests_total")
		}
	}
}

// wantLLM skips the test unless `make llm` was run.
func wantLLM(t *testing.T) {
	t.Helper()
	for _, name := range []string{"llama-server", "random-38m.gguf", "smollm2-135m-instruct.gguf"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(binary), name)); err != nil {
			t.Skipf("%s is not next to teescope: `make llm` makes it in about 20 minutes", name)
		}
	}
}
