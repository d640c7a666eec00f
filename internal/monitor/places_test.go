package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/rivals"
)

// TestReadPlaces: processes of one name are one, a process that may use all CPUs has no list, and what cannot be read is left out.
func TestReadPlaces(t *testing.T) {
	h := host.At(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(h.Path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := h.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := readPlaces(h); got != nil {
		t.Errorf("without a list of CPUs: %v, want nil", got)
	}
	write("/sys/devices/system/cpu/online", "0-3\n")
	for i, p := range []struct{ name, cpus string }{
		{"free", "0-3"}, {"wide", "0-7"}, {"bound", "1"}, {"twice", "0"}, {"twice", "2"}, {"halves", "0-1"}, {"halves", "2-3"}, {"mixed", "1"}, {"mixed", "0-3"}, {`a\nb`, "3"}, {"broken", "x"}, {"exe", "0-3"}, {"exe", "0-3"}, {"exe", "0-3"},
	} {
		write(fmt.Sprintf("/proc/%d/status", 100+i), fmt.Sprintf("Name:\t%s\nVmSize:\t  10 kB\nCpus_allowed_list:\t%s\n", p.name, p.cpus))
	}
	write("/proc/103/cgroup", "0::/system.slice/redis@6379.service\n")
	write("/proc/104/cgroup", "0::/system.slice/redis@6380.service/sub\n")
	for pid, program := range map[int]string{111: "redis-server", 112: "/srv/memcached"} { // of the third nothing can be read
		write(fmt.Sprintf("/proc/%d/cmdline", pid), "/usr/lib/gramine/direct/loader\x00/usr/lib/gramine/direct/libpal.so\x00init\x00"+program+"\x00")
		write(fmt.Sprintf("/proc/%d/cgroup", pid), "0::/system.slice/a.service\n")
	}
	write("/proc/113/cgroup", "0::/\n")
	write("/proc/5/status", "Name:\tkworker/2:1\nCpus_allowed_list:\t2\n")
	write("/proc/6/status", "")
	want := map[string]rivals.Place{"free": {}, "wide": {}, "bound": {CPUs: []int{1}}, "twice": {CPUs: []int{0, 2}, Homes: []string{"redis@6379.service", "redis@6380.service"}}, "halves": {}, "mixed": {}, "a\nb": {CPUs: []int{3}}, "kworker": {CPUs: []int{2}},
		"exe": {Homes: []string{"a.service/Gramine (memcached)", "a.service/Gramine (redis-server)"}}}
	if got := readPlaces(h); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// FuzzParseStatus: no text makes the parser panic, or gives a CPU that cannot be.
func FuzzParseStatus(f *testing.F) {
	f.Add("Name:\tredis\nVmSize:\t1 kB\nCpus_allowed_list:\t0-3,5\n")
	f.Add("Cpus_allowed_list:\t9-1")
	f.Fuzz(func(t *testing.T, text string) {
		_, cpus, err := parseStatus(text)
		for _, c := range cpus {
			if err == nil && (c < 0 || c >= 8192) {
				t.Errorf("CPU %d of %q", c, text)
			}
		}
	})
}
