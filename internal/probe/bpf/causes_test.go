package bpf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// caused is the output of workloads/causes.
type caused struct {
	ActiveSeconds float64 `json:"active_seconds"`
	QueuedSeconds float64 `json:"queued_seconds"`
	Shares        map[string]float64
	Events        map[string]float64
}

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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := await.Converse(t, cmd)
	// Its own session has priority, so the rest of the machine does not shape what it measures
	// (sched(7), autogroups; without them this has no effect).
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", cmd.Process.Pid), []byte("-19"), 0o644)
	p.Line(t)
	before()
	fmt.Fprintln(p.In)
	if err := json.Unmarshal([]byte(p.Line(t)), &out); err != nil {
		t.Fatal(err)
	}
	p.Line(t)
	after()
	fmt.Fprintln(p.In)
	if code := p.ExitStatus(t); code != 0 {
		t.Fatal(p.Last())
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
	functions, _, err := x.Functions([]string{HandshakeFunction})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Hook(x, functions[HandshakeFunction]); err != nil {
		t.Fatal(err)
	}
}

// handshakesOf returns the counted handshakes of a process.
func handshakesOf(h *Handshakes, name string) (sum uint64) {
	h.Handshaken(func(process string, n uint64) {
		if process == name {
			sum += n
		}
	})
	return sum
}

// Every handshake counts, the client's and the server's, but for those that the kernel says it missed, and none while
// the hook is detached.
func TestHandshakesInWindows(t *testing.T) {
	path := buildCauses(t)
	h, err := OpenHandshakes(local)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	hookOpenSSL(t, h)
	name := probetest.Name("s") // short, because the server has a longer one
	for _, on := range []bool{true, false, true} {
		if err := map[bool]func() error{true: h.Attach, false: h.Detach}[on](); err != nil {
			t.Fatal(err)
		}
		await.Event(t, "the program makes a handshake", func() error {
			var was, is [2]uint64
			var missedBefore, missed uint64
			read := func(counts *[2]uint64, missed *uint64) func() {
				return func() {
					counts[0], counts[1] = handshakesOf(h, name), handshakesOf(h, name+"-server")
					if *missed, err = h.Missed(); err != nil {
						t.Fatal(err)
					}
				}
			}
			truth := causes(t, path, read(&was, &missedBefore), read(&is, &missed), "--name", name, "--seconds", "0.5", "--seed", "13", "--shares", "handshake=0.9")
			want := uint64(truth.Events["handshake"])
			if want == 0 {
				return errors.New("it made none")
			}
			if !on {
				want = 0
			}
			for i, who := range []string{name, name + "-server"} {
				if n := is[i] - was[i]; !within(n, want, missed-missedBefore) {
					t.Errorf("%s: counted %d handshakes, missed %d of all processes, want %d", who, n, missed-missedBefore, want)
				}
			}
			return nil
		})
	}
	if h.Lost != nil {
		t.Error(h.Lost)
	}
}
