//go:build measure

package deploy

import (
	"syscall"
	"testing"
	"time"

	promise "github.com/teescope/teescope/internal/measured"
)

// TestMinute: in a fresh Debian root without compilers, `dpkg -i` and `teescope top` show a finding about a storm of system calls within a minute.
func TestMinute(t *testing.T) {
	debs := t.TempDir()
	makeDebs(t, debs, "v0.1.0")
	var seconds []float64
	for range 6 {
		r := newRoot(t, debs)
		load := startStorm(t)
		began := time.Now()
		r.do("dpkg", "-i", "/debs/v0.1.0.deb")
		watchStorm(t, r)
		seconds = append(seconds, time.Since(began).Seconds())
		load.Stop(syscall.SIGTERM)
	}
	promise.EachAtMost(t, "from the package to the first finding within a minute, without a toolchain", "s", 60, seconds)
}
