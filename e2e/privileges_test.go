package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

const nobody = 65534

// Numbers of capabilities(7).
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

// diagnose runs doctor as nobody with the capabilities and returns its sources.
func diagnose(t *testing.T, caps ...uintptr) map[string]source {
	t.Helper()
	dir, err := os.MkdirTemp("", "doctor") // other users cannot enter the test's own folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "teescope")
	b, err := os.ReadFile(binary)
	if err == nil {
		err = host.Local().Install(bin, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(bin, "doctor", "--json")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Sources []source }
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	byName := map[string]source{}
	for _, s := range d.Sources {
		byName[s.Name] = s
	}
	return byName
}

type source struct {
	Name, State, Reason, Remedy string
	Blind                       bool
	Needs                       []struct{ Capability, For string }
}

var kernelSources = []string{"syscalls", "switches", "faults", "pagecache"}

// TestTwoCapabilities: CAP_BPF and CAP_PERFMON suffice to count in the kernel. Without them the
// advice names them. All other sources say what they lack.
func TestTwoCapabilities(t *testing.T) {
	needRoot(t)
	t.Parallel()
	without := diagnose(t)
	var with map[string]source
	await.Event(t, "two capabilities suffice", func() error { // a source that is late is degraded
		with = diagnose(t, capBPF, capPerfmon)
		for _, name := range append(kernelSources, "self") {
			if s := with[name]; s.State != "available" {
				return fmt.Errorf("%s is %s: %s; %s", name, s.State, s.Reason, s.Remedy)
			}
		}
		return nil
	})
	for _, name := range kernelSources {
		if s := without[name]; s.State != "unavailable" || !strings.Contains(s.Remedy, "CAP_BPF") {
			t.Errorf("without any %s is %s: %s; %s", name, s.State, s.Reason, s.Remedy)
		}
	}
	for name, s := range with {
		if (s.State == "unavailable" || s.State == "degraded") && s.Remedy == "" && !s.Blind {
			t.Errorf("%s is %s (%s) without advice", name, s.State, s.Reason)
		}
	}
}

// effective returns the distinct effective capability sets of all threads of a process.
func effective(t *testing.T, pid int) map[string]bool {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	sets := map[string]bool{}
	eff := regexp.MustCompile(`(?m)^CapEff:\s*(\w+)`)
	for _, f := range tasks {
		if b, err := os.ReadFile(f); err == nil { // a thread may have ended
			sets[string(eff.FindSubmatch(b)[1])] = true
		}
	}
	return sets
}

// TestPrivilegesAreDropped in all threads. Counting continues, and loaded programs can still be
// detached and attached.
func TestPrivilegesAreDropped(t *testing.T) {
	t.Parallel()
	needRoot(t)
	up := func(m *monitor) []string {
		body, err := fetch(m.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile(`(?m)^teescope_source_up.*$`).FindAllString(body, -1)
		if len(lines) == 0 {
			t.Fatalf("no source says whether it delivers:\n%s", body)
		}
		return lines
	}
	for mode, want := range map[string][]string{"least": {"cap_bpf", "cap_perfmon"}, "none": {"no capabilities"}} {
		t.Run(mode, func(t *testing.T) {
			// Another test runs a program that switches the source runtimes on, which keeps one more capability.
			config := filepath.Join(t.TempDir(), "teescope.yml")
			if err := os.WriteFile(config, []byte("sources: {runtimes: {on: false}}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			// Both at once, since other tests change the machine.
			everything := startMonitor(t, "agent", "--privileges", "keep", "--config", config)
			m := startMonitor(t, "agent", "--privileges", mode, "--config", config)
			line, _, _ := strings.Cut(m.Out.String(), "\n")
			for _, w := range want {
				if !strings.HasPrefix(line, "privileges: ") || !strings.Contains(line, w) {
					t.Errorf("it says %q, without %s", line, w)
				}
			}
			sets := effective(t, m.Process.Pid)
			for set := range sets {
				var mask uint64
				if _, err := fmt.Sscanf(set, "%x", &mask); err != nil {
					t.Fatal(err)
				}
				if mask>>capSysAdmin&1 == 1 || mode == "none" && mask != 0 || mode == "least" && mask>>capBPF&1 == 0 {
					t.Errorf("a thread has the capabilities %s", set)
				}
			}
			// Other tests load the machine too, so a source may be late in one round.
			await.Event(t, "the same sources deliver as with all capabilities", func() error {
				got, want := up(m), up(everything)
				if slices.Equal(got, want) {
					return nil
				}
				without := func(a, b []string) []string {
					return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
				}
				list, err := fetch(m.url + "/api/teescope/v1/sources")
				return fmt.Errorf("%q, with all capabilities %q: %v %s", without(got, want), without(want, got), err, list)
			})
			set := func(source, body string) (int, string) {
				code, answer, err := m.status("POST", "/api/teescope/v1/sources/"+source, body)
				if err != nil {
					t.Fatal(err)
				}
				return code, answer
			}
			// It counts a tenth of the time, so it detaches and attaches without a capability.
			if code, body := set("syscalls", `{"sample":0.1}`); code != http.StatusOK {
				t.Fatalf("sampling: %d %s", code, body)
			}
			coverage := regexp.MustCompile(`teescope_source_coverage_ratio\{source="syscalls"\} (\S+)`)
			calls := regexp.MustCompile(`(?m)^tee_syscalls_total\{process="` + regexp.QuoteMeta(filepath.Base(binary)) + `",syscall="futex"\} (\S+)`)
			var first string
			await.Event(t, "a part is counted, and goes on", func() error {
				body, err := fetch(m.url + "/metrics")
				if err != nil {
					return err
				}
				c, n := coverage.FindStringSubmatch(body), calls.FindStringSubmatch(body)
				if c == nil || n == nil || c[1] == "1" || c[1] == "0" {
					return fmt.Errorf("coverage %v, calls %v", c, n)
				}
				if first == "" {
					first = n[1]
				}
				if n[1] == first {
					return fmt.Errorf("it stands at %s calls", first)
				}
				return nil
			})
			if mode == "none" {
				if code, body := set("syscalls", `{"on":false}`); code != http.StatusOK {
					t.Fatalf("switch off: %d %s", code, body)
				}
				_, body := set("syscalls", `{"on":true}`)
				list, err := fetch(m.url + "/api/teescope/v1/sources")
				if err != nil || !strings.Contains(list, "CAP_BPF") {
					t.Errorf("opened without a capability: %s\n%s", body, list)
				}
			}
		})
	}
}
