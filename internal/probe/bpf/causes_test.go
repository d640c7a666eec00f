package bpf

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/probe/probetest"
)

// caused is the output of workloads/causes.
type caused struct {
	ActiveSeconds float64 `json:"active_seconds"`
	QueuedSeconds float64 `json:"queued_seconds"`
	Shares        map[string]float64
	Events        map[string]float64
}

// rivals is the maximum number of threads of workloads/causes that wait for its mutex at a time.
const rivals = 3

// buildCauses builds the program.
func buildCauses(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "causes")
	if text, err := exec.Command("cc", "-O2", "-pthread", "-o", path, "../../../workloads/causes/causes.c", "-lssl", "-lcrypto").CombinedOutput(); err != nil {
		probetest.Skip(t, "OpenSSL", fmt.Errorf("build causes: %w: %s", err, text))
	}
	return path
}

// causes runs the program. before is called when it is ready to begin, after when it has
// finished but is still alive.
func causes(t *testing.T, path string, before, after func(), args ...string) (out caused) {
	t.Helper()
	cmd := exec.Command(path, append([]string{"--wait"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Its own session has priority, so the rest of the machine does not shape what it measures
	// (sched(7), autogroups; without them this has no effect).
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", cmd.Process.Pid), []byte("-19"), 0o644)
	lines := bufio.NewScanner(stdout)
	next := func() []byte {
		if !lines.Scan() {
			t.Fatalf("%v ended early: %v", cmd.Args, cmd.Wait())
		}
		return lines.Bytes()
	}
	next()
	before()
	fmt.Fprintln(in)
	if err := json.Unmarshal(next(), &out); err != nil {
		t.Fatal(err)
	}
	next()
	after()
	fmt.Fprintln(in)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return out
}

// hookOpenSSL hooks the system's libssl.
func hookOpenSSL(t *testing.T, s *Handshakes) {
	t.Helper()
	files, err := filepath.Glob("/usr/lib/*/libssl.so.3")
	if err != nil || len(files) == 0 {
		t.Fatalf("find libssl.so.3: %v", err)
	}
	x, err := OpenExecutable(local, files[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	functions, _, err := x.Functions()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Hook(x, functions[HandshakeFunction]); err != nil {
		t.Fatal(err)
	}
}

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
	unseen := func(name string, n float64, args ...string) (seconds, deviation float64) {
		d := events(t, func() {}, func() {}, append([]string{"--comm", name}, args...)...)
		m := sampled(s, name)
		all := total(m)
		p := m[doing{InUser, ""}] / all
		each := d.CPUSeconds / n
		t.Logf("%s takes %.0f ns, of which %.0f ns (± %.0f) are sampled in user space", args[0], each*1e9, p*each*1e9, math.Sqrt(p*(1-p)/all)*each*1e9)
		return p * each, math.Sqrt(p*(1-p)/all) * each
	}
	call, callDeviation := unseen("ev-unseen-call", 8e6, "getppid", "8000000")
	fault, faultDeviation := unseen("ev-unseen-page", 300e3, "faults", "write", "300000")

	// A run that got little CPU time is repeated.
	const seconds, attempts = 12, 3
	var name string
	var truth caused
	var waiting *lockWaits
	var missedBefore uint64
	for n := 1; ; n++ {
		name = fmt.Sprintf("ev-causes-%d", n)
		truth = causes(t, path, func() {
			waiting = watchLocks(t, w, name)
			if missedBefore, err = h.Missed(); err != nil {
				t.Fatal(err)
			}
		}, func() { waiting.end(t) }, "--name", name, "--seconds", fmt.Sprint(seconds), "--seed", "13", "--shares", "storm=0.2,memory=0.2,handshake=0.2,lock=0.2")
		t.Logf("%+v", truth)
		if truth.ActiveSeconds >= seconds/3. && truth.QueuedSeconds <= 0.45*(truth.QueuedSeconds+truth.ActiveSeconds) {
			break
		}
		if n == attempts {
			t.Fatalf("the program had too little CPU time in each of %d attempts: run the test on a machine that has nothing else to do", attempts)
		}
	}
	got := sampled(s, name)
	t.Logf("%v", got)

	period := clockOf(s).period.Seconds()
	check := func(cause string, want, seconds, deviation float64) {
		t.Helper()
		share, z := seconds/truth.ActiveSeconds, 4*deviation/truth.ActiveSeconds
		t.Logf("%s: %.3f, sampled %.3f ± %.3f, %+.1f points off", cause, want, share, z, (share-want)*100)
		if math.Abs(share-want) > min(z, 0.05) {
			t.Errorf("%s is %.3f of the time, sampled %.3f ± %.3f", cause, want, share, z)
		}
	}
	// of is the sum of samples, with the part that the clock cannot see.
	of := func(n, unseen, unseenDeviation float64) (seconds, deviation float64) {
		return n*period + unseen, math.Hypot(math.Sqrt(n+1)*period, unseenDeviation)
	}
	storms, pages := truth.Events["storm"], truth.Events["memory"]
	spent, deviation := of(got[doing{InKernel, "getppid"}], storms*call, storms*callDeviation)
	check("storm", truth.Shares["storm"], spent, deviation)
	spent, deviation = of(got[doing{InFault, ""}]+got[doing{InKernel, "madvise"}], pages*fault, pages*faultDeviation)
	check("memory", truth.Shares["memory"], spent, deviation)
	spent, deviation = of(got[doing{InUser, Handshake}]+got[doing{InKernel, Handshake}], 0, 0)
	check("handshake", truth.Shares["handshake_inside"], spent, deviation)
	// The variance of a walk is that of a mean share of so many rivals.
	n, mean := float64(waiting.walks), float64(waiting.found)/float64(waiting.walks)
	t.Logf("%.0f walks in %.1f s", n, waiting.seconds)
	check("lock", truth.Shares["lock"], mean*waiting.seconds, waiting.seconds*math.Sqrt(mean*(rivals-mean)/n))

	var handshakes uint64
	h.Handshaken(func(process string, n uint64) {
		if process == name {
			handshakes += n
		}
	})
	missed, err := h.Missed()
	if err := errors.Join(err, h.Lost); err != nil {
		t.Fatal(err)
	}
	if want := uint64(truth.Events["handshake"]); handshakes > want || handshakes+missed-missedBefore < want {
		t.Errorf("%d handshakes, %d missed, want %d", handshakes, missed-missedBefore, want)
	}
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
		one, buf := map[wait]uint64{}, make([]byte, 1<<16)
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
			if _, err := w.walk(one, buf); err != nil {
				return err
			}
			l.walks++
			for k, n := range one {
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

// TestHandshakesInWindows estimates the time in handshakes while they are observed only part of
// the time.
func TestHandshakesInWindows(t *testing.T) {
	path := buildCauses(t)
	s := openTestSamples(t, Limits{Period: time.Second / 997})
	h, err := OpenHandshakes(local)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const name, open = "ev-windows", 0.6
	stop, stopped := make(chan struct{}), make(chan error)
	var got map[doing]float64
	truth := causes(t, path, func() {
		hookOpenSSL(t, h)
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
	}, "--name", name, "--seconds", "6", "--seed", "13", "--shares", "handshake=0.5")
	// The kernel's part of unobserved handshakes is under the names of their calls.
	n := got[doing{InUser, Handshake}] + got[doing{InKernel, Handshake}] + got[doing{InKernel, "read"}] + got[doing{InKernel, "write"}]
	period := clockOf(s).period.Seconds()
	z := 4 * math.Sqrt(n/open+1) * period / truth.ActiveSeconds
	share, want := n*period/truth.ActiveSeconds, truth.Shares["handshake_inside"]
	t.Logf("%+v, %v: sampled %.3f ± %.3f", truth, got, share, z)
	if math.Abs(share-want) > min(z, 0.05) {
		t.Errorf("handshakes take %.3f of the time, sampled %.3f ± %.3f", want, share, z)
	}
}
