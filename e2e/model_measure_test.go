//go:build measure

package e2e

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/measured"
)

// TestModelTimes holds the client's times of answers against those that llama.cpp's server counts itself. The client's also contain
// the connection, HTTP and the server's queue, which is empty with one user.
func TestModelTimes(t *testing.T) {
	wantLLM(t)
	path := filepath.Join(t.TempDir(), "r.json")
	_, errs, code := run(t, "bench", "run", "llm", "--param", "server=llama", "--param", "users=1", "--param", "requests=8", "--param", "lengths=fixed",
		"--env", "a=native", "--env", "b=native", "--pairs", "4", "--out", path, "--data", t.TempDir())
	if code != 0 && code != 2 && code != 3 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	e := whole(t, path)
	var apart []float64
	for i := range e.Runs {
		r := &e.Runs[i]
		value := func(name string) float64 {
			m := r.Metric(name)
			if m == nil || m.Value == nil {
				t.Fatalf("run %s: %s is %v", r.ID, name, valueOf(m))
			}
			return *m.Value
		}
		answer := value("answer_mean_seconds")
		server := value("server_prompt_mean_seconds") + value("server_tpot_mean_seconds")*value("output_tokens_total")/value("requests_total")
		apart = append(apart, math.Abs(answer-server)/answer)
	}
	measured.AtMost(t, "the client's time of an answer differs from that of llama.cpp's own counters by at most 2 %", "", 0.02, apart)
}
