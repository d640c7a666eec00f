//go:build measure

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/measured"
)

// TestHostileLoad: all attacks of TestHostileClients again and again, for ten minutes or as long as TEESCOPE_HOSTILE says ("60s"). Of
// each tenth of that time it measures the memory that cannot be dropped, how long /-/healthy takes for another user, and how many rounds
// of readings were missed.
func TestHostileLoad(t *testing.T) {
	length := 10 * time.Minute
	if text := os.Getenv("TEESCOPE_HOSTILE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	const parts = 10
	a := startTarget(t)
	sparseLibrary(t)
	end := time.Now().Add(length)
	var hostile sync.WaitGroup
	hostile.Go(func() {
		for time.Now().Before(end) {
			for _, attack := range attacks {
				if time.Now().After(end) {
					return
				}
				attack.do(t, a)
			}
		}
	})
	var resident, healthy, missed []float64
	for range parts {
		began, most, slowest := time.Now(), 0.0, 0.0
		for time.Since(began) < length/parts {
			most = max(most, a.group.anonymous(t))
			asked := time.Now()
			if _, err := fetch(a.url + "/-/healthy"); err != nil {
				t.Error(err)
			}
			slowest = max(slowest, time.Since(asked).Seconds())
			time.Sleep(100 * time.Millisecond)
		}
		resident, healthy = append(resident, most/(1<<20)), append(healthy, slowest)
	}
	hostile.Wait()
	seconds := int(length.Seconds()) / parts
	for i := range parts {
		text := a.sampleOf(fmt.Sprintf("count_over_time(teescope_memory_limit_bytes[%ds] offset %ds)", seconds, i*seconds))
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			n = 0
		}
		missed = append(missed, max(0, math.Floor(float64(seconds)/5)-n))
	}
	measured.AtMost(t, "under hostile clients, a monitor in 256 MiB has at most 220 MiB that cannot be dropped", "MiB", 220, resident)
	measured.AtMost(t, "under hostile clients, /-/healthy is answered within 0.1 s", "s", 0.1, healthy)
	measured.AtMost(t, "under hostile clients, no round of readings is missed", "", 0, missed)
	if n := a.group.kills(t); n > 0 {
		t.Errorf("the kernel killed %d processes", n)
	}
}

// anonymous is the memory of the group that is no file, in bytes: what the kernel cannot drop.
func (g memoryGroup) anonymous(t *testing.T) float64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name == "rss" || name == "anon" {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatal("memory.stat has neither anon nor rss")
	return 0
}
