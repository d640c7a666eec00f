package sources

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// switching returns the sources that switch on and off automatically.
func switching() []*probe.Source {
	return slices.DeleteFunc(slices.Clone(All), func(s *probe.Source) bool { return s.Waits == nil })
}

// TestWhatSourcesWaitFor: the sources that a process switches on, by the files that it maps.
func TestWhatSourcesWaitFor(t *testing.T) {
	for _, c := range []struct {
		what  string
		files []string
		want  string // each source with the file that it names
	}{
		{"a plain program", []string{"/usr/bin/redis-server", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/dev/shm/x"}, ""},
		{"the SDK in simulation", []string{"/srv/app", "/opt/intel/sgxsdk/lib64/libsgx_urts_sim.so"}, "runtimes /opt/intel/sgxsdk/lib64/libsgx_urts_sim.so"},
		{"the SDK", []string{"/srv/app", "/usr/lib/libsgx_urts.so.2", "/dev/sgx_enclave"}, "sgx_mappings /dev/sgx_enclave, runtimes /dev/sgx_enclave"},
		{"an unknown runtime", []string{"/srv/app", "/dev/isgx"}, "sgx_mappings /dev/isgx, runtimes /dev/isgx"},
		{"an old DCAP driver", []string{"/srv/app", "/dev/sgx"}, "sgx_mappings /dev/sgx, runtimes /dev/sgx"},
		{"Gramine", []string{"/usr/lib/x86_64-linux-gnu/gramine/sgx/loader", "/dev/sgx_enclave"},
			"sgx_mappings /dev/sgx_enclave, runtimes /dev/sgx_enclave, gramine /usr/lib/x86_64-linux-gnu/gramine/sgx/loader"},
		{"Gramine without SGX", []string{"/usr/lib/x86_64-linux-gnu/gramine/direct/loader"}, ""},
		{"SCONE in simulation", []string{"/opt/scone/lib/ld-scone-x86_64.so.1", "/usr/bin/python3"}, "runtimes /opt/scone/lib/ld-scone-x86_64.so.1"},
		{"SCONE of a cross compiler", []string{"/opt/scone/cross-compiler/x86_64-linux-musl/lib/libc.scone-x86_64.so.1"},
			"runtimes /opt/scone/cross-compiler/x86_64-linux-musl/lib/libc.scone-x86_64.so.1"},
		{"another program called SCONE", []string{"/opt/scone/lib/libsconepy.so", "/opt/scone/bin/scone"}, ""},
		{"EGo", []string{"/opt/ego/bin/ego-host"}, "runtimes /opt/ego/bin/ego-host"},
		{"Edgeless RT", []string{"/opt/edgelessrt/bin/erthost"}, "runtimes /opt/edgelessrt/bin/erthost"},
		{"Occlum", []string{"/opt/occlum/build/lib/libocclum-pal.so.0.30"}, "runtimes /opt/occlum/build/lib/libocclum-pal.so.0.30"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var got []string
			for _, s := range switching() {
				if f := s.Waits.Maps(c.files); f != "" {
					got = append(got, s.Name+" "+f)
				}
			}
			if g := strings.Join(got, ", "); g != c.want {
				t.Errorf("%s: %q, want %q", c.what, g, c.want)
			}
		})
	}
	for _, s := range switching() {
		if s.Waits.For == "" || s.OptIn {
			t.Errorf("%s: waits for %q, opt-in %v", s.Name, s.Waits.For, s.OptIn)
		}
	}
}

// BenchmarkLook measures the cost of waiting on this machine: a look at new processes, of which
// there are none, as every ten seconds, and a look at all processes, as every minute.
func BenchmarkLook(b *testing.B) {
	for name, step := range map[string]time.Duration{"new": time.Millisecond, "all": probe.Everything} {
		b.Run(name, func(b *testing.B) {
			h, now := host.Local(), time.Now()
			h.Now = func() time.Time { return now }
			entries, err := h.Glob("/proc/[0-9]*/maps")
			if err != nil {
				probetest.Skip(b, "processes", fmt.Errorf("list them: %w", err))
			}
			e := probe.Open(h, nil, switching(), nil)
			defer e.Close()
			for range 2 {
				e.FollowProcesses()
				now = now.Add(2 * time.Second)
			}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(step)
				e.FollowProcesses()
			}
			b.ReportMetric(float64(len(entries)), "processes")
		})
	}
}
