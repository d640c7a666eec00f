//go:build measure

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchRealTools: with the tools that users have, every workload gets from a run to a report. It does not
// judge the measured values: the machine is shared.
func TestBenchRealTools(t *testing.T) {
	for _, c := range []struct {
		needs [][2]string // commands and their packages
		args  string
	}{
		{[][2]string{{"fio", "fio"}}, "fio --param rw=randread --param size=16MiB --param runtime=1s --param ramp=0s --param steady=off --env native --env cached=native,direct=0 --quick"},
		{[][2]string{{"7zz", "7zip"}}, "cpu-7zip --param threads=1 --param dictionary=18 --pairs 1"},
		{[][2]string{{"runsc", "gVisor"}}, "startup --param touch=1MiB --env native --env runsc --quick"},
	} {
		name, _, _ := strings.Cut(c.args, " ")
		t.Run(name, func(t *testing.T) {
			for _, n := range c.needs {
				if _, err := exec.LookPath(n[0]); err != nil {
					t.Skipf("%s is not here (%s)", n[0], n[1])
				}
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "r.json")
			args := append([]string{"bench", "run"}, strings.Fields(c.args)...)
			out, errs, code := run(t, append(args, "--out", path, "--data", dir)...)
			if code != 0 && code != 3 {
				t.Fatalf("exit status %d: %s%s", code, out, errs)
			}
			e := whole(t, path)
			for i := range e.Runs {
				r := &e.Runs[i]
				if m := r.Metric(e.Design.Primary); m == nil || m.Value == nil || *m.Value <= 0 {
					t.Errorf("run %s: %s is %+v", r.ID, e.Design.Primary, m)
				}
				if os.Geteuid() == 0 && len(r.Counters) == 0 {
					t.Errorf("run %s: no counters: %v", r.ID, r.Missing)
				}
			}
			html := filepath.Join(dir, "report.html")
			if _, errs, code := run(t, "report", path, "--out", html); code != 0 {
				t.Fatalf("report: exit status %d: %s", code, errs)
			}
			b, err := os.ReadFile(html)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range e.Comparisons {
				if c.Primary && !strings.Contains(string(b), c.Treatment) {
					t.Errorf("the report does not speak of %s", c.Treatment)
				}
			}
			if strings.Contains(string(b), "http://") && strings.Contains(string(b), "src=\"http") {
				t.Error("the report asks another machine for something")
			}
		})
	}
}
