package monitor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestLimitFor: the limit always leaves room above what is in use.
func TestLimitFor(t *testing.T) {
	for _, tt := range []struct {
		live, beside, memory uint64
		want                 int64
	}{{0, 0, 8 << 10, 120}, {40, 8, 8 << 10, 120}, {100, 0, 8 << 10, 182}, {1 << 10, 0, 8 << 10, 1536 + 32}, {1 << 10, 300, 8 << 10, 1536 + 300 + 32},
		{40, 8, 256, 120}, {80, 8, 256, 160}, {120, 8, 1000, 220}, {176, 8, 256, 210}, {88, 8, 128, 111}} {
		if got := limitFor(tt.live<<20, tt.beside<<20, tt.memory<<20); got != tt.want<<20 {
			t.Errorf("limit for %d MiB live and %d beside of %d: %d MiB, want %d", tt.live, tt.beside, tt.memory, got>>20, tt.want)
		}
	}
}

// TestLimitFollows: a larger heap has a larger limit after its collection, without a call. The limit is one of a whole
// process for good, so the process is another one.
func TestLimitFollows(t *testing.T) {
	const child = "TESTED_LIMIT"
	if os.Getenv(child) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLimitFollows$") //nolint:gosec // this program
		c.Env = append(os.Environ(), "GOMEMLIMIT=", child+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	limitMemory()
	held := make([]byte, 400<<20)
	await.Event(t, "the limit is above the heap", func() error {
		runtime.GC()
		if got := debug.SetMemoryLimit(-1); got < 500<<20 || got > 1<<40 {
			return fmt.Errorf("%d MiB", got>>20)
		}
		return nil
	})
	runtime.KeepAlive(held)
}
