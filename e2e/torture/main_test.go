package main

import (
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("TORTURE_INGEST") != "" { // startRecorder starts this binary
		os.Exit(ingest(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestTorture tries ten cases of each part, always the same ones; `make torture` tries all.
func TestTorture(t *testing.T) {
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			if p.name == fullDisks.name && os.Geteuid() != 0 {
				t.Skip("mounting a small disk needs root")
			}
			if _, err := exec.LookPath("strace"); p.name == calls.name && err != nil {
				t.Skip(err)
			}
			p.cases = 10
			st, err := p.run(t.Context(), t.TempDir(), 1, 1<<62)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range st.Failures {
				t.Error(f)
			}
			if st.Done != p.cases {
				t.Errorf("%d of %d cases are done", st.Done, p.cases)
			}
		})
	}
}
