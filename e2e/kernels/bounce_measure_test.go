//go:build measure

package kernels

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// In each of truthBlocks blocks, truthRounds rounds of truthReads requests are read from each of two disks in turn
// while bounce buffers are timed, and as many while they are not.
const truthBlocks, truthRounds, truthReads = 5, 6, 64

// switched is a shell function that switches the source on or off, and waits for it.
const switched = `switched() {
	wget -q -O /dev/null --header 'Content-Type: application/json' --post-data "{\"on\":$1}" http://127.0.0.1:9781/api/teescope/v1/sources/swiotlb_bounces || exit 1
	n=0
	until wget -q -O - http://127.0.0.1:9781/metrics | grep -c ^tee_swiotlb_seconds_total | grep -q "$2"; do
		n=$((n+1)); [ $n -lt 300 ] || exit 1
		usleep 100000
	done
}
`

// TestBounceTime: the measured time of bounce buffers agrees with the truth of an interleaved experiment, the same reads from two disks
// of one guest, of which one is behind bounce buffers and the other is not, as virtio then hands out the guest's own addresses. The
// truth is taken while nothing times them, in turn with the blocks in which they are.
func TestBounceTime(t *testing.T) {
	for _, name := range []string{singleKernel, "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Functions that need kprobes cannot be traced again with fewer capabilities.
			agent := Step{Name: startAgent.Name, Script: strings.Replace(startAgent.Script, "--budget 100%", "--budget 100% --privileges keep", 1)}
			g := &Guest{Kernel: fetch(t, named(t, name)), Steps: []Step{agent}}
			bounce(t, g)
			plain := filepath.Join(t.TempDir(), "plain")
			if err := os.WriteFile(plain, make([]byte, bounced), 0o644); err != nil {
				t.Fatal(err)
			}
			g.QEMU = append(g.QEMU, "-drive", "if=none,id=d2,format=raw,file="+plain, "-device", "virtio-blk-pci,drive=d2,disable-legacy=on")
			sizes := []int{16 << 10, 64 << 10, 256 << 10}
			for _, size := range sizes {
				read := fmt.Sprintf("inside disks %d %d %d /dev/vdb /dev/vdc", truthRounds, min(truthReads, bounced/size), size)
				g.Steps = append(g.Steps, Step{Name: fmt.Sprint(size), Script: switched + read + " >/dev/null\n" +
					"for block in $(seq " + strconv.Itoa(truthBlocks) + "); do\n" +
					"switched false ^0; echo untimed; " + read + "\nswitched true ^6; " + pool + "\necho timed; " + read + "\n" + pool + "; done"})
			}
			g.Steps = append(g.Steps, stopAgent)
			r := boot(t, g)
			ended(t, g, r)
			for _, size := range sizes {
				c := contrasted(t, r.Steps[fmt.Sprint(size)].Text)
				t.Logf("%3d KiB: a request takes %.0f us through bounce buffers and %.0f us without, so they take %.0f us [%.0f, %.0f]; timed %.0f us, of %.0f us while they are timed: %.1f %%, in truth %.1f %% [%.1f, %.1f]",
					size>>10, c.on, c.off, c.truth, c.low, c.high, c.timed, c.watched, 100*c.timed/c.watched, 100*c.truth/c.watched, 100*c.low/c.watched, 100*c.high/c.watched)
				// Requests past virtio's own addresses also go through the kernel's DMA layer, which is
				// part of the truth and not timed, and the emulator's scatter is large: the numbers of
				// quiet runs are in docs/explain.md.
				const points = 0.20
				if off := math.Abs(c.timed-c.truth) / c.watched; !(c.timed > 0) || c.timed >= c.watched || off > points && (c.timed < c.low || c.timed > c.high) {
					t.Errorf("%d KiB: %.1f points off", size>>10, 100*off)
				}
			}
		})
	}
}

// contrast is in microseconds per request: through bounce buffers and without, while they are not timed; the
// difference with its 95 % interval over the blocks; their time by the source's clock, and the requests through them,
// while it ran.
type contrast struct{ on, off, truth, low, high, timed, watched float64 }

// contrasted parses the script's output.
func contrasted(t *testing.T, text string) contrast {
	t.Helper()
	var on, off, watched, seconds []float64 // by block
	timed := false
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(number, 64)
		switch n := len(on) - 1; {
		case name == "untimed":
			on, off, watched, seconds, timed = append(on, 0), append(off, 0), append(watched, 0), append(seconds, 0), false
		case name == "timed":
			timed = true
		case strings.HasPrefix(name, "tee_swiotlb_seconds_total"):
			if n < 0 || err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if seconds[n] += v; !timed {
				seconds[n] -= 2 * v
			}
		case name == "/dev/vdb" && err == nil && n >= 0 && timed:
			watched[n] += v / 1e9
		case name == "/dev/vdb" && err == nil && n >= 0:
			on[n] += v / 1e9
		case name == "/dev/vdc" && err == nil && n >= 0 && !timed:
			off[n] += v / 1e9
		}
	}
	if len(on) != truthBlocks {
		t.Fatalf("%d blocks of %d: %s", len(on), truthBlocks, tail(text))
	}
	return contrastOf(on, off, watched, seconds, truthRounds*truthReads)
}

// contrastOf returns the contrast of blocks of so many requests, from their times in seconds.
func contrastOf(on, off, watched, seconds []float64, requests float64) contrast {
	requests *= 1e-6
	var truths []float64
	for i := range on {
		truths = append(truths, (on[i]-off[i])/requests)
	}
	of := func(list []float64) float64 { return median(list) / requests }
	c := contrast{on: of(on), off: of(off), timed: of(seconds), watched: of(watched), truth: median(truths)}
	// The minimum and maximum of five contain the median with a confidence of 94 %.
	c.low, c.high = slices.Min(truths), slices.Max(truths)
	return c
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
