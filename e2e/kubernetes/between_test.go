package kubernetes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/internal/await"
)

const fioImage = "teescope.test/fio:1"

// between runs experiment k8s-network between two pods by each way, on one node and on two, and ends one by force. Nothing
// stays.
func (c *cluster) between(t *testing.T) {
	arms := func(params string) (envs []string) {
		for _, via := range []string{"node", "pod", "service"} {
			envs = append(envs, "--env", via+"="+c.env("load=pod,cpus=100m,memory=256Mi,image="+shellImage+",via="+via+","+params))
		}
		return envs
	}
	short := []string{"--param", "omit=100ms", "--param", "measure=1s", "--param", "round-trips=1000", "--param", "rate=1000000", "--param", "congestion="}

	killed := await.Start(t, c.bench("k8s-network", "killed-network.json", slices.Concat(arms("nodes=same")[4:], short, []string{"--pairs", "1000"})...))
	await.Event(t, "the pods of the benchmark run, and there is a service", func() error { return errors.Join(c.phase(2, corev1.PodRunning), c.services(1)) })
	killed.Stop(syscall.SIGKILL)
	await.Event(t, "the pods of the killed benchmark have ended", func() error { return c.phase(2, corev1.PodSucceeded, corev1.PodFailed) })

	c.network(t, nodeName, "same host", "the same node", slices.Concat(arms("nodes=same"), short))
	c.nothingLeft(t)
	if out, err := c.bench("k8s-network", "other.json", "--env", c.env("load=pod,nodes=other,image="+shellImage)).CombinedOutput(); err == nil || !strings.Contains(string(out), "needs two nodes, and the cluster has 1") {
		t.Errorf("another node on a cluster of one: %v, %s", err, out)
	}
	c.startSecond(t)
	c.network(t, second.name, "a pod on another node", "another node", slices.Concat(arms("nodes=other,loadSelector=kubernetes.io/hostname="+second.name), short))
	c.nothingLeft(t)
}

// network runs k8s-network with three arms, and checks what the result says of the load.
func (c *cluster) network(t *testing.T, loadNode, client, way string, args []string) {
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
		if e.Params["node"] != nodeName || e.Params["load-node"] != loadNode || !strings.HasSuffix(e.Network, "from a second pod on "+way) {
			t.Errorf("%s: the server's node is %q, the load's %q, the way %q", e.Label, e.Params["node"], e.Params["load-node"], e.Network)
		}
		if why := e.Missing["software.encryption.network"]; (e.Label == "node") != strings.Contains(why, "network of their nodes") || (e.Label != "node") != strings.Contains(why, "no DaemonSet") {
			t.Errorf("%s: whether the network encrypts is missing because %q", e.Label, why)
		}
	}
}

// services reports whether benchmarks have so many services.
func (c *cluster) services(number int) error {
	var all corev1.ServiceList
	if err := c.api("GET", "/api/v1/namespaces/default/services?labelSelector=app.kubernetes.io/managed-by=teescope-bench", nil, &all); err != nil {
		return err
	}
	return count("services", len(all.Items), number)
}

// storage runs experiment k8s-storage on a volume of a storage class, which is read back.
func (c *cluster) storage(t *testing.T) {
	if _, err := os.Stat(filepath.Join(c.files, "fio.tar")); err != nil {
		t.Skip("fio is not here (package fio)")
	}
	c.create(t, "/apis/storage.k8s.io/v1/storageclasses", map[string]any{
		"metadata": map[string]any{"name": "fast"}, "provisioner": "kubernetes.io/no-provisioner", "parameters": map[string]string{"cachingMode": "None"}})
	c.volume(t, "fast", "1Gi", "fast")
	r := c.measure(t, "k8s-storage", "--env", "plain="+c.env("image="+fioImage), "--env", "volume="+c.env("size=1Gi,storageClass=fast,image="+fioImage), "--pairs", "1",
		"--param", "rw=randread", "--param", "iodepth=1", "--param", "size=16MiB", "--param", "runtime=1s", "--param", "ramp=0s", "--param", "steady=off", "--param", "direct=0")
	if len(r.Environments) != 2 || len(r.Runs) != 2 {
		t.Fatalf("%d environments, %d runs", len(r.Environments), len(r.Runs))
	}
	p := r.Environments[1].Params
	for name, want := range map[string]string{"storageClass": "fast", "storageClass.provisioner": "kubernetes.io/no-provisioner", "storageClass.cachingMode": "None", "volume.capacity": "1Gi"} {
		if p[name] != want {
			t.Errorf("%s is %q, want %q; all are %v", name, p[name], want, p)
		}
	}
	c.nothingLeft(t)
}

// withFio writes the archive of an image with a shell and fio, where the machine has them.
func withFio(t *testing.T, dir string, put func(name string, content []byte)) {
	t.Helper()
	fio, err := exec.LookPath("fio")
	if err != nil {
		return
	}
	recipe := "FROM scratch\nCOPY sh /bin/\nCOPY empty /tmp/\nCOPY fio /usr/bin/\n"
	from := map[string]string{"sh": "/bin/busybox", "fio": fio}
	for _, word := range strings.Fields(command(t, "ldd", fio)) {
		if strings.HasPrefix(word, "/") { // a library, or the loader
			from[filepath.Base(word)] = word
			recipe += "COPY " + filepath.Base(word) + " " + filepath.Dir(word) + "/\n"
		}
	}
	put("fio/empty", nil)
	for name, path := range from {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put("fio/"+name, b)
	}
	put("fio/Containerfile", []byte(recipe))
	archive(t, dir, "fio", "-file", filepath.Join(dir, "fio/Containerfile"), "-name", fioImage)
}
