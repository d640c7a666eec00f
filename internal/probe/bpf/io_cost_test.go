package bpf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
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

// BenchmarkBesideRedis measures what a run of the program on system calls takes in a loop of calls and beside Redis: the part
// that it times itself, and all of it by the kernel's run-time statistics less their clock reads.
func BenchmarkBesideRedis(b *testing.B) {
	const port = "6471"
	for _, name := range []string{"redis-server", "redis-cli", "redis-benchmark"} {
		if _, err := exec.LookPath(name); err != nil {
			b.Skipf("%s is not installed (package redis)", name)
		}
	}
	c := openProgram(b, Syscalls, Limits{})
	p := c.programs()[0]
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		probetest.Skip(b, "statistics", fmt.Errorf("enable statistics: %w", err))
	}
	defer stats.Close()
	clock, err := clockReads()
	if err != nil {
		b.Fatal(err)
	}
	took := func(where string, work func()) {
		timed, was := c.runs().timedRuns(), statistics(b, c)[p]
		work()
		timed = c.runs().timedRuns().less(timed)
		is := statistics(b, c)[p]
		b.ReportMetric(1e9*timed.each(), "ns-timed-"+where)
		b.ReportMetric(1e9*((is.Runtime-was.Runtime).Seconds()/float64(is.RunCount-was.RunCount)-clock), "ns-all-"+where)
	}
	for b.Loop() {
		took("loop", func() {
			for range 1_000_000 {
				c.trigger()()
			}
		})
		server := await.Start(b, exec.Command("redis-server", "--port", port, "--save", ""))
		await.Event(b, "Redis answers", func() error { return exec.Command("redis-cli", "-p", port, "ping").Run() })
		took("redis", func() {
			if out, err := exec.Command("redis-benchmark", "-p", port, "-q", "-t", "get", "-n", "200000").CombinedOutput(); err != nil {
				b.Errorf("%v: %s", err, out)
			}
		})
		server.Stop(syscall.SIGKILL)
	}
	b.ReportMetric(0, "ns/op")
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
