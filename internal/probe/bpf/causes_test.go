package bpf

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// caused is what workloads/causes prints.
type caused struct {
	ActiveSeconds float64 `json:"active_seconds"`
	Shares        map[string]float64
	Events        map[string]float64
}

// Walks are from half to one and a half of their mean time apart: walkSpread is the
// mean of the squares over the square of the mean. rivals are the most threads of
// workloads/causes that wait for its mutex at a time.
const walkSpread, rivals = 13. / 12, 3

// buildCauses builds the program.
func buildCauses(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "causes")
	if text, err := exec.Command("cc", "-O2", "-pthread", "-o", path, "../../../workloads/causes/causes.c", "-lssl", "-lcrypto").CombinedOutput(); err != nil {
		t.Skipf("build causes (it needs libssl-dev): %v: %s", err, text)
	}
	return path
}

// causes runs the program; before is called when it is ready to begin, and after
// when it is through and still lives.
func causes(t *testing.T, path string, before, after func(), args ...string) (out caused) {
	t.Helper()
	cmd := exec.Command(path, append([]string{"--wait"}, args...)...)
	cmd.Stderr = os.Stderr
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
	x, err := OpenExecutable(host.Local(), files[0], 0)
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

// What is sampled agrees with the program's own clocks, within what so many
// samples can tell.
func TestCauses(t *testing.T) {
	path := buildCauses(t)
	s, w := openTestSamples(t, Limits{}), openTestWaits(t)
	h, err := OpenHandshakes(host.Local())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()

	// What of a system call and of a fault counts for user space: the way into the
	// kernel and out of it.
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

	const name = "ev-causes"
	var got map[doing]float64
	var handshakes float64
	var locks []float64 // seconds of waiting for locks in each half second
	var walksBefore, walks Walked
	stop, stopped := make(chan struct{}), make(chan struct{})
	truth := causes(t, path, func() {
		hookOpenSSL(t, h)
		walksBefore = w.Walked()
		go func() {
			defer close(stopped)
			was := 0.0
			for more := true; more; {
				select {
				case <-stop:
					more = false
				case <-time.After(500 * time.Millisecond):
				}
				is := 0.0
				_, _ = w.Waited(func(k Wait, seconds float64) {
					if k.Process == name && k.State == "lock" {
						is += seconds
					}
				})
				locks = append(locks, is-was)
				was = is
			}
		}()
	}, func() {
		close(stop)
		<-stopped
		walks = w.Walked()
		got = sampled(s, name)
		h.Handshaken(func(process string, n uint64) {
			if process == name {
				handshakes += float64(n)
			}
		})
	}, "--name", name, "--seconds", "5", "--shares", "storm=0.2,memory=0.2,handshake=0.2,lock=0.2")
	t.Logf("%+v", truth)
	t.Logf("%v", got)

	period := SamplePeriod.Seconds()
	check := func(cause string, want, seconds, deviation float64) {
		t.Helper()
		share, z := seconds/truth.ActiveSeconds, 4*deviation/truth.ActiveSeconds
		t.Logf("%s: %.3f, sampled %.3f ± %.3f", cause, want, share, z)
		if math.Abs(share-want) > z {
			t.Errorf("%s is %.3f of the time, sampled %.3f ± %.3f", cause, want, share, z)
		}
	}
	// of adds up samples and what goes with them that was not seen.
	of := func(n, unseen, unseenDeviation float64) (seconds, deviation float64) {
		return n*period + unseen, math.Hypot(math.Sqrt(n+1)*period, unseenDeviation)
	}
	storms, pages := truth.Events["storm"], truth.Events["memory"]
	seconds, deviation := of(got[doing{InKernel, "getppid"}], storms*call, storms*callDeviation)
	check("storm", truth.Shares["storm"], seconds, deviation)
	seconds, deviation = of(got[doing{InFault, ""}]+got[doing{InKernel, "madvise"}], pages*fault, pages*faultDeviation)
	check("memory", truth.Shares["memory"], seconds, deviation)
	seconds, deviation = of(got[doing{InUser, Handshake}]+got[doing{InKernel, Handshake}], 0, 0)
	check("handshake", truth.Shares["handshake_inside"], seconds, deviation)
	seconds, deviation = batches(locks)
	// Few walks may all have missed the locks, and then vary little.
	n, wall := walks.Walks-walksBefore.Walks, walks.Seconds-walksBefore.Seconds
	waiting := truth.Shares["lock"] * truth.ActiveSeconds / wall
	deviation = max(deviation, wall*math.Sqrt(walkSpread*waiting*(rivals-waiting)/float64(n)))
	check("lock", truth.Shares["lock"], seconds, deviation)

	missed, err := h.Missed()
	if err := errors.Join(err, h.Lost); err != nil {
		t.Fatal(err)
	}
	if want := truth.Events["handshake"]; handshakes > want || handshakes+float64(missed) < want {
		t.Errorf("%g handshakes, want %g", handshakes, want)
	}
}

// While handshakes are seen for a part of the time only, what they take is estimated.
func TestHandshakesInWindows(t *testing.T) {
	path := buildCauses(t)
	s := openTestSamples(t, Limits{})
	h, err := OpenHandshakes(host.Local())
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
	}, "--name", name, "--seconds", "3", "--shares", "handshake=0.5")
	// The kernel's part of those that were not seen is under the names of its calls.
	n := got[doing{InUser, Handshake}] + got[doing{InKernel, Handshake}] + got[doing{InKernel, "read"}] + got[doing{InKernel, "write"}]
	z := 4 * math.Sqrt(n/open+1) * SamplePeriod.Seconds() / truth.ActiveSeconds
	share, want := n*SamplePeriod.Seconds()/truth.ActiveSeconds, truth.Shares["handshake_inside"]
	t.Logf("%+v, %v: sampled %.3f ± %.3f", truth, got, share, z)
	if math.Abs(share-want) > z {
		t.Errorf("handshakes take %.3f of the time, sampled %.3f ± %.3f", want, share, z)
	}
}

// batches is the sum of v and its standard deviation, from how v varies.
func batches(v []float64) (sum, deviation float64) {
	var squares float64
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return sum, math.Sqrt(squares * float64(len(v)) / float64(len(v)-1))
}
