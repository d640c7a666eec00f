package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/load"
)

// TestCountsAddUp: of real servers that get exactly N requests, however fast they are, the client's count, the server's
// own, tee_requests_total and the system calls of the answers agree to the last one.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	needRoot(t)
	var servers []asked
	text := "requests:\n"
	for name, start := range starts {
		s, missing := start(t, t.TempDir(), fmt.Sprintf("%.8s%06x", name, rand.Uint32N(1<<24)))
		if missing != "" {
			t.Logf("%s is left out: %s", name, missing)
			continue
		}
		if s.load != nil {
			servers = append(servers, s)
			text += s.config + "\n"
		}
	}
	if len(servers) == 0 {
		t.Skip("no server is installed")
	}
	config := filepath.Join(t.TempDir(), "teescope.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "agent", "--config", config)
	for _, s := range servers {
		t.Run(s.process, func(t *testing.T) { countsAddUp(t, m, s) })
	}
}

// counts are what teescope says of a server: its requests, and its system calls that answer.
type counts struct{ requests, calls float64 }

func countsAddUp(t *testing.T, m *monitor, s asked) {
	// settled reads until nothing but its own readings is counted, as PostgreSQL counts late: some in a row add the same.
	// It returns the counts without those of all readings. Of a page that lacks the server nobody knows whether it asked.
	const some = 4
	readings, lacking := 0.0, 0
	settled := func() (net counts) {
		t.Helper()
		var last, step counts
		same := 0
		await.Event(t, "only the readings are counted", func() error {
			page := seriesOf(t, m)
			readings++
			now := counts{calls: page[fmt.Sprintf("tee_syscalls_total{process=%q,syscall=%q}", s.process, s.answers)]}
			for series, v := range page {
				if strings.HasPrefix(series, fmt.Sprintf("tee_requests_total{process=%q,", s.process)) {
					now.requests = v
				}
			}
			grown := counts{now.requests - last.requests, now.calls - last.calls}
			if now.requests == 0 {
				lacking++
			}
			if same++; grown.requests != s.asks || grown != step {
				same = 0
			}
			last, step = now, grown
			if same < some {
				return fmt.Errorf("%+v, grown by %+v", now, grown)
			}
			net = counts{now.requests - readings*step.requests, now.calls - readings*step.calls}
			return nil
		})
		return net
	}
	// run makes n requests, and returns by how much the counts grow.
	var run func(n uint64) counts
	run = func(n uint64) counts {
		t.Helper()
		before, lacked := settled(), lacking
		c := exec.CommandContext(t.Context(), worker(), append([]string{"load", "--json", "--connections", "1", "--warm", "0s", "--wait", "5m", "--timeout", "5m",
			"--requests", strconv.FormatUint(n, 10)}, s.load...)...)
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", c, err, &said)
		}
		var r load.Report
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if r.Requests != n || r.Counted != n || r.Expected != n || r.Failed() > 0 {
			t.Errorf("the client made %d requests, counted %d, and had the errors %v; want %d", r.Requests, r.Counted, r.Errors, n)
		}
		after := settled()
		if lacking > lacked {
			return run(n)
		}
		return counts{after.requests - before.requests, after.calls - before.calls}
	}
	run(1) // fills the server
	// What else a run needs, such as its connection and the server's statistics, is the same for any number.
	one, many := run(1), run(3001)
	if n := many.requests - one.requests; n != 3000 {
		t.Errorf("3000 more requests are %g more in tee_requests_total", n)
	}
	if n := many.calls - one.calls; n != 3000 {
		t.Errorf("3000 more requests are %g more calls of %s", n, s.answers)
	}
	t.Logf("one request: %+v, 3001: %+v, after %g readings", one, many, readings)
}
