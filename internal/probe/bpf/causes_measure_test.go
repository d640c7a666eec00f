//go:build measure

package bpf

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/measured"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// runs is how often a program runs for a measurement.
const runs = 7

// TestCauses compares samples with the program's own clocks. Samples and walks are more frequent
// than usual, so every share is known to 5 points within seconds.
func TestCauses(t *testing.T) {
	path := buildCauses(t)
	s := openTestSamples(t, Limits{Period: time.Second / 997})
	w := openTestWaits(t)
	h, err := OpenHandshakes(local)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	hookOpenSSL(t, h)

	// unseen is the part of a system call or a fault that is sampled in user space: entering and
	// leaving the kernel.
	unseen := func(n float64, args ...string) float64 {
		name := probetest.Name("unseen")
		d := events(t, func() {}, func() {}, append([]string{"--comm", name}, args...)...)
		m := sampled(s, name)
		all := total(m)
		p := m[doing{InUser, ""}] / all
		each := d.CPUSeconds / n
		t.Logf("%s takes %.0f ns, of which %.0f ns (± %.0f) are sampled in user space", args[0], each*1e9, p*each*1e9, math.Sqrt(p*(1-p)/all)*each*1e9)
		return p * each
	}
	call, fault := unseen(8e6, "getppid", "8000000"), unseen(300e3, "faults", "write", "300000")

	// The share of each cause, by how much its samples are wrong in each run.
	wrong := map[string][]float64{}
	for seed := range runs {
		causesOnce(t, path, s, w, h, seed, call, fault, wrong)
	}
	for _, cause := range []string{"storm", "memory", "handshake", "lock"} {
		measured.AtMost(t, "samples tell the share of "+cause+" in a program's time within 5 points", "ratio", 0.05, wrong[cause])
	}
}

// causesOnce runs the program once.
func causesOnce(t *testing.T, path string, s *Samples, w *Waits, h *Handshakes, seed int, call, fault float64, wrong map[string][]float64) {
	t.Helper()
	const seconds = 8
	name := probetest.Name("cause")
	var waiting *lockWaits
	truth := causes(t, path, func() { waiting = watchLocks(t, w, name) }, func() { waiting.end(t) }, "--name", name, "--seconds", fmt.Sprint(seconds),
		"--seed", fmt.Sprint(seed+1), "--shares", "storm=0.2,memory=0.2,handshake=0.2,lock=0.2")
	t.Logf("%+v", truth)
	got := sampled(s, name)
	t.Logf("%v", got)

	period := clockOf(s).period.Seconds()
	check := func(cause string, want, seconds float64) {
		t.Helper()
		share := seconds / truth.ActiveSeconds
		t.Logf("%s: %.3f, sampled %.3f, %+.1f points off", cause, want, share, (share-want)*100)
		wrong[cause] = append(wrong[cause], math.Abs(share-want))
	}
	// With the part of calls and faults that the clock cannot see.
	check("storm", truth.Shares["storm"], got[doing{InKernel, "getppid"}]*period+truth.Events["storm"]*call)
	check("memory", truth.Shares["memory"], (got[doing{InFault, ""}]+got[doing{InKernel, "madvise"}])*period+truth.Events["memory"]*fault)
	check("handshake", truth.Shares["handshake_inside"], (got[doing{InUser, Handshake}]+got[doing{InKernel, Handshake}])*period)
	t.Logf("%d walks in %.1f s", waiting.walks, waiting.seconds)
	check("lock", truth.Shares["lock"], float64(waiting.found)/float64(waiting.walks)*waiting.seconds)
}

// lockWaits counts the threads of a process that wait for a lock, in many walks.
type lockWaits struct {
	walks, found uint64
	seconds      float64
	stop         chan struct{}
	done         chan error
}

// watchLocks walks about every 2 ms, at times independent of the program: threads often begin to
// wait at the moment when a CPU becomes free.
func watchLocks(t *testing.T, w *Waits, name string) *lockWaits {
	t.Helper()
	l := &lockWaits{stop: make(chan struct{}), done: make(chan error, 1)}
	walk := func() error {
		runtime.LockOSThread() // the thread ends with the goroutine, so nothing else runs at its priority
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0); err != nil {
			return fmt.Errorf("go before other threads: %w", err)
		}
		one, buf := newCensus(), make([]byte, 1<<16)
		for began := time.Now(); ; {
			select {
			case <-l.stop:
				l.seconds = time.Since(began).Seconds()
				return nil
			default:
			}
			nap := unix.NsecToTimespec(int64(time.Millisecond + rand.N(2*time.Millisecond)))
			if err := unix.Nanosleep(&nap, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
			if err := w.walk(one, buf); err != nil {
				return err
			}
			l.walks++
			for k, n := range one.waits {
				if label(k.process[:], 0) == name && waitStates[k.state] == "lock" {
					l.found += n
				}
			}
		}
	}
	go func() { l.done <- walk() }()
	return l
}

func (l *lockWaits) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	if err := <-l.done; err != nil {
		t.Fatal(err)
	}
}

// TestSharesInWindows estimates the time in handshakes while they are observed only part of
// the time.
func TestSharesInWindows(t *testing.T) {
	path := buildCauses(t)
	s := openTestSamples(t, Limits{Period: time.Second / 997})
	h, err := OpenHandshakes(local)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	hookOpenSSL(t, h)
	var wrong []float64
	for seed := range runs {
		name := probetest.Name("window")
		stop, stopped := make(chan struct{}), make(chan error)
		var got map[doing]float64
		truth := causes(t, path, func() {
			go func() {
				var err error
				for err == nil {
					err = h.Detach()
					time.Sleep(160 * time.Millisecond)
					err = errors.Join(err, h.Attach())
					time.Sleep(240 * time.Millisecond)
					select {
					case <-stop:
						stopped <- err
						return
					default:
					}
				}
				stopped <- err
			}()
		}, func() {
			close(stop)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			got = sampled(s, name)
		}, "--name", name, "--seconds", "6", "--seed", fmt.Sprint(seed+1), "--shares", "handshake=0.5")
		// The kernel's part of unobserved handshakes is under the names of their calls.
		n := got[doing{InUser, Handshake}] + got[doing{InKernel, Handshake}] + got[doing{InKernel, "read"}] + got[doing{InKernel, "write"}]
		share, want := n*clockOf(s).period.Seconds()/truth.ActiveSeconds, truth.Shares["handshake_inside"]
		t.Logf("%+v, %v: %.3f, sampled %.3f", truth, got, want, share)
		wrong = append(wrong, math.Abs(share-want))
	}
	measured.AtMost(t, "samples tell the share of handshakes that are observed 60 % of the time within 5 points", "ratio", 0.05, wrong)
}
