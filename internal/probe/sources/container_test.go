package sources

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
)

func TestParseLogName(t *testing.T) {
	id := strings.Repeat("ab", 32)
	got, p, ok := parseLogName("tee-job-7f9_confidential_side-car-" + id + ".log")
	if !ok || got != id || p != (podName{"confidential", "tee-job-7f9", "side-car"}) {
		t.Errorf("%q, %+v, %v", got, p, ok)
	}
	for _, bad := range []string{"", ".log", "a_b_c-" + id, "a_b-" + id + ".log", "a_b_c.log", "a_b_c-12.log", "a_b_c_d-" + id + ".log"} {
		if _, _, ok := parseLogName(bad); ok {
			t.Errorf("%q is taken for a log", bad)
		}
	}
}

// TestCgroupLimit keeps containers first and reports what it left out.
func TestCgroupLimit(t *testing.T) {
	f := hosttest.Open(t, "testdata/container.txtar")
	trees, err := cgroupTrees(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	err = (&containers{cgroups: trees, limit: 4}).read(t.Context(), func(s metric.Sample) { ids[s.Labels[0]] = true })
	if err == nil || !strings.Contains(err.Error(), "5 of 9 cgroups") {
		t.Errorf("error %v", err)
	}
	named := 0
	for id := range ids {
		if machine.ContainerName(id) != "" {
			named++
		}
	}
	if len(ids) != 4 || named != 3 || !ids["/"] {
		t.Errorf("shown: %v", ids)
	}
}

// TestVanishedCgroup removes a cgroup between listing and reading. That is not an error, unlike
// a file missing from an existing cgroup.
func TestVanishedCgroup(t *testing.T) {
	f := hosttest.Open(t, "testdata/container.txtar")
	trees, err := cgroupTrees(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trees.list()
	if err != nil {
		t.Fatal(err)
	}
	const unit = "/system.slice/redis-server.service"
	if err := os.RemoveAll(filepath.Join(f.Host.Root, "sys/fs/cgroup", unit)); err != nil {
		t.Fatal(err)
	}
	var bad machine.Faults
	r := round{emitter: func(s metric.Sample) { t.Errorf("%s of a cgroup that is gone", s.Desc.Name) }, networks: map[string]bool{}, bad: &bad}
	(&containers{cgroups: trees}).readGroup(&r, all[unit])
	if bad.Err() != nil {
		t.Error(bad.Err())
	}
}

func FuzzIOStat(f *testing.F) {
	f.Add([]byte("8:0 rbytes=1 wbytes=2 rios=3\n7:0 \n"))
	f.Add([]byte("8:0 rbytes"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parseIOStat("io.stat", b, func(device string, read, written float64) {
			sane(t, device, read)
			sane(t, device, written)
		})
	})
}

func FuzzBlkio(f *testing.F) {
	f.Add([]byte("8:0 Read 4096\nTotal 4096\n"))
	f.Add([]byte("8:0 Read"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parseBlkio("blkio", b, func(device, _ string, v float64) { sane(t, device, v) })
	})
}

func FuzzCPUMax(f *testing.F) {
	f.Add("max 100000")
	f.Add("50000 100000")
	f.Add("50000")
	f.Fuzz(func(t *testing.T, s string) {
		quota, period, limited, err := parseCPUMax(s)
		for _, v := range []float64{quota, period} {
			if !math.IsNaN(v) {
				sane(t, s, v)
			}
		}
		if err == nil && (math.IsNaN(quota) || math.IsNaN(period)) {
			t.Errorf("%q: quota %v, period %v, %v without an error", s, quota, period, limited)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("/docker/" + strings.Repeat("a", 64))
	f.Add("pod_ns_c-" + strings.Repeat("a", 64) + ".log")
	f.Fuzz(func(t *testing.T, s string) {
		if id, p, ok := parseLogName(s); ok && s != p.pod+"_"+p.namespace+"_"+p.container+"-"+id+".log" {
			t.Errorf("%q read as %q %+v", s, id, p)
		}
	})
}
