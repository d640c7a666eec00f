package bpf

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/probe/probetest"
)

// BenchmarkCostIO measures the cost per run of the programs on block requests and on TCP
// connections, from the kernel's run-time statistics minus those of an empty program. The events
// are part of work that takes a thousand times as long and varies by more than the programs
// cost, so an external clock cannot see them. "ns-dispatch" is the cost of entering a program on
// a tracepoint, measured by an external clock (see Meter). An operation is a synchronous request
// of 4 KiB to a device in memory, a page written, read and dropped from the cache, or a refused
// connection.
func BenchmarkCostIO(b *testing.B) {
	for _, c := range []struct {
		name    string
		program *Program
		prepare func(*testing.B) func()
	}{
		{"block", Block, func(b *testing.B) func() {
			_, device := loopDevice(b)
			return func() { through(b, device.WriteAt, 100, 4096) }
		}},
		{"pagecache", PageCache, func(b *testing.B) func() {
			file, err := os.CreateTemp(b.TempDir(), "pages")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { file.Close() })
			return func() {
				through(b, file.WriteAt, 100, 4096)
				through(b, file.ReadAt, 100, 4096)
				if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"tcp", TCP, refusedConnections},
		{"tcp_connect", TCPConnect, refusedConnections},
	} {
		b.Run(c.name, func(b *testing.B) {
			work := c.prepare(b)
			counters := openProgram(b, c.program, Limits{})
			if _, err := NewMeter(local); err != nil {
				b.Fatal(err)
			}
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			if err != nil {
				probetest.Skip(b, "statistics", fmt.Errorf("enable statistics: %w", err))
			}
			defer stats.Close()
			clock, err := clockReads()
			if err != nil {
				b.Fatal(err)
			}
			before := statistics(b, counters)
			for b.Loop() {
				work()
			}
			after := statistics(b, counters)
			for _, a := range counters.links.Lock().hooks {
				n := after[a.program].RunCount - before[a.program].RunCount
				if n == 0 {
					continue
				}
				ns := float64(after[a.program].Runtime-before[a.program].Runtime)/float64(n) - 1e9*clock
				b.ReportMetric(ns, "ns-"+a.name)
				b.ReportMetric(float64(n)/float64(b.N)/100, "runs/op-"+a.name)
			}
			counters.links.Unlock()
			b.ReportMetric(1e9*shared().dispatch, "ns-dispatch")
		})
	}
}

// refusedConnections makes a hundred connections to a port on which nothing listens.
func refusedConnections(b *testing.B) func() {
	network(b)
	closed, port := socket(b)
	b.Cleanup(func() { unix.Close(closed) })
	return func() {
		for range 100 {
			fd, _ := socket(b)
			if err := connect(fd, port); err != unix.ECONNREFUSED {
				b.Fatalf("connect: %v", err)
			}
			unix.Close(fd)
		}
	}
}

// statistics are those of the kernel, by program.
func statistics(b *testing.B, c *Counters) map[*ebpf.Program]ebpf.ProgramStats {
	out := map[*ebpf.Program]ebpf.ProgramStats{}
	for _, p := range c.programs() {
		s, err := p.Stats()
		if err != nil {
			b.Fatal(err)
		}
		out[p] = *s
	}
	return out
}

// clockReads is what the statistics report for an empty program, in seconds: the
// minimum of several batches, as in perCall.
func clockReads() (least float64, err error) {
	const batches, calls = 20, 50
	spec, err := loadEmpty()
	if err != nil {
		return 0, err
	}
	k := kernelOf(local)
	empty, err := k.loadProgram(spec, "empty_socket", nil, k.typeCache())
	if err != nil {
		return 0, err
	}
	defer empty.Close()
	packet := make([]byte, 64)
	var was ebpf.ProgramStats
	for range batches {
		if _, _, err := empty.Benchmark(packet, calls, nil); err != nil {
			return 0, err
		}
		is, err := empty.Stats()
		if err != nil {
			return 0, err
		}
		if t := (is.Runtime - was.Runtime).Seconds() / float64(is.RunCount-was.RunCount); least == 0 || t < least {
			least = t
		}
		was = *is
	}
	return least, nil
}
