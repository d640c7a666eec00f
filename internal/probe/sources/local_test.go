package sources

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// The tests of this file run on the real kernel and compare a source's numbers with the same
// numbers obtained in another way.

// values reads a source on this machine: series "name{label values}" to value.
func values(t *testing.T, s *probe.Source) map[string]float64 {
	t.Helper()
	r, err := s.Open(host.Local(), nil)
	if err != nil {
		probetest.Skip(t, s.Name, fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
	}
	defer r.Close()
	out := map[string]float64{}
	err = r.Read(t.Context(), func(x metric.Sample) {
		out[fmt.Sprintf("%s%q", x.Desc.Name, x.Labels)] = x.Value
	})
	if err != nil {
		t.Logf("source %s: %v", s.Name, err)
	}
	return out
}

func number(t *testing.T, path string, field int) float64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(b))
	v, err := strconv.ParseFloat(words[field], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// between checks that a value lies between two readings of the same thing.
func between(t *testing.T, name string, lo, v, hi float64) {
	t.Helper()
	if v < lo || v > hi {
		t.Errorf("%s is %v, want it in [%v, %v]", name, v, lo, hi)
	}
}

func TestLocalNetwork(t *testing.T) {
	devices, err := filepath.Glob("/sys/class/net/*/statistics")
	if err != nil || len(devices) == 0 {
		t.Fatal("no network device in sysfs")
	}
	fields := map[string]string{"rx_bytes": "receive_bytes", "tx_packets": "transmit_packets", "rx_dropped": "receive_drop"}
	checked := 0
	for _, d := range devices {
		name := filepath.Base(filepath.Dir(d))
		// look reads the files, and tells a device from one that took its place: other programs make and remove them.
		look := func() (at map[string]float64, index string) {
			at = map[string]float64{}
			number, err := os.ReadFile(filepath.Join(d, "../ifindex"))
			for file := range fields {
				var text []byte
				if err == nil {
					text, err = os.ReadFile(filepath.Join(d, file))
				}
				if err == nil {
					at[file], err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
				}
			}
			if err != nil {
				return nil, ""
			}
			return at, string(number)
		}
		before, index := look()
		got := values(t, &network)
		after, same := look()
		if index == "" || same != index {
			continue
		}
		checked++
		for file, m := range fields {
			v, ok := got[fmt.Sprintf("node_network_%s_total[%q]", m, name)]
			if !ok {
				t.Errorf("%s of %s is missing", m, name)
			}
			between(t, name+" "+m, before[file], v, after[file])
		}
	}
	if checked == 0 {
		t.Errorf("of %v none stayed", devices)
	}
}

func TestLocalDisk(t *testing.T) {
	stats, err := filepath.Glob("/sys/block/*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatal("no disk in sysfs")
	}
	checked := 0
	for _, path := range stats {
		name := filepath.Base(filepath.Dir(path))
		major, _ := os.ReadFile(filepath.Join("/sys/block", name, "dev"))
		_, memory := os.Stat(filepath.Join("/sys/block", name, "mm_stat")) // of zram
		if regexp.MustCompile(`^[127]:`).Match(major) || memory == nil {
			continue
		}
		before := number(t, path, 6)
		got, ok := values(t, &disk)[fmt.Sprintf("node_disk_written_bytes_total[%q]", name)]
		if !ok {
			t.Errorf("%s is missing", name)
		}
		between(t, name, before*512, got, number(t, path, 6)*512)
		checked++
	}
	if checked == 0 {
		t.Skip("only memory disks")
	}
}

func TestLocalMemoryAndSystem(t *testing.T) {
	sysinfo := func() (info unix.Sysinfo_t) {
		if err := unix.Sysinfo(&info); err != nil {
			t.Fatal(err)
		}
		return info
	}
	info := sysinfo()
	mem := values(t, &memory)
	if got := mem["node_memory_MemTotal_bytes[]"]; got != float64(info.Totalram)*float64(info.Unit) {
		t.Errorf("MemTotal %v, sysinfo says %d", got, info.Totalram)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	before := sysinfo()
	sys := values(t, &system)
	after := sysinfo()
	found := false
	for series := range sys {
		found = found || strings.HasPrefix(series, "node_uname_info") && strings.Contains(series, unix.ByteSliceToString(name.Release[:]))
	}
	if !found {
		t.Errorf("no node_uname_info with release %s", unix.ByteSliceToString(name.Release[:]))
	}
	boot := sys["node_time_seconds[]"] - sys["node_boot_time_seconds[]"]
	// The uptime is in seconds, rounded up; the time of boot is in seconds too.
	between(t, "time since boot", float64(before.Uptime)-2, boot, float64(after.Uptime)+2)
	for _, c := range []struct {
		metric string
		field  int
	}{{"node_load1[]", 0}, {"node_load15[]", 2}} {
		between(t, c.metric, 0, sys[c.metric], 10000)
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		t.Fatal(err)
	}
	size := 0.0
	for series, v := range values(t, &filesystem) {
		if strings.HasPrefix(series, "node_filesystem_size_bytes") && strings.Contains(series, ` "/" `) {
			size = v
		}
	}
	if want := float64(st.Blocks) * float64(st.Bsize); size != want && size != 0 { // the root may be of an ignored type
		t.Errorf("size of / is %v, want %v", size, want)
	}
}

// TestLocalContainer makes a cgroup that looks like a container's, runs a process in it that
// burns CPU and touches memory, and compares the metrics with what the kernel reports to the
// process's parent.
func TestLocalContainer(t *testing.T) {
	trees, err := cgroupTrees(host.Local())
	if err != nil {
		probetest.Skip(t, "control groups", err)
	}
	id := fmt.Sprintf("/teescope-test-%d/%064x", os.Getpid(), os.Getpid())
	var procs []string
	mounts := map[string]bool{}
	for _, t := range trees.v1 {
		mounts[t.mount] = true
	}
	if trees.v2 != nil {
		mounts[trees.v2.mount] = true
	}
	for m := range mounts {
		dir := filepath.Join(m, id)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			probetest.Skip(t, "control groups", fmt.Errorf("make a cgroup: %w", err))
		}
		t.Cleanup(func() {
			for _, d := range []string{dir, filepath.Dir(dir)} {
				if err := os.Remove(d); err != nil {
					t.Error(err)
				}
			}
		})
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
	}
	events := filepath.Join(t.TempDir(), "events")
	if out, err := exec.Command("cc", "-static", "-O2", "-pthread", "-o", events, "../../../workloads/events/events.c").CombinedOutput(); err != nil {
		probetest.Skip(t, "a C compiler", fmt.Errorf("build events: %w: %s", err, out))
	}
	cmd := exec.Command("sh", "-c", `program=$1; shift; for f in "$@"; do echo $$ > "$f"; done; exec "$program" cpu 300`, "sh", events)
	cmd.Args = append(cmd.Args, procs...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := values(t, &container)
	labels := fmt.Sprintf("%q %q \"\" \"\" \"\"", id, filepath.Base(id))
	var did struct {
		CPUSeconds float64 `json:"cpu_seconds"`
	}
	if err := json.Unmarshal(out, &did); err != nil {
		t.Fatal(err)
	}
	// At least the time of the events, in the cgroup; at most that of a thread that always ran.
	// clock: no thread uses more CPU time than has passed, however much that is.
	between(t, "CPU seconds", did.CPUSeconds, got["container_cpu_usage_seconds_total["+labels+` "total"]`], time.Since(began).Seconds())
	if faults, ok := got["container_memory_failures_total["+labels+` "pgfault" "hierarchy"]`]; ok && faults == 0 {
		t.Error("no page fault was counted")
	}
	if n, ok := got["container_processes["+labels+"]"]; !ok || n != 0 {
		t.Errorf("%v processes are left, %v", n, ok)
	}
}
