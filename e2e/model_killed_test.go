package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestModelKilled ends a server of a language model (-9) while it answers, after it has computed for a tenth of a second: far too little for all
// requests. The run must be recorded as failed, with a reason of one line and without any value.
func TestModelKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "model")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
work=$1
shift
"$work" llm-server "$@" &
while read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user rest </proc/$!/stat && [ "$user" -lt 10 ]; do sleep 0.05; done
kill -9 $!
wait $!
`), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "r.json")
	work := filepath.Join(filepath.Dir(binary), "teescope-work")
	_, stderr, code := run(t, "bench", "run", "llm", "--env", "native", "--pairs", "1", "--no-counters", "--out", out, "--data", dir,
		"--param", "server=command", "--param", "command="+script+" "+work+" --address {host}:{port}", "--param", "requests=10000", "--param", "warm=1")
	if code == 0 {
		t.Error("the exit status is 0")
	}
	e, err := result.Read(out)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if len(e.Runs) == 0 {
		t.Fatalf("there are no runs: %s", stderr)
	}
	for i := range e.Runs {
		r := &e.Runs[i]
		if r.Status != result.Failed || r.Reason == "" || strings.Contains(r.Reason, "\n") || !strings.Contains(r.Reason, "137") {
			t.Errorf("run %s is %s: %q, want one line with the exit status", r.ID, r.Status, r.Reason)
		}
		for _, m := range r.Metrics {
			if m.Value != nil {
				t.Errorf("%s is %v of a server that was killed", m.Name, *m.Value)
			}
		}
	}
}
