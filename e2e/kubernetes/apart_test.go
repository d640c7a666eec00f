// Package kubernetes installs the chart with Helm on a real Kubernetes, that of package cluster. TestChart needs an API server only. TestNode runs a whole node, whose
// kubelet runs our image; flag -node asks for it, and builds Kubernetes if that was not done yet.
//
// Each test runs in namespaces of its own. When it ends, however it does, the kernel ends every process in them, and their
// mounts and network devices are gone.
package kubernetes

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
)

var node = flag.Bool("node", false, "build Kubernetes where it is not built yet, and run the tests that need a whole node")

// inside names, in the environment, the folder of files for a test that runs in its namespaces.
const inside = "TEESCOPE_E2E_KUBERNETES"

// root is this repository.
const root = "../.."

// apart runs the test that calls it once more, in namespaces. Files are what it finds there in its folder. In the
// namespaces apart returns the folder at once. Outside it returns "" when the test in there has ended.
func apart(t *testing.T, tools []cluster.Tool, files func(dir string)) (dir string) {
	t.Helper()
	if dir := os.Getenv(inside); dir != "" {
		if err := cluster.Enter(cluster.First, ""); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	lacks := t.Skipf
	if *node {
		lacks = t.Fatalf
	}
	if os.Geteuid() != 0 {
		lacks("needs root for namespaces")
	}
	if err := cluster.Missing(tools); err != nil {
		lacks("%v; make e2e-kubernetes installs everything", err)
	}
	dir = t.TempDir()
	if err := cluster.Prepare(t.Context(), root, dir, *node); errors.Is(err, cluster.ErrNotBuilt) {
		lacks("%v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	cluster.RemoveCgroups()
	if busy := cluster.Cgroups(); len(busy) > 0 {
		lacks("a cluster is up on this machine: %s has groups of pods (make cluster-down)", busy[0])
	}
	files(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0", fmt.Sprint("-node=", *node))
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: cluster.Namespaces,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // the signal comes at the end of the thread
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	cluster.RemoveCgroups()
	t.Logf("in its namespaces:\n| %s", bytes.ReplaceAll(bytes.TrimSpace(out), []byte("\n"), []byte("\n| ")))
	if err != nil {
		t.Errorf("the test in namespaces: %v", err)
	}
	return ""
}
