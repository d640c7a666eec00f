package hosttest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// perfCounter is what a line of "perf" says of an event.
type perfCounter struct {
	value            uint64
	enabled, running time.Duration
	err              error
}

// fakePerf gives the host the counters of a fixture's "perf"; all others are missing.
func fakePerf(t testing.TB, h *host.Host, text string) {
	t.Helper()
	counters := map[string]perfCounter{}
	for line := range lines(text) {
		words := strings.Fields(line)
		c, err := parsePerf(words)
		if err != nil {
			t.Fatalf("perf: %q: want \"cpu|thread N TYPE:CONFIG VALUE ENABLED RUNNING\" or an ERRNO at the end: %v", line, err)
		}
		counters[strings.Join(words[:3], " ")] = c
	}
	h.Perf = func(target host.PerfTarget, events ...host.PerfEvent) (host.PerfGroup, error) {
		var g perfGroup
		for i, e := range events {
			name := fmt.Sprintf("cpu %d %d:%d", target.CPU, e.Type, e.Config)
			if target.Thread > 0 {
				name = fmt.Sprintf("thread %d %d:%d", target.Thread, e.Type, e.Config)
			}
			c, ok := counters[name]
			if !ok {
				c.err = unix.ENOENT
			}
			if c.err != nil {
				return nil, fmt.Errorf("open performance counter %d:%#x of %s: %w", e.Type, e.Config, target, c.err)
			}
			if i == 0 {
				g.Enabled, g.Running = c.enabled, c.running
			}
			g.Values = append(g.Values, c.value)
		}
		return g, nil
	}
}

func parsePerf(words []string) (c perfCounter, err error) {
	switch len(words) {
	case 4:
		var ok bool
		if c.err, ok = errnos[words[3]]; !ok {
			return c, fmt.Errorf("unknown error %q", words[3])
		}
		return c, nil
	case 6:
		if c.value, err = strconv.ParseUint(words[3], 10, 64); err != nil {
			return c, err
		}
		if c.enabled, err = time.ParseDuration(words[4]); err != nil {
			return c, err
		}
		c.running, err = time.ParseDuration(words[5])
		return c, err
	}
	return c, fmt.Errorf("%d words", len(words))
}

// perfGroup is a group whose counters stand still.
type perfGroup struct{ host.PerfReading }

// Read implements host.PerfGroup.
func (g perfGroup) Read() (host.PerfReading, error) { return g.PerfReading, nil }

// Close implements host.PerfGroup.
func (g perfGroup) Close() error { return nil }
