package machine

import (
	"errors"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

func TestCPUList(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0-1,4,8-9": {0, 1, 4, 8, 9}} {
		t.Run(list, func(t *testing.T) {
			if got, err := ParseCPUList(list); !slices.Equal(got, want) || err != nil {
				t.Errorf("%q: %v, %v", list, got, err)
			}
		})
	}
	for _, list := range []string{"", "a", "3-1", "0-", "-1", "0,,1", "0-99999999999"} {
		t.Run(list, func(t *testing.T) {
			if got, err := ParseCPUList(list); err == nil {
				t.Errorf("%q is %v", list, got)
			}
		})
	}
}

func FuzzCPUList(f *testing.F) {
	for _, s := range []string{"0", "0-3", "0-3,5,7-8", "", "-", "3-1", "0-99999999", "0-8191", "0-8191,0-8191"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := ParseCPUList(s)
		if err == nil && len(cpus) == 0 || len(cpus) > MaxCPUs {
			t.Errorf("%q gives %d CPUs", s, len(cpus))
		}
		for _, cpu := range cpus {
			if cpu < 0 || cpu >= MaxCPUs {
				t.Errorf("%q gives CPU %d", s, cpu)
			}
		}
	})
}

// The first processor ends where its fields do, a later one does not fill its gaps.
func TestCPUInfo(t *testing.T) {
	const c CPUInfo = "\nprocessor\t: 0\nmodel name\t:\nmodel name\t: x: y\ncpu MHz\t: 2000.5\nphysical id : 1\n\n" +
		"processor : 1\nstepping : 3\ncpu MHz : none\n\nprocessor : 2\ncpu MHz : 1000\n"
	want := map[string]string{"processor": "0", "model name": "x: y", "cpu MHz": "2000.5", "physical id": "1"}
	if got := c.First().Map(); !reflect.DeepEqual(got, want) {
		t.Errorf("first processor %v", got)
	}
	if v, ok := c.Value("stepping"); v != "3" || !ok {
		t.Errorf("stepping %q, %v", v, ok)
	}
	if v, ok := c.Value("flags"); v != "" || ok {
		t.Errorf("flags %q, %v", v, ok)
	}
	if n := c.Processors(); n != 3 {
		t.Errorf("%d processors", n)
	}
	got := map[int]float64{}
	for cpu, hertz := range c.Hertz() {
		got[cpu] = hertz
	}
	if !reflect.DeepEqual(got, map[int]float64{0: 2000.5e6, 2: 1000e6}) {
		t.Errorf("frequencies %v", got)
	}
}

func TestOSName(t *testing.T) {
	for release, want := range map[string]string{
		"NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n": "Debian GNU/Linux 12 (bookworm)",
		"NAME='Fedora Linux'\nVERSION=\"40\"\n":                         "Fedora Linux 40",
		"  PRETTY_NAME=x\n":                                             "x",
		"ID=debian\n":                                                   "",
	} {
		t.Run(release, func(t *testing.T) {
			if got := OSName(release); got != want {
				t.Errorf("%q: %q, want %q", release, got, want)
			}
		})
	}
}

// TestHypervisor: without CPUID the kernel's own name counts, and nothing is guessed.
func TestHypervisor(t *testing.T) {
	cpu := func(ecx uint32, sign string) *host.Host {
		h := &host.Host{Root: t.TempDir(), CPUID: func(leaf, _ uint32) (uint32, uint32, uint32, uint32) {
			switch leaf {
			case 0:
				return 7, 0, 0, 0
			case 1:
				return 0, 0, ecx, 0
			case 0x40000000:
				word := func(i int) (n uint32) {
					for k := range 4 {
						n |= uint32(sign[i+k]) << (8 * k)
					}
					return n
				}
				return 0, word(0), word(4), word(8)
			}
			return 0, 0, 0, 0
		}}
		return h
	}
	none := &host.Host{Root: t.TempDir(), CPUID: func(uint32, uint32) (uint32, uint32, uint32, uint32) { return 0, 0, 0, 0 }}
	for want, h := range map[string]*host.Host{
		"none": cpu(0, "KVMKVMKVM\x00\x00\x00"), "KVM": cpu(1<<31, "KVMKVMKVM\x00\x00\x00"), "bhyve": cpu(1<<31, "bhyve bhyve "),
		"new name": cpu(1<<31, "new name\x00\x00\x00\x00"), "unknown": cpu(1<<31, strings.Repeat("\x00", 12)), "": none,
	} {
		t.Run(want, func(t *testing.T) {
			if got := Hypervisor(h); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestContainerName(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for path, want := range map[string]string{
		"/":                                      "",
		"/docker":                                "",
		"/docker/" + id:                          id,
		"/system.slice/docker-" + id + ".scope":  id,
		"/machine.slice/libpod-" + id + ".scope": id,
		"/machine.slice/libpod-conmon-" + id + ".scope":                                       "",
		"/machine.slice/libpod-" + id + ".scope/container":                                    "",
		"/libpod_parent/libpod-" + id:                                                         id,
		"/libpod_parent/conmon":                                                               "",
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope":                 id,
		"/kubepods.slice/kubepods-pod1.slice/crio-" + id + ".scope":                           id,
		"/kubepods.slice/kubepods-pod1.slice/crio-conmon-" + id + ".scope":                    "",
		"/kubepods/burstable/pod1c0ffee/" + id:                                                id,
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1c0ffee.slice":        "",
		"/system.slice/nerdctl-" + id + ".scope":                                              id,
		"/default/" + id:                                                                      id,
		"/system.slice/containerd.service/kubepods-burstable-pod1.slice:cri-containerd:" + id: id,
		"/lxc.payload.web":                                                                    "web",
		"/lxc.monitor.web":                                                                    "",
		"/lxc/web":                                                                            "web",
		"/user.slice/user-1000.slice/session-1.scope/lxc/web":                                 "web",
		"/docker/" + id + "/kubelet/kubepods/burstable/pod1c0ffee/" + id[1:] + "0":            id[1:] + "0",
		"/system.slice/redis-server.service":                                                  "",
		"/process_api/85ad52621c14656d3ab80231387ac2e7":                                       "",
		"/docker/" + strings.ToUpper(id):                                                      "",
	} {
		t.Run(path, func(t *testing.T) {
			if got := ContainerName(path); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		})
	}
}

// TestCgroupMounts: whatever is mounted first, the whole hierarchy is before its parts.
func TestCgroupMounts(t *testing.T) {
	mount := func(root, point string) Mount { return Mount{Type: "cgroup2", Root: root, Point: point} }
	var points []string
	for _, m := range CgroupMounts([]Mount{mount("/kubepods/pod1", "/run/part"), {Type: "tmpfs", Point: "/run"}, mount("/", "/sys/fs/cgroup"), mount("/", "/mnt/again"), mount("/../..", "/above")}) {
		points = append(points, m.Point)
	}
	if want := []string{"/above", "/sys/fs/cgroup", "/mnt/again", "/run/part"}; !slices.Equal(points, want) {
		t.Errorf("%q, want %q", points, want)
	}
}

// TestHostname: in a container with a name of its own, the machine's is not what the kernel says.
func TestHostname(t *testing.T) {
	const own, other = "uts:[4026532001]", "uts:[4026532002]"
	for what, c := range map[string]struct{ self, first, selfNet, firstNet, file, want, err string }{
		"no namespaces":                      {want: "kernel-says"},
		"the first namespace":                {self: initUTS, want: "kernel-says"},
		"process 1 has the same":             {self: own, first: own, want: "kernel-says"},
		"the machine's network":              {self: own, first: other, selfNet: "net:[1]", firstNet: "net:[1]", file: "node-1\n", want: "kernel-says"},
		"a pod":                              {self: own, first: other, selfNet: "net:[2]", firstNet: "net:[1]", file: "# a comment\n\nnode-1\n", want: "node-1"},
		"a pod that may not ask process 1":   {self: own, selfNet: "net:[2]", file: "node-1", want: "node-1"},
		"a machine whose name is not in it":  {self: own, first: other, file: "localhost\n", err: "/etc/hostname has none"},
		"a machine without a file of a name": {self: own, first: other, err: "no such file"},
	} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			link := func(name, target string) {
				if target == "" {
					return
				}
				if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755), os.Symlink(target, filepath.Join(root, name))); err != nil {
					t.Fatal(err)
				}
			}
			write := func(name, text string) {
				if text == "" {
					return
				}
				if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			link("proc/self/ns/uts", c.self)
			link("proc/1/ns/uts", c.first)
			link("proc/self/ns/net", c.selfNet)
			link("proc/1/ns/net", c.firstNet)
			write("proc/sys/kernel/hostname", "kernel-says\n")
			write("etc/hostname", c.file)
			got, err := Hostname(&host.Host{Root: root})
			if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %q, %v; want %q, %q", what, got, err, c.want, c.err)
			}
		})
	}
}

// TestPod finds the pod of a cgroup wherever the kubelet's tree is, and no pod in names that look like one.
func TestPod(t *testing.T) {
	const uid, unit, hash = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0", "8b5c1d0e9f3a7b2c4d6e8f0a1b3c5d7e"
	id := strings.Repeat("0123456789abcdef", 4)
	for cgroup, want := range map[string][3]string{ // UID, the pod's cgroup, the container that it is in
		"/": {}, "/system.slice/podman.service": {}, "/machine.slice/machine-libpod_pod_" + id + ".slice": {}, "/kubepods.slice/kubepods-burstable.slice": {}, "/kubepods/burstable": {},
		"/user.slice/user-podcast.slice": {}, "/burstable/pod" + uid: {}, "/system.slice/docker-" + id + ".scope": {"", "", id},
		"/kubepods/burstable/pod" + uid:                                                                         {uid, "/kubepods/burstable/pod" + uid, ""},
		"/kubepods/pod" + uid + "/" + id:                                                                        {uid, "/kubepods/pod" + uid, id},
		"/kubepods/besteffort/pod" + hash + "/" + id:                                                            {hash, "/kubepods/besteffort/pod" + hash, id},
		"/kubepods.slice/kubepods-pod" + unit + ".slice/crio-" + id + ".scope/container":                        {uid, "/kubepods.slice/kubepods-pod" + unit + ".slice", id},
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice":                     {hash, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice", ""},
		"/a_b.slice/a_b-kubepods.slice/a_b-kubepods-pod" + unit + ".slice/deep/cri-containerd-" + id + ".scope": {uid, "/a_b.slice/a_b-kubepods.slice/a_b-kubepods-pod" + unit + ".slice", id},
		"/docker/" + id + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + unit + ".slice": {uid,
			"/docker/" + id + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + unit + ".slice", id},
		"/kubepods/pod" + hash + "/" + id + "/docker/" + id + "/kubepods/pod" + uid + "/x":                              {uid, "/kubepods/pod" + hash + "/" + id + "/docker/" + id + "/kubepods/pod" + uid, id},
		"/system.slice/containerd.service/kubepods-burstable-pod" + unit + ".slice:cri-containerd:" + id:                {uid, "", id},
		"/../../kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unit + ".slice/crio-" + id + ".scope": {uid, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unit + ".slice", id},
	} {
		t.Run(cgroup, func(t *testing.T) {
			gotUID, dir := Pod(cgroup)
			if got := [3]string{gotUID, dir, InContainer(cgroup)}; got != want {
				t.Errorf("%s: %q, want %q", cgroup, got, want)
			}
		})
	}
}

// FuzzText feeds what files of the machine say to the pure parsers.
func FuzzText(f *testing.F) {
	for _, s := range []string{"processor : 0\nmodel name : x\n\nprocessor : 1", "48K", `PRETTY_NAME="x"`, `/a\040b`, "/a/b/../c", "[a]",
		"12:cpu,cpuacct:/a\n0::/b:c\n::\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "MemTotal: 1 kB", "/docker/" + strings.Repeat("a", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		info := CPUInfo(s)
		if !strings.HasPrefix(s, string(info.First())) || info.First().Processors() > info.Processors() {
			t.Fatalf("first processor of %q is %q", s, info.First())
		}
		for cpu, hertz := range info.Hertz() {
			if !(hertz > 0 && hertz < math.Inf(1)) {
				t.Fatalf("CPU %d runs at %v", cpu, hertz)
			}
		}
		if n, err := binarySize(s); err == nil && n < 0 && !strings.HasPrefix(s, "-") {
			t.Fatalf("%q is %d", s, n)
		}
		word, _ := Chosen(s)
		for _, v := range []string{word, assigned(s, "NAME"), unoctal(s)} {
			if len(v) > len(s) {
				t.Fatalf("%q grew to %q", s, v)
			}
		}
		for _, dir := range upward("/sys/fs/cgroup", s, s) {
			if !strings.HasPrefix(dir, "/sys/fs/cgroup") {
				t.Fatalf("the cgroup of %q is in %q", s, dir)
			}
		}
		for _, m := range ParseMemberships(s) {
			if !strings.HasPrefix(m.Path, "/") || strings.Contains(m.Path, "\n") {
				t.Fatalf("%q is no control group", m.Path)
			}
		}
		mounts, _ := ParseMounts("mountinfo", []byte(s))
		for _, m := range CgroupMounts(mounts) {
			if !strings.HasPrefix(m.Point, "/") || m.V2 != (m.Controllers == nil) {
				t.Fatalf("mount %+v", m)
			}
		}
		if name := ContainerName(s); !strings.Contains(s, name) {
			t.Fatalf("%q names %q", s, name)
		}
		if uid, dir := Pod(s); strings.Contains(uid, "/") || dir != "" && !strings.HasPrefix(path.Clean(s), dir) {
			t.Fatalf("%q is in pod %q, %q", s, uid, dir)
		}
		n := 0
		if err := ParseMeminfo([]byte(s), func(string, uint64, bool) { n++ }); err == nil && n == 0 {
			t.Fatal("no field and no error")
		}
	})
}
