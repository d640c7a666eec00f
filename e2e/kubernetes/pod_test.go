package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const pods = "/api/v1/namespaces/default/pods"

// benchmarks runs a benchmark in a pod, with a volume, and ends another one by force. Nothing stays.
func (c *cluster) benchmarks(t *testing.T) {
	for _, needed := range []string{"kubectl", "/bin/busybox"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("%s is not here (packages kubernetes-client, busybox-static)", needed)
		}
	}
	c.until(t, "pods have an account", func() error { return c.api("GET", "/api/v1/namespaces/default/serviceaccounts/default", nil, nil) })
	for _, name := range []string{"first", "second", "third"} { // each for one claim
		c.volume(t, name, "1Gi")
	}
	env := "pod,kubeconfig=" + filepath.Join(c.state, "admin.conf") + ",selector=kubernetes.io/hostname=" + nodeName + ",image=" + shellImage + ",cpus=100m,memory=256Mi,size=1Gi"
	bench := func(workload string, pairs int, out string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(c.files, "teescope/bin/teescope"), append([]string{"bench", "run", workload, "--env", "native", "--env", env,
			"--pairs", fmt.Sprint(pairs), "--out", filepath.Join(c.state, out)}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+c.state)
		return cmd
	}

	killed := bench("startup", 1000, "killed.json")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	c.until(t, "the pod of the benchmark runs", func() error { return c.phase(corev1.PodRunning) })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	c.until(t, "the pod of the killed benchmark has ended", func() error {
		return c.phase(corev1.PodSucceeded, corev1.PodFailed)
	})

	for workload, args := range map[string][]string{
		"startup":      nil,
		"clock-server": {"--param", "connections=2", "--param", "warm=200ms", "--param", "measure=1s"}, // under load from here
	} {
		file := workload + ".json"
		out, err := bench(workload, 1, file, args...).CombinedOutput()
		if end := new(exec.ExitError); err != nil && !(errors.As(err, &end) && end.ExitCode() == 3) { // one pair gives no verdict
			t.Fatalf("bench run %s: %v\n%s", workload, err, out)
		}
		b, err := os.ReadFile(filepath.Join(c.state, file))
		if err != nil {
			t.Fatal(err)
		}
		var result struct {
			Environments []struct {
				Launcher, Network string
				Params            map[string]string
			}
			Runs []struct{ Status, Reason string }
		}
		if err := json.Unmarshal(b, &result); err != nil || len(result.Environments) != 2 || len(result.Runs) < 2 {
			t.Fatalf("result %s: %v", b, err)
		}
		e := result.Environments[1]
		for _, r := range result.Runs {
			if r.Status != "ok" {
				t.Errorf("%s: a run is %+v", workload, r)
			}
		}
		if e.Launcher != "pod" || e.Params["node"] != nodeName || (workload == "startup") != (e.Network == "") {
			t.Errorf("%s: the second environment is %+v", workload, e)
		}
	}
	c.until(t, "no pod and no claim is left", func() error {
		var left corev1.PodList
		var claims corev1.PersistentVolumeClaimList
		err := errors.Join(c.api("GET", pods, nil, &left), c.api("GET", "/api/v1/namespaces/default/persistentvolumeclaims", nil, &claims))
		if n := len(left.Items) + len(claims.Items); err == nil && n > 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
}

// phase reports whether the one pod of the default namespace is in one of the phases.
func (c *cluster) phase(want ...corev1.PodPhase) error {
	var all corev1.PodList
	if err := c.api("GET", pods, nil, &all); err != nil {
		return err
	}
	if len(all.Items) != 1 || !slices.Contains(want, all.Items[0].Status.Phase) {
		return fmt.Errorf("%d pods; want one that is %v", len(all.Items), want)
	}
	return nil
}
