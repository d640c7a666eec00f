package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
	"github.com/teescope/teescope/internal/await"
)

// between runs experiment k8s-network between two pods by each way, on one node and on two, and ends one by force. Nothing
// stays.
func (c *running) between(t *testing.T) {
	arms := func(params string) (envs []string) {
		for _, via := range []string{"node", "pod", "service"} {
			envs = append(envs, "--env", via+"="+c.env("load=pod,cpus=100m,memory=256Mi,image="+cluster.BenchImage+",via="+via+","+params))
		}
		return envs
	}
	short := []string{"--param", "omit=100ms", "--param", "measure=1s", "--param", "round-trips=1000", "--param", "rate=1000000", "--param", "congestion="}

	killed := await.Start(t, c.bench("k8s-network", "killed-network.json", slices.Concat(arms("nodes=same")[4:], short, []string{"--pairs", "1000"})...))
	c.until(t, "the pods of the benchmark run, and there is a service", func() error { return errors.Join(c.phase(2, corev1.PodRunning), c.services(1)) })
	killed.Stop(syscall.SIGKILL)
	c.until(t, "the pods of the killed benchmark have ended", func() error { return c.phase(2, corev1.PodSucceeded, corev1.PodFailed) })

	c.network(t, cluster.First, "same host", "the same node", slices.Concat(arms("nodes=same"), short))
	c.nothingLeft(t)
	if out, err := c.bench("k8s-network", "other.json", "--env", c.env("load=pod,nodes=other,image="+cluster.BenchImage)).CombinedOutput(); err == nil || !strings.Contains(string(out), "needs two nodes, and the cluster has 1") {
		t.Errorf("another node on a cluster of one: %v, %s", err, out)
	}
	c.second = c.join(t)
	c.network(t, cluster.Second, "a pod on another node", "another node", slices.Concat(arms("nodes=other,loadSelector=kubernetes.io/hostname="+cluster.Second), short))
	c.nothingLeft(t)
	c.encryption(t, short)
}

// encryption runs k8s-network in the plain networks of pods, which do not use the tunnel between the nodes, and in the encrypted ones, all
// of whose bytes go through it. Packets are as large as the network's name says.
func (c *running) encryption(t *testing.T, short []string) {
	for _, kind := range []string{"plain", "wireguard"} {
		before := c.encrypted(t)
		var args []string
		for _, mtu := range []string{"1450", "8896"} {
			args = append(args, "--env", mtu+"="+c.env("load=pod,cpus=100m,memory=256Mi,nodes=other,image="+cluster.BenchImage+",loadSelector=kubernetes.io/hostname="+cluster.Second+",runtimeClass="+kind+"-"+mtu))
		}
		r := c.measure(t, "k8s-network", slices.Concat(args, short, []string{"--pairs", "1", "--param", "protocol=tcp"})...)
		received := 0.0
		for _, run := range r.Runs {
			for _, m := range run.Metrics {
				switch {
				case m.Name == "path_mtu_bytes" && (m.Value == nil || fmt.Sprint(*m.Value) != run.Env):
					t.Errorf("%s, %s: the path's MTU is %v: %s", kind, run.Env, m.Value, m.Why)
				case m.Name == "received_bits_per_second" && m.Value != nil:
					received += *m.Value / 8 // in the one second that is measured
				}
			}
		}
		through := float64(c.encrypted(t) - before)
		if kind == "plain" && through > 0 || kind == "wireguard" && through < received {
			t.Errorf("%s: %g bytes went through the tunnel, of at least %g", kind, through, received)
		}
		t.Logf("%s: %g bytes went through the tunnel, of at least %g", kind, through, received)
	}
	c.nothingLeft(t)
}

// encrypted is how many bytes have gone through the tunnel.
func (c *running) encrypted(t *testing.T) int64 {
	t.Helper()
	bytes, err := c.second.Encrypted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// network runs k8s-network with three arms, and checks what the result says of the load.
func (c *running) network(t *testing.T, loadNode, client, way string, args []string) {
	t.Helper()
	r := c.measure(t, "k8s-network", append(args, "--pairs", "1")...)
	if len(r.Environments) != 3 || len(r.Runs) != 6 || r.Design.Client != client {
		t.Errorf("%d environments, %d runs, the load is on %q", len(r.Environments), len(r.Runs), r.Design.Client)
	}
	for _, run := range r.Runs {
		for _, m := range run.Metrics {
			if m.Value == nil {
				t.Errorf("%s: no %s: %s", run.Env, m.Name, m.Why)
			} else {
				t.Logf("%s, %s, from %s: %s %g", run.Case, run.Env, way, m.Name, *m.Value)
			}
		}
	}
	for _, e := range r.Environments {
		if e.Params["node"] != cluster.First || e.Params["load-node"] != loadNode || !strings.HasSuffix(e.Network, "from a second pod on "+way) {
			t.Errorf("%s: the server's node is %q, the load's %q, the way %q", e.Label, e.Params["node"], e.Params["load-node"], e.Network)
		}
		if why := e.Missing["software.encryption.network"]; (e.Label == "node") != strings.Contains(why, "network of their nodes") || (e.Label != "node") != strings.Contains(why, "no DaemonSet") {
			t.Errorf("%s: whether the network encrypts is missing because %q", e.Label, why)
		}
	}
}

// services reports whether benchmarks have so many services.
func (c *running) services(number int) error {
	var all corev1.ServiceList
	if err := c.API("GET", "/api/v1/namespaces/default/services?labelSelector=app.kubernetes.io/managed-by=teescope-bench", nil, &all); err != nil {
		return err
	}
	return count("services", len(all.Items), number)
}

// storage runs experiment k8s-storage on a volume with limits, whose storage class is read back.
func (c *running) storage(t *testing.T) {
	r := c.measure(t, "k8s-storage", "--env", "plain="+c.env("image="+cluster.BenchImage), "--env", "volume="+c.env("size=1Gi,storageClass="+cluster.LimitedClass+",image="+cluster.BenchImage), "--pairs", "1",
		"--param", "rw=randread", "--param", "iodepth=1", "--param", "size=16MiB", "--param", "runtime=1s", "--param", "ramp=0s", "--param", "steady=off", "--param", "direct=0")
	if len(r.Environments) != 2 || len(r.Runs) != 2 {
		t.Fatalf("%d environments, %d runs", len(r.Environments), len(r.Runs))
	}
	p := r.Environments[1].Params
	for name, want := range map[string]string{"storageClass": cluster.LimitedClass, "storageClass.provisioner": "teescope.test/folder", "storageClass.readOperationsPerSecond": "500", "volume.capacity": "1Gi"} {
		if p[name] != want {
			t.Errorf("%s is %q, want %q; all are %v", name, p[name], want, p)
		}
	}
	c.nothingLeft(t)
}
