package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// TestProcessTimes: what a process has used before the first reading does not count, of what comes later nothing is lost or
// counted twice, also when a process id is used again, and names without processes go.
func TestProcessTimes(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process := func(pid int, name string, ticks, started, waitedNS int) {
		t.Helper()
		write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 0 0 0 0 %d 0 0 0 20 0 1 0 %d %s", pid, name, ticks, started, strings.Repeat("0 ", 30)))
		write(fmt.Sprintf("proc/%d/task/%d/schedstat", pid, pid), fmt.Sprintf("1 %d 1\n", waitedNS))
	}
	write("proc/uptime", "100.00 1.00\n")
	h := host.Local()
	h.Root = root
	r, err := processTimes.Open(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[string]float64 {
		t.Helper()
		got := map[string]float64{}
		if err := r.Read(t.Context(), func(s metric.Sample) {
			got[strings.TrimSuffix(strings.TrimPrefix(s.Desc.Name, "tee_process_stat_"), "_seconds_total")+" "+s.Labels[0]] = s.Value
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := func(got map[string]float64, want string) {
		t.Helper()
		if s := fmt.Sprint(got); s != want {
			t.Errorf("read %s, want %s", s, want)
		}
	}
	process(7, "redis", 5000, 50, 9e9)
	process(8, "redis", 100, 60, 0)
	want(read(), "map[]")
	process(7, "redis", 5050, 50, 9e9+25e7)
	process(9, "new", 20, 10100, 1e8)
	want(read(), "map[cpu new:0.2 cpu redis:0.5 wait new:0.1 wait redis:0.25]")
	process(7, "redis", 5150, 50, 10e9+25e7)
	process(9, "new", 3, 10200, 1e7) // another process
	want(read(), "map[cpu new:0.23 cpu redis:1.5 wait new:0.11 wait redis:1.25]")
	if err := os.RemoveAll(filepath.Join(root, "proc/9")); err != nil {
		t.Fatal(err)
	}
	for range forgetTimes {
		process(8, "redis", 100, 60, 0)
		read()
	}
	want(read(), "map[cpu redis:1.5 wait redis:1.25]")
}
