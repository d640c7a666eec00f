package launchers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestBeside: the other program runs exactly as long as the job, in a folder that is empty in
// each run. A run in which it ended early is refused.
func TestBeside(t *testing.T) {
	script := filepath.Join(t.TempDir(), "other")
	text := "#!/bin/sh\n[ -z \"$(ls -A \"$1\")\" ] || exit 1\n[ \"$2\" -gt 0 ] || exit 1\necho here > \"$1/mark\"\nexec sleep \"$3\"\n"
	if err := host.Local().Install(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	open := func(program string) bench.Environment {
		p, err := bench.Complete("launcher beside", beside.Params, bench.Params{"program": program, "settle": "300ms"})
		if err != nil {
			t.Fatal(err)
		}
		h := host.Local()
		if err := beside.Check(h, p); err != nil {
			t.Fatal(err)
		}
		e, err := beside.Open(t.Context(), h, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	look := bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", "until grep here beside/mark; do sleep 0.01; done 2>/dev/null"}, Dir: "{work}"}}
	e := open(script + " {own} {port} 60")
	for range 2 {
		out, err := e.Run(t.Context(), look)
		if err != nil || string(out.Inside.Stdout) != "here\n" || len(out.Processes) == 0 {
			t.Errorf("%q, processes %q: %v", out.Inside.Stdout, out.Processes, err)
		}
	}
	late := bench.Job{Inside: host.Cmd{Argv: []string{"sleep", "60"}}}
	if _, err := open(script+" {own} {port} 0.5").Run(t.Context(), late); err == nil || !strings.Contains(err.Error(), errNeighbour.Error()) {
		t.Errorf("a program that ends before the job: %v", err)
	}
	if _, err := open("false").Run(t.Context(), late); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("a program that fails at once: %v", err)
	}
}
