package worker

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestIperf measures a slow link, plain and through a tunnel, with the worker started as
// the harness would start it.
func TestIperf(t *testing.T) {
	for tool, from := range map[string]string{"iperf3": "iperf3", "ip": "iproute2", "unshare": "util-linux", "go": "Go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here; package %s has it", tool, from)
		}
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("namespaces cannot be made here: %v: %s", err, out)
	}
	worker := filepath.Join(t.TempDir(), "teescope-work")
	if out, err := exec.Command("go", "build", "-o", worker, "../../cmd/teescope-work").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	links := func() string {
		b, err := os.ReadFile("/proc/net/dev")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct {
		name string
		args []string
		ends int // number of watched processes
	}{
		{"plain", []string{"--rate", "100000000"}, 2},
		{"no offload, UDP", []string{"--udp", "--rate", "10000000", "--offload=false"}, 2},
		{"wireguard", []string{"--wireguard", "--streams", "2", "--rate", "20000000"}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // each in its own namespace
			if _, err := os.Stat("/dev/net/tun"); err != nil && tc.ends == 4 {
				t.Skip("a tunnel needs /dev/net/tun")
			}
			var out, errs bytes.Buffer
			c := exec.Command("unshare", append([]string{"--user", "--map-root-user", worker, "iperf", "--omit", "0s", "--measure", "10s"}, tc.args...)...)
			c.Env = append(os.Environ(), "TEESCOPE_PATIENCE=10")
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Run(); err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			var r linkReport
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			if len(r.Processes) != tc.ends || (r.Tunnel != nil) != (tc.ends == 4) {
				t.Errorf("watched %v, tunnel %v", r.Processes, r.Tunnel)
			}
			for name, cores := range r.Processes {
				if !(cores > 0) {
					t.Errorf("%s used %v of the CPU", name, cores)
				}
			}
			if strings.Contains(links(), "veth:") || strings.Contains(links(), "wg:") {
				t.Errorf("a device was left behind, or made in this machine's own namespace:\n%s", links())
			}
		})
	}
}

// TestIperfRefuses: impossible settings are refused before anything is made.
// TestBareNumbers: what is no number in iperf3's document is unknown there; the rest, and any text, stays.
func TestBareNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`{"lost_percent":	-nan,"a":[nan, -inf],"n": inf}`: `{"lost_percent":	null,"a":[null, null],"n": null}`,
		`{"host":"nan","title":"x: nano"}`:                `{"host":"nan","title":"x: nano"}`,
		`{"x":1.5e-7}`:                                    `{"x":1.5e-7}`,
	} {
		t.Run(in, func(t *testing.T) {
			if got := string(bare.ReplaceAll([]byte(in), []byte("${1}null"))); got != want {
				t.Errorf("%s becomes %s, want %s", in, got, want)
			}
		})
	}
}

func TestIperfRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--streams", "0"}, {"--mtu", "100"}, {"--measure", "1500ms"}, {"--rate", "-1"}, {"--measure", "0s"},
	} {
		out, errs, code := command(t.Context(), append([]string{"iperf"}, args...)...)
		if code != exitFailed || out != "" || !strings.Contains(errs, "want") {
			t.Errorf("%q: status %d, %q, %q", args, code, out, errs)
		}
	}
}
