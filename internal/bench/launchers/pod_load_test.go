package launchers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// cluster stands for kubectl and a cluster: a pod is its command, run here, with an address of its own on the loopback.
type cluster struct {
	mu       sync.Mutex
	asked    []string          // what kubectl was told, without kubeconfig and the pods' specifications
	services [][]byte          // created
	answers  map[string]string // by what follows "get"
	pods     []*host.Process
	machines bool     // each pod has a boot ID of its own
	news     []string // files with what the watches of the pods print, in turn; then nothing
}

func (k *cluster) host(t *testing.T) *host.Host {
	if micro.Program == nil {
		t.Skip("no worker for this architecture")
	}
	local := host.Local()
	h := *local
	h.Exec = func(ctx context.Context, c host.Cmd) (host.Output, error) {
		if c.Argv[0] != "kubectl" {
			return local.Exec(ctx, c)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		text := strings.Join(c.Argv[1:], " ")
		k.asked = append(k.asked, text)
		if c.Argv[1] == "create" {
			k.services = append(k.services, c.Stdin)
			return host.Output{Stdout: []byte(fmt.Sprintf("127.0.1.%d", len(k.services)))}, nil
		}
		for what, answer := range k.answers {
			if strings.Contains(text, "get "+what) {
				if answer == "" {
					return host.Output{Code: 1, Stderr: []byte("Error from server (Forbidden)\n")}, errors.New("run kubectl: exit status 1")
				}
				return host.Output{Stdout: []byte(answer)}, nil
			}
		}
		return host.Output{}, ctx.Err()
	}
	h.Start = func(ctx context.Context, c host.Cmd) (*host.Process, error) {
		if c.Argv[0] != "kubectl" {
			return local.Start(ctx, c)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.asked = append(k.asked, strings.Join(c.Argv[1:3], " "))
		if c.Argv[1] == "get" { // what the cluster says of the pods from now on
			news := "/dev/null"
			if len(k.news) > 0 {
				news, k.news = k.news[0], k.news[1:]
			}
			return local.Start(ctx, host.Cmd{Argv: []string{"cat", news}, Pipe: true})
		}
		var pod struct {
			Spec struct{ Containers []struct{ Command []string } }
		}
		for _, a := range c.Argv {
			if spec, ok := strings.CutPrefix(a, "--overrides="); ok {
				if err := json.Unmarshal([]byte(spec), &pod); err != nil {
					return nil, err
				}
			}
		}
		env := map[string]string{"POD_IP": fmt.Sprintf("127.0.0.%d", len(k.pods)+1)}
		command := slices.Clone(pod.Spec.Containers[0].Command)
		for i := range command {
			command[i] = expandAsKubelet(command[i], env)
		}
		if last := &command[len(command)-1]; k.machines {
			*last = strings.Replace(*last, "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/random/uuid", 1)
		}
		p, err := local.Start(ctx, host.Cmd{Argv: command, Pipe: true, Env: env})
		if err == nil {
			k.pods = append(k.pods, p)
			t.Cleanup(p.Stop)
		}
		return p, err
	}
	return &h
}

// expandAsKubelet replaces $(NAME) of a container's command by the variable; one that is not there stays, and $$ is a $
// (field command of Kubernetes' Container, API reference v1).
func expandAsKubelet(text string, env map[string]string) string {
	return regexp.MustCompile(`\$\$|\$\([^)]*\)`).ReplaceAllStringFunc(text, func(s string) string {
		if s == "$$" {
			return "$"
		}
		if v, ok := env[s[2:len(s)-1]]; ok {
			return v
		}
		return s
	})
}

// open opens an environment whose pods work in a folder of the test, whose name no kubelet may change.
func (k *cluster) open(t *testing.T, given bench.Params) (bench.Environment, string) {
	t.Helper()
	work := filepath.Join(t.TempDir(), "$(POD_IP) $$")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	given["work"] = work
	p, err := bench.Complete("launcher pod", pod.Params, given)
	if err != nil {
		t.Fatal(err)
	}
	e, err := pod.Open(t.Context(), k.host(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return e, work
}

// ended waits until all pods have ended and left nothing.
func (k *cluster) ended(t *testing.T, work string) {
	t.Helper()
	await.Event(t, "the pods have ended and their folders are gone", func() error {
		for i, p := range k.pods {
			select {
			case <-p.Done():
			default:
				return fmt.Errorf("pod %d of %d runs", i+1, len(k.pods))
			}
		}
		if left, _ := filepath.Glob(filepath.Join(work, "*")); len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
}

// told is what kubectl was told, with one name for the environment.
func (k *cluster) told(e bench.Environment) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.ReplaceAll(strings.Join(k.asked, "\n"), e.(*podEnv).name, "NAME")
}

// reached is a job with a load, at the places that the environment names.
func reached(t *testing.T, e bench.Environment, outside string) bench.Job {
	t.Helper()
	in, out, way, err := e.(bench.Reached).Reach(t.Context(), bench.Place{Host: "127.0.0.1", Ports: []int{1, 2, 3}})
	if err != nil || way == "" || len(in.Ports) != 3 || !slices.Equal(in.Ports, out.Ports) {
		t.Fatalf("%+v, %+v, %q, %v", in, out, way, err)
	}
	return bench.Job{
		Inside:  host.Cmd{Argv: []string{"sh", "-c", "echo serving at $AT $(cat '{work}/conf'); echo ready; exec sleep 6000"}, Env: map[string]string{"AT": in.Host}, Ready: "ready"},
		Files:   []bench.File{{Name: "conf", Data: []byte("bind " + in.Host)}},
		Outside: &host.Cmd{Argv: []string{"sh", "-c", fmt.Sprintf("echo loading %s:%d in '{work}'; %s", out.Host, out.Ports[0], outside)}},
	}
}

// TestPodLoad: a load runs in a second pod and goes to the service, whose address it finds; nothing is left.
func TestPodLoad(t *testing.T) {
	k := &cluster{answers: map[string]string{"pod teescope-pod-": "1234-abcd"}}
	e, work := k.open(t, bench.Params{"load": "pod", "via": "service", "nodes": "other"})
	job := reached(t, e, "cat")
	job.Window = [2]string{"begin", "end"}
	for range 2 {
		o, err := e.Run(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(o.Inside.Stdout), "serving at 127.0.0.1 bind 127.0.0.1\nready\n"; got != want {
			t.Errorf("inside said %q, want %q", got, want)
		}
		port := e.(*podEnv).ports[0]
		if got, want := string(o.Outside.Stdout), fmt.Sprintf("loading 127.0.1.1:%d in %s\ngo on\ngo on\n", port, e.(*podEnv).load.work); got != want {
			t.Errorf("outside said %q, want %q", got, want)
		}
	}
	var service struct {
		Metadata struct {
			OwnerReferences []struct{ Kind, Name, UID string }
		}
		Spec struct {
			Selector map[string]string
			Ports    []struct {
				Protocol string
				Port     int
			}
		}
	}
	if err := json.Unmarshal(k.services[0], &service); err != nil {
		t.Fatal(err)
	}
	name := e.(*podEnv).name
	if o := service.Metadata.OwnerReferences; len(o) != 1 || o[0].Kind != "Pod" || o[0].Name != name || o[0].UID != "1234-abcd" ||
		service.Spec.Selector[podInstance] != name || service.Spec.Selector[podComponent] != "server" || len(service.Spec.Ports) != 6 {
		t.Errorf("service %s", k.services[0])
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	k.ended(t, work)
	want := "delete pods --selector=" + podLabel + " --field-selector=status.phase!=Running,status.phase!=Pending --wait=false\n" +
		"run NAME\nrun NAME-load\nget pods\n" +
		"get pod NAME --output=jsonpath={.metadata.uid}\n" +
		"create --filename=- --output=jsonpath={.spec.clusterIP}\n" +
		"delete --ignore-not-found pod/NAME pod/NAME-load service/NAME"
	if got := k.told(e); got != want {
		t.Errorf("kubectl was told\n%s\nwant\n%s", got, want)
	}
}

// TestPodLost: pods whose run was ended by force are removed, and the next run has new ones, at their addresses.
func TestPodLost(t *testing.T) {
	k := &cluster{answers: map[string]string{"pod teescope-pod-": "1234-abcd"}}
	e, work := k.open(t, bench.Params{"load": "pod", "via": "service"})
	began := filepath.Join(t.TempDir(), "began")
	job := reached(t, e, "touch "+began+"; sleep 6000")
	first := e.(*podEnv).name
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := e.Run(ctx, job)
		ended <- err
	}()
	await.Event(t, "the load runs", func() error { _, err := os.Stat(began); return err })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	k.ended(t, work)
	job.Outside.Argv[2] = strings.Replace(job.Outside.Argv[2], "sleep 6000", "true", 1)
	o, err := e.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if second := e.(*podEnv).name; second == first || !strings.HasPrefix(string(o.Inside.Stdout), "serving at 127.0.0.3 bind 127.0.0.3\n") || !strings.HasPrefix(string(o.Outside.Stdout), "loading 127.0.1.2:") {
		t.Errorf("%s after %s: %q, %q", second, first, o.Inside.Stdout, o.Outside.Stdout)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	k.ended(t, work)
	if n := strings.Count(strings.Join(k.asked, "\n"), "delete --ignore-not-found pod/"); n != 2 {
		t.Errorf("pods were removed %d times, want 2", n)
	}
}

// TestPodGone: when the cluster loses the node of a pod, the run ends and says so, and the pods are removed without waiting for them.
// That is so also after the cluster has ended a watch, or did not answer one.
func TestPodGone(t *testing.T) {
	defer func(pause time.Duration) { watchPause = pause }(watchPause)
	watchPause = 0
	closed, pipe := filepath.Join(t.TempDir(), "closed"), filepath.Join(t.TempDir(), "news")
	if err := errors.Join(os.WriteFile(closed, []byte("a Running True \nb Running True \n"), 0o600), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	k := &cluster{news: []string{closed, "/dev/null", pipe}}
	news, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer news.Close()
	e, work := k.open(t, bench.Params{"load": "pod"})
	began := filepath.Join(t.TempDir(), "began")
	job := reached(t, e, "touch "+began+"; sleep 6000")
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), job)
		ended <- err
	}()
	await.Event(t, "the job runs", func() error { _, err := os.Stat(began); return err })
	if _, err := news.WriteString("b Running True \na Running False ContainersNotReady\nb Running False \n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, bench.ErrGone) || !strings.Contains(err.Error(), "node b has left the cluster") {
		t.Errorf("the run ended with %v", err)
	}
	k.ended(t, work)
	if told := k.told(e); !strings.HasSuffix(told, "delete --ignore-not-found pod/NAME pod/NAME-load --force --grace-period=0") {
		t.Errorf("kubectl was told\n%s", told)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestPodMachines: with a runtime class a pod may be a machine of its own, so one that replaces another has another boot ID.
// Without, the pod is on another node.
func TestPodMachines(t *testing.T) {
	for _, class := range []string{"", "kata"} {
		t.Run(class, func(t *testing.T) {
			k := &cluster{machines: true}
			e, _ := k.open(t, bench.Params{"runtimeClass": class})
			var d result.Environment
			if err := e.(*podEnv).shell.Describe(t.Context(), &d); err != nil || (d.Boot == "") != (class != "") || d.Clock == nil {
				t.Errorf("%q: boot ID %q, clock %v, %v", class, d.Boot, d.Clock, err)
			}
			e.(*podEnv).cut()
			_, err := e.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"true"}}})
			if errors.Is(err, bench.ErrRebooted) != (class == "") || class != "" && err != nil {
				t.Errorf("%q: %v", class, err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPodDescribes: what the cluster says of its network and of the volume is recorded, and what it does not say has a reason.
func TestPodDescribes(t *testing.T) {
	sets := func(name, image string) string {
		return `{"items":[{"metadata":{"name":"kube-proxy","namespace":"kube-system"}},{"metadata":{"name":"` + name + `","namespace":"net"},"spec":{"template":{"spec":{"containers":[{"image":"` + image + `"}]}}}}]}`
	}
	for _, c := range []struct {
		name, sets, config, via string
		cni, encryption         string
		missing                 string // of the encryption
	}{
		{name: "cilium with WireGuard", sets: sets("cilium", "quay.io/cilium/cilium:v1.17.2"), config: `{"data":{"enable-wireguard":"true","enable-ipsec":"false"}}`, cni: "cilium quay.io/cilium/cilium:v1.17.2", encryption: "wireguard"},
		{name: "cilium with IPsec", sets: sets("cilium", "c"), config: `{"data":{"enable-ipsec":"true"}}`, cni: "cilium c", encryption: "ipsec"},
		{name: "cilium without", sets: sets("cilium", "c"), config: `{"data":{}}`, cni: "cilium c", encryption: "none"},
		{name: "calico with WireGuard", sets: sets("calico-node", "c"), config: `{"spec":{"wireguardEnabled":true}}`, cni: "calico c", encryption: "wireguard"},
		{name: "calico without", sets: sets("calico-node", "c"), config: `{"spec":{}}`, cni: "calico c", encryption: "none"},
		{name: "flannel", sets: sets("kube-flannel-ds", "f"), config: `{"data":{"net-conf.json":"{\"Network\":\"10.244.0.0/16\",\"Backend\":{\"Type\":\"vxlan\"}}"}}`, cni: "flannel f", encryption: "none"},
		{name: "flannel with WireGuard", sets: sets("kube-flannel-ds", "f"), config: `{"data":{"net-conf.json":"{\"Backend\":{\"Type\":\"wireguard\"}}"}}`, cni: "flannel f", encryption: "wireguard"},
		{name: "flannel with a newer backend", sets: sets("kube-flannel-ds", "f"), config: `{"data":{"net-conf.json":"{\"Backend\":{\"Type\":\"quic\"}}"}}`, cni: "flannel f", missing: `unknown: configmap/kube-flannel-cfg of flannel says "quic"`},
		{name: "cilium with another word", sets: sets("cilium", "c"), config: `{"data":{"enable-wireguard":"strict"}}`, cni: "cilium c", missing: `unknown: configmap/cilium-config of cilium says "strict"`},
		{name: "antrea with a newer mode", sets: sets("antrea-agent", "a"), config: `{"data":{"antrea-agent.conf":"trafficEncryptionMode: quic\n"}}`, cni: "antrea a", missing: `says "quic"`},
		{name: "flannel in another format", sets: sets("kube-flannel-ds", "f"), config: `{"data":{}}`, cni: "flannel f", missing: "cannot be read"},
		{name: "antrea", sets: sets("antrea-agent", "a"), config: `{"data":{"antrea-agent.conf":"featureGates:\n#trafficEncryptionMode: none\n"}}`, cni: "antrea a", encryption: "none"},
		{name: "antrea with WireGuard", sets: sets("antrea-agent", "a"), config: `{"data":{"antrea-agent.conf":"trafficEncryptionMode: wireGuard\n"}}`, cni: "antrea a", encryption: "wireguard"},
		{name: "a plugin that does not say", sets: sets("kindnet", "k"), cni: "kindnet k", missing: "does not know where kindnet states"},
		{name: "no plugin that is known", sets: sets("ours", "o"), missing: "no DaemonSet"},
		{name: "an account that may not ask", missing: "Forbidden"},
		{name: "a configuration that may not be read", sets: sets("cilium", "c"), cni: "cilium c", missing: "Forbidden"},
		{name: "an answer that is none", sets: "<html>", missing: "the cluster's answer"},
		{name: "the nodes' network", via: "node", missing: "network of their nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &cluster{answers: map[string]string{"daemonsets": c.sets, "configmap/": c.config, "felixconfigurations": c.config}}
			e := &podEnv{shell: shell{h: k.host(t), params: bench.Params{"namespace": "bench", "via": c.via}}}
			d := &result.Environment{Params: map[string]string{}}
			e.describeNetwork(t.Context(), d)
			why := d.Missing["software.encryption.network"]
			if d.Software.Versions["cni"] != c.cni || d.Software.Encryption["network"] != c.encryption || (why == "") != (c.missing == "") || !strings.Contains(why, c.missing) {
				t.Errorf("%v, %v, missing %v", d.Software.Versions, d.Software.Encryption, d.Missing)
			}
			if (c.cni == "") != (d.Missing["software.versions.cni"] != "") {
				t.Errorf("the plugin is %q, missing because %q", c.cni, d.Missing["software.versions.cni"])
			}
			if told := strings.Join(k.asked, "\n"); c.config != "" && !strings.Contains(told, "--namespace=net --output=json") {
				t.Errorf("kubectl was told\n%s", told)
			}
		})
	}
}

// TestPodVolume: the storage class and the volume are read back.
func TestPodVolume(t *testing.T) {
	answers := map[string]string{
		"persistentvolumeclaim/n-data": `{"spec":{"volumeName":"pvc-1","storageClassName":"premium"}}`,
		"storageclass/premium":         `{"provisioner":"disk.csi.azure.com","volumeBindingMode":"WaitForFirstConsumer","parameters":{"skuName":"PremiumV2_LRS","cachingMode":"None"}}`,
		"persistentvolume/pvc-1": `{"spec":{"capacity":{"storage":"20Gi"},"mountOptions":["noatime"],"volumeMode":"Filesystem","csi":{"driver":"disk.csi.azure.com","fsType":"ext4",
			"volumeAttributes":{"cachingMode":"ReadOnly","storage.kubernetes.io/csiProvisionerIdentity":"1","csi.storage.k8s.io/pv/name":"pvc-1"}}}}`,
	}
	want := map[string]string{
		"storageClass": "premium", "storageClass.provisioner": "disk.csi.azure.com", "storageClass.binding": "WaitForFirstConsumer",
		"storageClass.skuName": "PremiumV2_LRS", "storageClass.cachingMode": "None",
		"volume.capacity": "20Gi", "volume.mountOptions": "noatime", "volume.mode": "Filesystem", "volume.driver": "disk.csi.azure.com", "volume.fsType": "ext4", "volume.cachingMode": "ReadOnly",
	}
	k := &cluster{answers: answers}
	e := &podEnv{name: "n", shell: shell{h: k.host(t), params: bench.Params{}}}
	d := &result.Environment{Params: map[string]string{}}
	e.describeVolume(t.Context(), d)
	if fmt.Sprint(d.Params) != fmt.Sprint(want) || len(d.Missing) > 0 {
		t.Errorf("%v, want %v, missing %v", d.Params, want, d.Missing)
	}
	for what := range answers {
		t.Run(what, func(t *testing.T) {
			was := k.answers[what]
			k.answers[what] = ""
			defer func() { k.answers[what] = was }()
			d := &result.Environment{Params: map[string]string{}}
			e.describeVolume(t.Context(), d)
			if !strings.Contains(d.Missing["params.volume"], what) || !strings.Contains(d.Missing["params.volume"], "Forbidden") {
				t.Errorf("missing %v", d.Missing)
			}
		})
	}
}

// TestPodNodes: a second node is looked for before anything starts, where the cluster shows its nodes.
func TestPodNodes(t *testing.T) {
	for answer, want := range map[string]string{"node/a\nnode/b\n": "", "node/a\n": "the cluster has 1", "": ""} {
		t.Run(answer, func(t *testing.T) {
			k := &cluster{answers: map[string]string{"nodes": answer}}
			err := enoughNodes(t.Context(), k.host(t), bench.Params{"nodes": "other", "selector": "pool=tdx zone=a"})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", answer, err, want)
			}
			if !strings.Contains(strings.Join(k.asked, ""), "--selector=pool=tdx,zone=a") {
				t.Errorf("kubectl was told %q", k.asked)
			}
		})
	}
}
