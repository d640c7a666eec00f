package kubernetes

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
	"github.com/teescope/teescope/internal/await"
)

const pods = "/api/v1/namespaces/default/pods"

// benchmarks runs a benchmark in a pod, with a volume, and ends another one by force. Nothing stays.
func (c *running) benchmarks(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not here (package kubernetes-client)")
	}
	if err := c.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	env := c.env("image=" + cluster.BenchImage + ",cpus=100m,memory=256Mi,size=1Gi")

	killed := await.Start(t, c.bench("startup", "killed.json", "--env", "native", "--env", env, "--pairs", "1000"))
	c.until(t, "the pod of the benchmark runs", func() error { return c.phase(1, corev1.PodRunning) })
	killed.Stop(syscall.SIGKILL)
	c.until(t, "the pod of the killed benchmark has ended", func() error {
		return c.phase(1, corev1.PodSucceeded, corev1.PodFailed)
	})

	for workload, args := range map[string][]string{
		"startup":      nil,
		"clock-server": {"--param", "connections=2", "--param", "warm=200ms", "--param", "measure=1s"}, // under load from here
	} {
		result := c.measure(t, workload, append([]string{"--env", "native", "--env", env, "--pairs", "1"}, args...)...)
		if len(result.Environments) != 2 || len(result.Runs) < 2 {
			t.Fatalf("result %+v", result)
		}
		e := result.Environments[1]
		if e.Launcher != "pod" || e.Params["node"] != cluster.First || (workload == "clock-server") != (e.Network != "") {
			t.Errorf("%s: the second environment is %+v", workload, e)
		}
	}
	c.nothingLeft(t)
}

// env is an arm in pods of the one node.
func (c *running) env(params string) string {
	return "pod,kubeconfig=" + c.Kubeconfig() + ",selector=kubernetes.io/hostname=" + cluster.First + "," + params
}

// bench is a benchmark whose result goes to a file.
func (c *running) bench(name, file string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.Files, "teescope/bin/teescope"), append([]string{"bench", "run", name, "--out", filepath.Join(c.State, file)}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.State)
	return cmd
}

// measured is what the tests read of a result.
type measured struct {
	Design       struct{ Client string }
	Environments []struct {
		Label           string `json:"env_id"`
		Launcher        string
		Network         string
		Params, Missing map[string]string
	}
	Runs []struct {
		Env            string `json:"env_id"`
		Case           string
		Status, Reason string
		Metrics        []struct {
			Name  string
			Value *float64
			Why   string `json:"missing_reason"`
		}
	}
}

// measure runs a benchmark, all of whose runs must be good.
func (c *running) measure(t *testing.T, name string, args ...string) (r measured) {
	t.Helper()
	file := name + "-" + rand.Text() + ".json"
	out, err := c.bench(name, file, args...).CombinedOutput()
	if end := new(exec.ExitError); err != nil && !(errors.As(err, &end) && end.ExitCode() == 3) { // one pair gives no verdict
		t.Fatalf("bench run %s: %v\n%s", name, err, out)
	}
	b, err := os.ReadFile(filepath.Join(c.State, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("result %s: %v", b, err)
	}
	for _, run := range r.Runs {
		if run.Status != "ok" {
			t.Errorf("%s: a run is %+v", name, run)
		}
	}
	return r
}

// nothingLeft waits until benchmarks have left nothing.
func (c *running) nothingLeft(t *testing.T) {
	t.Helper()
	c.until(t, "no pod, no claim and no service is left", func() error {
		var claims corev1.PersistentVolumeClaimList
		err := errors.Join(c.phase(0), c.services(0), c.API("GET", "/api/v1/namespaces/default/persistentvolumeclaims", nil, &claims))
		return errors.Join(err, count("claims", len(claims.Items), 0))
	})
}

// phase reports whether there are so many pods in the default namespace, each in one of the phases.
func (c *running) phase(number int, want ...corev1.PodPhase) error {
	var all corev1.PodList
	if err := c.API("GET", pods, nil, &all); err != nil {
		return err
	}
	if len(all.Items) != number || slices.ContainsFunc(all.Items, func(p corev1.Pod) bool { return !slices.Contains(want, p.Status.Phase) }) {
		return fmt.Errorf("%d pods; want %d that are %v", len(all.Items), number, want)
	}
	return nil
}

func count(what string, have, want int) error {
	if have != want {
		return fmt.Errorf("%d %s; want %d", have, what, want)
	}
	return nil
}
