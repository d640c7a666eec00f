package sources

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
)

// containerRun is a container's cgroup with one process.
type containerRun struct {
	cgroup string
	pid    int
	netns  int    // 1: the host's
	comm   string // "": unreadable
	start  int    // ticks after boot; 0: unreadable
}

// readPods reads a machine with these containers and logs of the kubelet. It returns "namespace/pod/container" by cgroup of
// what has such names, and the labels of the networks.
func readPods(t *testing.T, runs []containerRun, logs []string) (names map[string]string, networks []string, err error) {
	t.Helper()
	text := &strings.Builder{}
	file := func(name, content string) { fmt.Fprintf(text, "-- %s --\n%s", name, content) }
	file("proc/1/mountinfo", "25 22 0:7 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	file("proc/diskstats", "   8       0 sda 100 2 800 50 10 1 80 5 0 40 55\n")
	links := "proc/1/ns/net -> net:[1]\n"
	made := map[string]string{}
	for _, r := range runs {
		for dir := r.cgroup; dir != "/"; dir = filepath.Dir(dir) {
			made[dir] += ""
		}
		made["/"] = ""
		made[r.cgroup] += fmt.Sprintf("%d\n", r.pid)
		proc := fmt.Sprintf("proc/%d/", r.pid)
		file(proc+"net/dev", "Inter-|   Receive |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"+
			"  eth0: 7 7 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n")
		links += fmt.Sprintf("%sns/net -> net:[%d]\n", proc, r.netns)
		if r.comm != "" {
			file(proc+"comm", r.comm+"\n")
		}
		if r.start != 0 {
			file(proc+"stat", fmt.Sprintf("%d (x) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 1000 10 0\n", r.pid, r.start))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(made)) {
		in := filepath.Join("sys/fs/cgroup", dir) + "/"
		file(in+"cgroup.controllers", "\n")
		file(in+"cpu.stat", "usage_usec 3\nuser_usec 2\nsystem_usec 1\n")
		file(in+"cgroup.procs", made[dir])
	}
	for _, l := range logs {
		name, target, link := strings.Cut(l, " -> ")
		if !link {
			file("var/log/pods/"+name+"/x", "")
			continue
		}
		links += "var/log/containers/" + name + " -> " + target + "\n"
	}
	file("links", links)
	archive := filepath.Join(t.TempDir(), "machine.txtar")
	if err := os.WriteFile(archive, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	trees, err := cgroupTrees(hosttest.Open(t, archive).Host)
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]string{}
	err = (&containers{cgroups: trees, limit: cgroupLimit}).read(t.Context(), func(s metric.Sample) {
		switch {
		case s.Desc == ctrNet[0].desc:
			networks = append(networks, strings.Join(s.Labels, "|"))
		case s.Desc == ctrCPUUser && s.Labels[3] != "":
			names[s.Labels[0]] = strings.Join(s.Labels[2:], "/")
		}
	})
	return names, networks, err
}

// TestPodNames finds the names of pods and containers whatever their IDs are, and says which it does not find.
func TestPodNames(t *testing.T) {
	const uid, unit, hash = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0", "8b5c1d0e9f3a7b2c4d6e8f0a1b3c5d7e"
	one, two, three := strings.Repeat("1", 64), strings.Repeat("e", 64), strings.Repeat("f", 64)
	const slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unit + ".slice"
	in := func(dir, id string) string { return dir + "/cri-containerd-" + id + ".scope" }
	link := func(pod, namespace, container, id, uid string) string {
		name := pod + "_" + namespace + "_" + container + "-" + id
		return fmt.Sprintf("%s.log -> /var/log/pods/%s_%s_%s/%s/0.log", name[:min(len(name), 251)], namespace, pod, uid, container)
	}
	long := strings.Repeat("long-", 25) + "pod" // with a container of 60 bytes the kubelet's link keeps 47 digits of the ID
	longer := strings.Repeat("p", 200)          // and here none
	app := strings.Repeat("a", 60)
	const moved = "/a_b.slice/a_b-kubepods.slice/a_b-kubepods-pod" + unit + ".slice"
	kind := "/docker/" + three + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + unit + ".slice"
	const mixed = "/system.slice/containerd.service/kubepods-burstable-pod" + unit + ".slice:cri-containerd:"
	type names = map[string]string
	for _, c := range []struct {
		what     string
		runs     []containerRun
		logs     []string
		names    names
		networks []string
		err      string
	}{
		{"the sandbox sorts first", []containerRun{{in(slice, one), 2001, 5, "", 0}, {in(slice, two), 2002, 5, "", 0}}, []string{link("web-0", "shop", "app", two, "uid")},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/", in(slice, two): "shop/web-0/app"}, []string{slice + "||shop|web-0||eth0"}, ""},
		{"the sandbox sorts last", []containerRun{{in(slice, two), 2001, 5, "", 0}, {in(slice, one), 2002, 5, "", 0}}, []string{link("web-0", "shop", "app", one, "uid")},
			names{slice: "shop/web-0/", in(slice, two): "shop/web-0/", in(slice, one): "shop/web-0/app"}, []string{slice + "||shop|web-0||eth0"}, ""},
		{"no sandbox, as with CRI-O", []containerRun{{in(slice, one), 2001, 5, "nginx", 9}}, []string{link("web-0", "shop", "app", one, uid)},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/app"}, []string{slice + "||shop|web-0||eth0"}, ""},
		{"its image is missing, processes hidden", []containerRun{{in(slice, one), 0, 5, "", 0}}, []string{"shop_web-0_" + uid, link("web-1", "shop", "app", three, "uid")},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/"}, nil, ""},
		{"between restarts, processes hidden", []containerRun{{in(slice, one), 0, 5, "", 0}}, []string{"shop_web-0_" + uid, link("web-0", "shop", "app", two, uid)},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/"}, nil, ""},
		{"no sandbox and a link cut before the ID", []containerRun{{in(slice, one), 0, 5, "", 0}},
			[]string{link(longer, "shop", app, one, uid), "shop_" + longer + "_" + uid, link("web-1", "shop", "app", three, "uid")},
			names{slice: "shop/" + longer + "/", in(slice, one): "shop/" + longer + "/unknown"}, nil, "0 pods and 1 container have unknown names"},
		{"no sandbox and no links", []containerRun{{in(slice, one), 0, 5, "", 0}}, []string{"shop_web-0_" + uid},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/unknown"}, nil, "0 pods and 1 container have unknown names"},
		{"a VM", []containerRun{{in(slice, one), 2001, 5, "qemu-system-x86", 9}, {in(slice, two), 2002, 5, "sh", 9}}, []string{link("web-0", "shop", "app", two, uid)},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/", in(slice, two): "shop/web-0/app"}, []string{slice + "||shop|web-0||eth0"}, ""},
		{"the pod of a machine's network", []containerRun{{in(slice, one), 2001, 1, "pause", 9}, {in(slice, two), 2002, 1, "sh", 9}}, []string{link("web-0", "shop", "app", two, uid)},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/", in(slice, two): "shop/web-0/app"}, nil, ""},
		{"static, its link not there yet", []containerRun{{"/kubepods/burstable/pod" + hash + "/" + one, 2001, 5, "pause", 9}, {"/kubepods/burstable/pod" + hash + "/" + two, 2002, 5, "etcd", 9}},
			[]string{"kube-system_etcd-n1_" + hash},
			names{"/kubepods/burstable/pod" + hash: "kube-system/etcd-n1/", "/kubepods/burstable/pod" + hash + "/" + one: "kube-system/etcd-n1/", "/kubepods/burstable/pod" + hash + "/" + two: "kube-system/etcd-n1/unknown"},
			[]string{"/kubepods/burstable/pod" + hash + "||kube-system|etcd-n1||eth0"}, "0 pods and 1 container have unknown names"},
		{"a link that the kubelet cut", []containerRun{{in(slice, one), 2001, 5, "pause", 9}, {in(slice, two), 2002, 5, "sh", 9}, {in(slice, three), 2003, 5, "sh", 9}},
			[]string{link(long, "shop", app, two, uid), link(long, "shop", "b"+app[1:], three, uid), "shop_" + long + "_" + uid},
			names{slice: "shop/" + long + "/", in(slice, one): "shop/" + long + "/", in(slice, two): "shop/" + long + "/" + app, in(slice, three): "shop/" + long + "/b" + app[1:]},
			[]string{slice + "||shop|" + long + "||eth0"}, ""},
		{"a link cut before the ID", []containerRun{{in(slice, one), 2001, 5, "pause", 9}, {in(slice, two), 2002, 5, "sh", 9}},
			[]string{link(longer, "shop", app, two, uid), "shop_" + longer + "_" + uid},
			names{slice: "shop/" + longer + "/", in(slice, one): "shop/" + longer + "/",
				in(slice, two): "shop/" + longer + "/unknown"},
			[]string{slice + "||shop|" + longer + "||eth0"}, "0 pods and 1 container have unknown names"},
		{"below another root, and deeper", []containerRun{{in(moved+"/deep", one), 2001, 5, "pause", 9}, {in(moved+"/deep", two), 2002, 5, "sh", 9}}, []string{link("web-0", "shop", "app", two, uid)},
			names{moved: "shop/web-0/", in(moved+"/deep", one): "shop/web-0/", in(moved+"/deep", two): "shop/web-0/app"}, []string{moved + "||shop|web-0||eth0"}, ""},
		{"a node in a container, with its own logs", []containerRun{{"/docker/" + three, 1000, 4, "systemd", 1}, {in(kind, one), 2001, 5, "pause", 9}, {in(kind, two), 2002, 5, "sh", 9}}, nil,
			names{kind: "/unknown: " + uid + "/", in(kind, one): "/unknown: " + uid + "/", in(kind, two): "/unknown: " + uid + "/unknown"},
			[]string{"/docker/" + three + "|" + three + "||||eth0", kind + "|||unknown: " + uid + "||eth0"}, "1 pod and 1 container have unknown names"},
		{"no cgroup of the pod, the later one first", []containerRun{{mixed + two, 2001, 5, "pause", 5}, {mixed + one, 2002, 5, "sh", 6}}, []string{link("web-0", "shop", "app", one, uid)},
			names{mixed + two: "shop/web-0/", mixed + one: "shop/web-0/app"}, []string{mixed + two + "|" + two + "|shop|web-0||eth0"}, ""},
		{"containers that share, the later one first", []containerRun{{"/docker/" + two, 2001, 5, "a", 5}, {"/docker/" + one, 2002, 5, "b", 6}}, nil,
			names{}, []string{"/docker/" + two + "|" + two + "||||eth0"}, ""},
		{"containers that share, the earlier one first", []containerRun{{"/docker/" + one, 2001, 5, "a", 5}, {"/docker/" + two, 2002, 5, "b", 6}}, nil,
			names{}, []string{"/docker/" + one + "|" + one + "||||eth0"}, ""},
		{"three without a log, none called pause", []containerRun{{in(slice, one), 2001, 5, "a", 9}, {in(slice, two), 2002, 5, "b", 9}, {in(slice, three), 2003, 5, "c", 9}}, []string{link("web-0", "shop", "app", two, uid)},
			names{slice: "shop/web-0/", in(slice, one): "shop/web-0/unknown", in(slice, two): "shop/web-0/app", in(slice, three): "shop/web-0/unknown"}, []string{slice + "||shop|web-0||eth0"},
			"0 pods and 2 containers have unknown names"},
		{"a container inside one of the pod", []containerRun{{in(slice, one), 2001, 5, "dockerd", 9}, {in(slice, one) + "/docker/" + two, 2002, 6, "sh", 9}}, []string{link("ci-0", "shop", "docker", one, uid)},
			names{slice: "shop/ci-0/", in(slice, one): "shop/ci-0/docker"}, []string{slice + "||shop|ci-0||eth0", in(slice, one) + "/docker/" + two + "|" + two + "||||eth0"}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			names, networks, err := readPods(t, c.runs, c.logs)
			if !maps.Equal(names, c.names) {
				t.Errorf("names %q,\nwant  %q", names, c.names)
			}
			if !slices.Equal(networks, c.networks) {
				t.Errorf("networks %q,\nwant     %q", networks, c.networks)
			}
			if got := fmt.Sprint(err); err != nil && c.err == "" || !strings.Contains(got, c.err) || c.err != "" && err == nil {
				t.Errorf("error %q, want %q", got, c.err)
			}
		})
	}
}
