//go:build measure

package bpf

import (
	"fmt"
	"math"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/measured"
)

// TestPriceBesideLoad: what a run of the program on system calls is taken to cost beside Redis, from the runs that it times itself, against the
// kernel's run-time statistics less their clock reads. Each run opens the program anew, so the loop of the start is measured anew too.
func TestPriceBesideLoad(t *testing.T) {
	const port, look = "6471", 2 * time.Second
	server := exec.Command("redis-server", "--port", port, "--save", "")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	await.Event(t, "Redis answers", func() error { return exec.Command("redis-cli", "-p", port, "ping").Run() })
	client := exec.Command("redis-benchmark", "-p", port, "-q", "-t", "get", "-n", "1000000000")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Process.Kill(); _ = client.Wait() })
	var off []float64
	for round := range runs {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			c := openProgram(t, Syscalls, Limits{})
			loop := c.guarded.price
			timed := c.runs().timedRuns()
			time.Sleep(look)
			timed = c.runs().timedRuns().less(timed)
			price := loop
			price.take(timed, look)

			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			if err != nil {
				t.Fatal(err)
			}
			defer stats.Close()
			clock, err := clockReads()
			if err != nil {
				t.Fatal(err)
			}
			p := c.programs()[0]
			was, err := p.Stats()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(look)
			is, err := p.Stats()
			if err != nil {
				t.Fatal(err)
			}
			kernel := (is.Runtime-was.Runtime).Seconds()/float64(is.RunCount-was.RunCount) - clock
			t.Logf("in the loop %.1f ns, %.1f timed; beside Redis %.1f timed (%.0f runs), so %.1f; by the kernel %.1f",
				loop.loopBody()*1e9, loop.loop*1e9, timed.each()*1e9, timed.runs, price.body*1e9, kernel*1e9)
			off = append(off, math.Abs(price.body/kernel-1))
		})
	}
	measured.AtMost(t, "what programs are taken to cost beside Redis is within a third of the kernel's run-time statistics", "ratio", 1./3, off)
}
