// Package kubernetes installs the chart on a real Kubernetes: etcd, containerd and runc of the machine, Kubernetes built
// from its Go module (folder components), and Helm. TestChart needs an API server only. TestNode runs a whole node, whose
// kubelet runs our image; flag -node asks for it, and builds Kubernetes if that was not done yet.
//
// Each test runs in namespaces of its own. When it ends, however it does, the kernel ends every process in them, and their
// mounts and network devices are gone.
package kubernetes

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var node = flag.Bool("node", false, "build Kubernetes where it is not built yet, and run the tests that need a whole node")

// inside names, in the environment, the folder of files for a test that runs in its namespaces.
const inside = "TEESCOPE_E2E_KUBERNETES"

// tool is a program or file that a test needs, and the Debian package that has it.
type tool struct{ name, from string }

var (
	server = []tool{{"etcd", "package etcd-server"}, {"ip", "package iproute2"}}
	whole  = append(server, tool{"containerd", "package containerd"}, tool{"ctr", "package containerd"}, tool{"runc", "package runc"},
		tool{"/usr/lib/cni/bridge", "package containernetworking-plugins"}, tool{"iptables", "package iptables"}, tool{"conntrack", "package conntrack"})
)

// apart runs the test that calls it once more, in namespaces. Files are what it finds there in its folder. In the
// namespaces apart returns the folder at once. Outside it returns "" when the test in there has ended.
func apart(t *testing.T, tools []tool, files func(dir string)) (dir string) {
	t.Helper()
	if dir := os.Getenv(inside); dir != "" {
		enter(t)
		return dir
	}
	lacks := t.Skipf
	if *node {
		lacks = t.Fatalf
	}
	if os.Geteuid() != 0 {
		lacks("needs root for namespaces")
	}
	for _, needed := range tools {
		_, err := exec.LookPath(needed.name)
		if strings.HasPrefix(needed.name, "/") {
			_, err = os.Stat(needed.name)
		}
		if err != nil {
			lacks("%s is not here (%s); make e2e-kubernetes installs everything", needed.name, needed.from)
		}
	}
	programs := map[string]string{"components": built(t)}
	programs["helm"] = filepath.Join(filepath.Dir(programs["components"]), "helm")
	if _, err := os.Stat(programs["helm"]); err != nil {
		lacks("Helm is not built here; make e2e-kubernetes builds it once")
	}
	removeCgroups()
	if busy, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods"); len(busy) > 0 {
		lacks("this machine runs a kubelet: %s has groups of pods", busy[0])
	}

	dir = t.TempDir()
	for name, program := range programs {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	files(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0", fmt.Sprint("-node=", *node))
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // the signal comes at the end of the thread
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	removeCgroups()
	t.Logf("in its namespaces:\n| %s", bytes.ReplaceAll(bytes.TrimSpace(out), []byte("\n"), []byte("\n| ")))
	if err != nil {
		t.Errorf("the test in namespaces: %v", err)
	}
	return ""
}

// enter makes the mounts of the new namespaces: all that Kubernetes writes is in memory and gone with them.
func enter(t *testing.T) {
	t.Helper()
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED}, // mounts reach containers
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	} {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			t.Fatalf("mount %s: %v", m.to, err)
		}
	}
	if err := unix.Sethostname([]byte(nodeName)); err != nil {
		t.Fatal(err)
	}
}

// removeCgroups removes the empty control groups that a kubelet leaves in every hierarchy.
func removeCgroups() {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	others, _ := filepath.Glob("/sys/fs/cgroup/*/" + second.name)
	tops = append(tops, others...)
	for _, top := range append(tops, "/sys/fs/cgroup/kubepods") {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			_ = unix.Rmdir(dir)
		}
	}
}

// built returns the program of module components. It lies in the user's cache, under a name that its sources determine.
func built(t *testing.T) string {
	t.Helper()
	sum, version := sha256.New(), ""
	sum.Write([]byte(runtime.Version()))
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join("components", name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(b)
		if m := regexp.MustCompile(`\tk8s\.io/kubernetes (v\S+)\n`).FindSubmatch(b); m != nil {
			version = string(m[1])
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "teescope", "kubernetes")
	program := filepath.Join(cache, fmt.Sprintf("components-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if !*node {
		t.Skip("Kubernetes is not built here; make e2e-kubernetes builds it once (ten minutes)")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Logf("building Kubernetes %s into %s", version, program)
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	var flags []string
	for name, value := range map[string]string{"gitVersion": version, "gitMajor": parts[0], "gitMinor": parts[1]} {
		flags = append(flags, "-X k8s.io/component-base/version."+name+"="+value)
	}
	slices.Sort(flags) // the same command line each time
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w "+strings.Join(flags, " "), "-o", program+".new", ".")
	build.Dir, build.Env = "components", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build Kubernetes: %v\n%s", err, out)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	return program
}
