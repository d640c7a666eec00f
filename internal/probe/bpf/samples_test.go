package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/probetest"
)

func openTestSamples(t testing.TB, limits Limits) *Samples {
	t.Helper()
	needKernel(t)
	s, err := openSamples(local, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// doing is the sampled activity of a process.
type doing struct {
	in   Activity
	call string
}

// sampled is the number of samples of a process.
func sampled(s *Samples, name string) map[doing]float64 {
	out := map[doing]float64{}
	s.Sampled(func(process string, in Activity, call string, n float64) {
		if process == name {
			out[doing{in, call}] += n
		}
	})
	return out
}

func total(m map[doing]float64) (n float64) {
	for _, v := range m {
		n += v
	}
	return n
}

// most is how often clocks tick at most in a time that began at began: each tick belongs to a multiple of the period, and
// one may come late from before.
func most(s *Samples, clocks int, began uint64) float64 {
	return float64(clocks) * (float64(now()-began)/float64(clockOf(s).period) + 2)
}

// What a program does is sampled, never more often than the clock ticks.
func TestSamples(t *testing.T) {
	s := openTestSamples(t, Limits{})
	t.Logf("a tick costs %.2g us; interrupts can be told from faults: %v", s.calibratedCost()*1e6, s.maps["entries"][0] != 0)
	for _, c := range []struct {
		args []string
		want doing
	}{
		{[]string{"cpu", "100"}, doing{InKernel, "clock_gettime"}}, // it reads its CPU time all the time
		{[]string{"getppid", "1000000"}, doing{InKernel, "getppid"}},
		{[]string{"faults", "write", "20000"}, doing{InFault, ""}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			await.Event(t, "the program is sampled in what it does", func() error {
				name, began := probetest.Name("at"), now()
				events(t, func() {}, func() {}, append([]string{"--comm", name, "--cpu", probetest.CPUs(t)[0]}, c.args...)...)
				got := sampled(s, name)
				if n := total(got); n > most(s, 1, began) {
					t.Errorf("%g samples on one CPU, whose clock ticked %g times at most", n, most(s, 1, began))
				}
				if got[c.want] == 0 {
					return fmt.Errorf("%v, none in %v", got, c.want)
				}
				return nil
			})
		})
	}
	// The idle ticks are the difference.
	var all float64
	s.Sampled(func(_ string, _ Activity, _ string, n float64) { all += n })
	if n := float64(s.Events()); all > n {
		t.Errorf("%g samples in %g ticks", all, n)
	}
}

// Computing is user space, and counts for the process whatever its thread's name.
func TestSamplesOfComputing(t *testing.T) {
	s := openTestSamples(t, Limits{})
	self := ownName(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was := sampled(s, self)[doing{InUser, ""}]
	await.Event(t, "this process is sampled ten times while it computes", func() error {
		runtime.KeepAlive(spin(20_000_000))
		if n := sampled(s, self)[doing{InUser, ""}] - was; n < 10 {
			return fmt.Errorf("%g samples", n)
		}
		return nil
	})
}

// Nothing is counted while the clocks are off, and counting continues afterwards.
func TestSamplesStop(t *testing.T) {
	s := openTestSamples(t, Limits{})
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	was, last := s.Events(), map[int]uint64{}
	for cpu := range clockOf(s).ticks {
		last[cpu] = lastTick(s, cpu)
	}
	for began := threadCPU(); threadCPU()-began < 20*SamplePeriod; { // of all threads, so of this one at least
		runtime.KeepAlive(spin(1_000_000))
	}
	if n := s.Events() - was; n != 0 {
		t.Errorf("%d ticks while the clocks are off", n)
	}
	late, on := s.Late(), now()
	if err := s.Attach(); err != nil {
		t.Fatal(err)
	}
	for cpu := range clockOf(s).ticks {
		ticksAgain(t, s, cpu, last[cpu])
	}
	// The gap does not count as late.
	if n, most := s.Late()-late, most(s, len(clockOf(s).ticks), on); float64(n) > most {
		t.Errorf("%d late ticks, at most %.0f were due", n, most)
	}
}

// clockOf returns the clock of s, which nothing changes during the test.
func clockOf(s *Samples) clock {
	held := s.clock.Lock()
	defer s.clock.Unlock()
	return *held
}

// lastTick is the time of a CPU's last tick, or 0 if it has not ticked since its clock was
// switched on.
func lastTick(s *Samples, cpu int) uint64 {
	return binary.NativeEndian.Uint64(s.maps["ticked"][cpu*8:])
}

// ticksAgain waits until a CPU ticks after its last tick, however long the host took the CPU
// away.
func ticksAgain(t *testing.T, s *Samples, cpu int, last uint64) {
	t.Helper()
	await.Event(t, fmt.Sprintf("the clock of CPU %d ticks again", cpu), func() error {
		if at := lastTick(s, cpu); at == last || at == 0 {
			return fmt.Errorf("its last tick was at %d", at)
		}
		return nil
	})
}

// A CPU that was offline ticks again when it is back.
func TestSamplesFollow(t *testing.T) {
	s := openTestSamples(t, Limits{})
	online := slices.Sorted(maps.Keys(clockOf(s).ticks))
	cpu := online[0]
	gone := clockOf(s).ticks[cpu]
	if err := gone.toggle(false); err != nil { // as the kernel does when it takes the CPU away
		t.Fatal(err)
	}
	last := lastTick(s, cpu)
	await.Event(t, "the clock counts as stopped", func() error {
		if quiet := now() - last; quiet <= uint64(silence) {
			return fmt.Errorf("its last tick was %d ns ago", quiet)
		}
		return nil
	})
	if lastTick(s, cpu) != last {
		t.Fatal("its clock ticks although it was stopped")
	}
	if err := s.Follow(online); err != nil {
		t.Fatal(err)
	}
	if clockOf(s).ticks[cpu] == gone {
		t.Error("its clock was not started again")
	}
	ticksAgain(t, s, cpu, last)
	if err := s.Follow(nil); err != nil || len(clockOf(s).ticks) != 0 {
		t.Errorf("%d clocks of CPUs that are offline, %v", len(clockOf(s).ticks), err)
	}
}

// Unobserved handshakes are estimated, and no sum ever falls.
func TestUserSamples(t *testing.T) {
	var u user
	for i, c := range []struct {
		later  user
		shaken float64
	}{
		{user{outside: 0, inside: 0, maybe: 10}, 0}, // nothing is known yet
		{user{outside: 60, inside: 20, maybe: 50}, 10},
		{user{outside: 60, inside: 20, maybe: 90}, 20}, // as before
		{user{outside: 160, inside: 20, maybe: 190}, 20},
		{user{outside: 3, inside: 1, maybe: 4}, 1}, // another process with that name
	} {
		if u.add(c.later); u.shaken != c.shaken || u.maybe != c.later.maybe {
			t.Errorf("%d: %+v, want %g in handshakes", i, u, c.shaken)
		}
	}
}

// A full table folds and loses nothing.
func TestSamplesFold(t *testing.T) {
	s := openTestSamples(t, Limits{Processes: 1, Pairs: slots})
	var n float64
	var folded uint64
	await.Event(t, "a sample is folded", func() error {
		events(t, func() {}, func() {}, "--comm", probetest.Name("fold"), "cpu", "100")
		n = 0
		folded = s.Sampled(func(process string, in Activity, _ string, m float64) {
			if process != Other || in != Folded {
				t.Errorf("%g samples of %s in %s although the tables are full", m, process, in)
			}
			n += m
		})
		if folded == 0 {
			return errors.New("none is")
		}
		return nil
	})
	if float64(folded) != n || n > float64(s.Events()) {
		t.Errorf("%d of %g samples in %d ticks are folded", folded, n, s.Events())
	}
}

// Corrupt or short maps give numbers or nothing, never a panic.
func FuzzDecodeSamples(f *testing.F) {
	f.Add([]byte{}, []byte{1}, []byte("redis"))
	f.Add(make([]byte, 8*pairsRow), slices.Repeat([]byte{247, 3, 0, 0, 0, 0, 0, 0}, pairs), []byte("redis"))
	f.Add(slices.Repeat([]byte{0xff}, 4099), slices.Repeat([]byte{0xff}, 8*pairs+3), slices.Repeat([]byte{0xff}, 999))
	f.Fuzz(func(t *testing.T, counts, keys, names []byte) {
		h := &host.Host{Now: time.Now, Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{runsMap: counts, "counts": counts, "keys": keys, "names": names, "walk": counts}, nil
		}}
		s, err := OpenSamples(h)
		if err != nil {
			t.Fatal(err)
		}
		s.Sampled(func(process string, in Activity, call string, n float64) {
			if process == "" || in == "" || n < 0 {
				t.Errorf("%q %q %q: %g", process, in, call, n)
			}
		})
		s.Late()
		w, err := OpenWaits(h, Names{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Waited(func(k Wait, seconds float64) {
			if k.Process == "" || seconds <= 0 {
				t.Errorf("%+v: %g s", k, seconds)
			}
		}); err != nil {
			t.Error(err)
		}
		x, err := OpenHandshakes(h)
		if err != nil {
			t.Fatal(err)
		}
		x.Handshaken(func(process string, _ uint64) {
			if process == "" {
				t.Error("a process without a label")
			}
		})
		if err := errors.Join(s.Close(), w.Close(), x.Close()); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkTick measures the cost of a tick as the source does when it is opened, and the
// program's part of it by the kernel's statistics.
func BenchmarkTick(b *testing.B) {
	var tick, body []float64
	for b.Loop() {
		s := openTestSamples(b, Limits{})
		stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		runs, err := s.programs()[0].Stats()
		if err := errors.Join(err, stats.Close(), s.Detach()); err != nil {
			b.Fatal(err)
		}
		tick = append(tick, s.calibratedCost()*1e9)
		body = append(body, float64(runs.Runtime)/float64(runs.RunCount))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(tick), "ns-tick")
	b.ReportMetric(median(body), "ns-body")
}
