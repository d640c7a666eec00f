package sources

import (
	"errors"
	"fmt"
	"maps"
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
		t.Run(bad, func(t *testing.T) {
			if _, _, ok := parseLogName(bad); ok {
				t.Errorf("%q is taken for a log", bad)
			}
		})
	}
}

// isContainer reports whether a sample is one of a control group, with its labels.
func isContainer(s metric.Sample) bool { return strings.HasPrefix(s.Desc.Name, "container_") }

// isNetwork: pods' networks have the IDs of pods, which need not be among the cgroups shown.
func isNetwork(s metric.Sample) bool { return strings.HasPrefix(s.Desc.Name, "container_network_") }

// TestCgroupLimit keeps containers first and reports what it left out.
func TestCgroupLimit(t *testing.T) {
	f := hosttest.Open(t, "testdata/container.txtar")
	trees, err := cgroupTrees(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	err = (&containers{cgroups: trees, limit: 4}).read(t.Context(), func(s metric.Sample) {
		if isContainer(s) && !isNetwork(s) {
			ids[s.Labels[0]] = true
		}
	})
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
	r := round{emitter: func(s metric.Sample) { t.Errorf("%s of a cgroup that is gone", s.Desc.Name) }, networks: map[string]*netns{}, bad: &bad}
	(&containers{cgroups: trees}).readGroup(&r, all[unit])
	if bad.Err() != nil {
		t.Error(bad.Err())
	}
}

// TestManyPods: of 500 pods that start on a node at once each shown one has its names, and their number is bounded. When
// they have ended, nothing of them is left. Other pods follow.
func TestManyPods(t *testing.T) {
	f := hosttest.Open(t, "testdata/container.txtar")
	trees, err := cgroupTrees(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &containers{cgroups: trees, limit: cgroupLimit}
	read := func() (series map[string]bool, pods map[string]bool, err error) {
		series, pods = map[string]bool{}, map[string]bool{}
		ids := map[string]bool{}
		err = c.read(t.Context(), func(s metric.Sample) {
			series[s.Desc.Name+strings.Join(s.Labels, " ")] = true
			if !isContainer(s) {
				return
			}
			if !isNetwork(s) {
				ids[s.Labels[0]] = true
			}
			if strings.HasPrefix(s.Labels[3], "job-") {
				pods[s.Labels[3]] = true
			}
		})
		if len(ids) > cgroupLimit {
			t.Errorf("%d cgroups are shown", len(ids))
		}
		return series, pods, err
	}
	before, _, errBefore := read()
	root := f.Host.Root
	burstable := filepath.Join(root, "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice")
	one := os.DirFS(filepath.Join(burstable, "kubepods-burstable-pod1c0ffee_0000_4000_8000_000000000001.slice/cri-containerd-"+strings.Repeat("b", 64)+".scope"))
	logs := filepath.Join(root, "var/log/containers")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	for wave := range 2 {
		var made []string
		for i := range 500 {
			id := fmt.Sprintf("%064x", 1000*wave+i)
			dir := filepath.Join(burstable, fmt.Sprintf("kubepods-burstable-pod%d.slice", 1000*wave+i))
			log := filepath.Join(logs, fmt.Sprintf("job-%d-%d_batch_main-%s.log", wave, i, id))
			made = append(made, dir, log)
			if err := errors.Join(os.CopyFS(filepath.Join(dir, "cri-containerd-"+id+".scope"), one), os.WriteFile(log, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		_, pods, err := read()
		if len(pods) < cgroupLimit-len(before) || err == nil || !strings.Contains(err.Error(), "have no own series") {
			t.Errorf("%d pods of wave %d are shown, error %v", len(pods), wave, err)
		}
		for p := range pods {
			if !strings.HasPrefix(p, fmt.Sprintf("job-%d-", wave)) {
				t.Errorf("pod %s is shown in wave %d", p, wave)
			}
		}
		for _, path := range made {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		if after, _, err := read(); !maps.Equal(after, before) || fmt.Sprint(err) != fmt.Sprint(errBefore) {
			t.Errorf("%d series before, %d when the pods have ended; errors %v and %v", len(before), len(after), errBefore, err)
		}
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
