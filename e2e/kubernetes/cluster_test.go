package kubernetes

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/internal/await"
)

const (
	nodeName = "node-1"
	nodeIP   = "192.168.77.1"
	token    = "admin" // nobody else is in this network
)

// cluster is a Kubernetes in the namespaces of a test.
type cluster struct {
	files  string // of the test, from outside
	state  string // keys, configurations and logs
	pool   *x509.CertPool
	client *http.Client

	failed sync.Once // the test, if it did
}

// member is a node: its address, the addresses of its pods, and for another than the first the network namespace in which
// its programs run, with folders of their own. It is on the same machine.
type member struct{ name, ip, pods, space string }

var (
	first  = member{name: nodeName, ip: nodeIP, pods: "10.244.0.0/24"}
	second = member{name: "node-2", ip: "192.168.77.2", pods: "10.244.1.0/24", space: "/run/netns/node-2"}
)

// of is the name that something of the node has.
func (m member) of(name string) string {
	if m.space == "" {
		return name
	}
	return name + "-" + m.name
}

// within is a command in the node's network.
func (m member) within(program string, args ...string) []string {
	if m.space == "" {
		return append([]string{program}, args...)
	}
	return append([]string{"nsenter", "--net=" + m.space, program}, args...)
}

// startServer starts etcd and an API server, and waits until that is ready.
func startServer(t *testing.T, files string) *cluster {
	t.Helper()
	c := &cluster{files: files, state: "/run/teescope", pool: x509.NewCertPool()}
	if err := os.MkdirAll(filepath.Join(c.state, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"link set lo up",
		"link add node0 type veth peer name node0p", "link set node0p up",
		"addr add " + nodeIP + "/24 dev node0", "link set node0 up", "route add default dev node0",
	} {
		command(t, "ip", strings.Fields(line)...)
	}
	c.certify(t)
	tokens := token + ",admin,admin,system:masters\n"
	for _, m := range []member{first, second} {
		tokens += m.name + ",system:node:" + m.name + "," + m.name + ",system:nodes\n"
		c.kubeconfig(t, m.of("node")+".conf", m.name)
	}
	c.write(t, "tokens.csv", tokens)
	c.kubeconfig(t, "admin.conf", token)
	c.start(t, "etcd", "etcd", "--data-dir", filepath.Join(c.state, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380")
	c.component(t, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--advertise-address="+nodeIP, "--bind-address=0.0.0.0", "--secure-port=6443",
		"--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv", "--authorization-mode=Node,RBAC",
		"--service-account-key-file=accounts.pub", "--service-account-signing-key-file=accounts.key", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.96.0.0/16", "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true")
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.pool}}, Timeout: time.Minute}
	await.Event(t, "the API server is ready", func() error { return c.api("GET", "/readyz", nil, nil) })
	return c
}

// startNode starts the rest of Kubernetes and the first node.
func (c *cluster) startNode(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	// Packets between pods of one bridge pass iptables, where services are, only with this.
	_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0)
	c.component(t, "kube-controller-manager", "--kubeconfig=admin.conf", "--service-account-private-key-file=accounts.key", "--root-ca-file=ca.crt",
		"--use-service-account-credentials", "--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16", "--leader-elect=false", "--flex-volume-plugin-dir=/run/teescope/volumes")
	c.component(t, "kube-scheduler", "--kubeconfig=admin.conf", "--leader-elect=false")
	c.answerNames(t)
	c.join(t, first)
}

// startSecond starts another node, in a network namespace that is joined to the first one's by a pair of interfaces. Each
// node routes to the pods of the other.
func (c *cluster) startSecond(t *testing.T) {
	t.Helper()
	m := second
	command(t, "ip", "netns", "add", m.name)
	command(t, "ip", "link", "set", "node0p", "netns", m.name)
	command(t, "ip", "route", "add", m.pods, "via", m.ip)
	for _, run := range [][]string{
		m.within("ip", "link", "set", "lo", "up"),
		m.within("ip", "addr", "add", m.ip+"/24", "dev", "node0p"),
		m.within("ip", "link", "set", "node0p", "up"),
		m.within("ip", "route", "add", "default", "via", nodeIP), // the first node's pods, too
		m.within("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables || true"),
	} {
		command(t, run[0], run[1:]...)
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	for _, procs := range hierarchies { // two kubelets must not take the other's groups for leftovers
		if err := os.Mkdir(filepath.Join(filepath.Dir(procs), m.name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.join(t, m)
}

// join starts a node's programs, imports the images of the test's files, and waits until the node is ready.
func (c *cluster) join(t *testing.T, m member) {
	t.Helper()
	socket, root, groups := "/run/containerd/containerd.sock", "/var/lib/kubelet", "/"
	if m.space != "" {
		socket, root, groups = "/run/"+m.of("containerd")+"/containerd.sock", "/var/lib/"+m.of("kubelet"), "/"+m.name
	}
	c.write(t, m.of("cni")+"/10-bridge.conflist", `{"cniVersion": "1.0.0", "name": "bridge", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "/run/`+m.of("ipam")+`", "ranges": [[{"subnet": "`+m.pods+`"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}`)
	// A container may lack CAP_SYS_RESOURCE, without which nothing can lower a score for the OOM killer.
	c.write(t, m.of("containerd")+".toml", `version = 2
root = "/var/lib/`+m.of("containerd")+`"
state = "/run/`+m.of("containerd")+`"
[grpc]
 address = "`+socket+`"
[plugins."io.containerd.internal.v1.opt"]
 path = "/run/teescope/`+m.of("opt")+`"
[plugins."io.containerd.grpc.v1.cri"]
 sandbox_image = "`+pauseImage+`"
 restrict_oom_score_adj = true
 disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
 bin_dir = "/usr/lib/cni"
 conf_dir = "/run/teescope/`+m.of("cni")+`"
[plugins."io.containerd.grpc.v1.cri".containerd]
 snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
 runtime_type = "io.containerd.runc.v2"
`)
	run := m.within("containerd", "--config", m.of("containerd")+".toml")
	c.start(t, m.of("containerd"), run[0], run[1:]...)
	await.Event(t, "containerd answers", func() error {
		out, err := exec.Command("ctr", "--address", socket, "version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("ctr version: %w: %s", err, out)
		}
		return nil
	})
	images, err := filepath.Glob(filepath.Join(c.files, "*.tar"))
	if err != nil || len(images) == 0 {
		t.Fatalf("no images in %s: %v", c.files, err)
	}
	for _, image := range images {
		t.Logf("%s", command(t, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", image))
	}
	// Cgroup v1 and machines with swap are supported, if asked for; the disks are in memory.
	c.write(t, m.of("kubelet")+".yaml", `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: `+groups+`
podLogsDir: /var/log/`+m.of("pods")+`
containerRuntimeEndpoint: unix://`+socket+`
failSwapOn: false
failCgroupV1: false
localStorageCapacityIsolation: false
evictionHard: {nodefs.available: "1%", imagefs.available: "1%", memory.available: "50Mi"}
clusterDNS: ["`+nodeIP+`"]
clusterDomain: cluster.local
oomScoreAdj: 0
resolvConf: ""
volumePluginDir: /run/teescope/volumes
`)
	c.componentOf(t, m, "kubelet", "--config="+m.of("kubelet")+".yaml", "--kubeconfig="+m.of("node")+".conf", "--root-dir="+root, "--hostname-override="+m.name, "--node-ip="+m.ip, "--v=2")
	c.componentOf(t, m, "kube-proxy", "--kubeconfig=admin.conf", "--hostname-override="+m.name, "--cluster-cidr=10.244.0.0/16", "--proxy-mode=iptables",
		"--conntrack-max-per-core=0", "--oom-score-adj=0")
	await.Event(t, m.name+" is ready", func() error {
		var n corev1.Node
		if err := c.api("GET", "/api/v1/nodes/"+m.name, nil, &n); err != nil {
			return err
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				t.Logf("node %s is ready: kubelet %s, %s, kernel %s", n.Name, n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.ContainerRuntimeVersion, n.Status.NodeInfo.KernelVersion)
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", n.Status.Conditions)
	})
}

// start runs a program until the end of the test. Its output goes to a file.
func (c *cluster) start(t *testing.T, name, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(c.state, "logs", name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.state, log, log
	t.Cleanup(func() { _ = log.Close() })
	await.Start(t, cmd)
	t.Cleanup(func() { c.failed.Do(func() { c.explain(t) }) }) // while everything still runs
}

func (c *cluster) component(t *testing.T, name string, flags ...string) {
	t.Helper()
	c.componentOf(t, first, name, flags...)
}

func (c *cluster) componentOf(t *testing.T, m member, name string, flags ...string) {
	t.Helper()
	run := m.within(filepath.Join(c.files, "components"), append([]string{name}, flags...)...)
	c.start(t, m.of(name), run[0], run[1:]...)
}

// explain prints what helps to understand a failure, while everything still runs.
func (c *cluster) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	if c.client != nil {
		var pods corev1.PodList
		if err := c.api("GET", "/api/v1/pods", nil, &pods); err == nil {
			for _, p := range pods.Items {
				status, _ := json.Marshal(p.Status.ContainerStatuses)
				t.Logf("pod %s/%s: %s %s", p.Namespace, p.Name, p.Status.Phase, status)
			}
		}
		var events corev1.EventList
		if err := c.api("GET", "/api/v1/events", nil, &events); err == nil {
			for _, e := range events.Items {
				if e.Type != corev1.EventTypeNormal {
					t.Logf("event %s/%s: %s", e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Message)
				}
			}
		}
	}
	logs, _ := filepath.Glob(filepath.Join(c.state, "logs", "*"))
	containers, _ := filepath.Glob("/var/log/pods*/*/*/*.log")
	for _, name := range append(logs, containers...) {
		b, _ := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		t.Logf("%s ends with:\n%s", name, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// api asks the API server. A body is JSON; that of a PATCH is merged.
func (c *cluster) api(method, path string, body, into any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequest(method, "https://"+nodeIP+":6443"+path, &content)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return ask(c.client, r, into)
}

// ask decodes a JSON answer.
func ask(client *http.Client, r *http.Request, into any) error {
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, answer.Status, text)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// helm runs Helm against the cluster.
func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(c.files, "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.state, "admin.conf"))
	for _, kind := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, "HELM_"+kind+"_HOME="+filepath.Join(c.state, "helm"))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *cluster) write(t *testing.T, name, text string) {
	t.Helper()
	name = filepath.Join(c.state, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) kubeconfig(t *testing.T, name, token string) {
	t.Helper()
	c.write(t, name, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://`+nodeIP+`:6443", certificate-authority: `+c.state+`/ca.crt}}]
users: [{name: u, user: {token: `+token+`}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`)
}

// certify makes the authority, the server's certificate and the key that signs the tokens of accounts.
func (c *cluster) certify(t *testing.T) {
	t.Helper()
	key := func(name string) *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		c.write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
		return k
	}
	sign := func(name string, cert, by *x509.Certificate, public crypto.PublicKey, with *ecdsa.PrivateKey) {
		cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, cert, by, public, with)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		c.write(t, name, string(text))
		c.pool.AppendCertsFromPEM(text)
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	own := key("ca.key")
	sign("ca.crt", authority, authority, own.Public(), own)
	sign("server.crt", &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(nodeIP), net.ParseIP("10.96.0.1")},
		DNSNames:    []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}, authority, key("server.key").Public(), own)
	der, err := x509.MarshalPKIXPublicKey(key("accounts.key").Public())
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "accounts.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}

// answerNames is the cluster's DNS: it knows the names of services.
func (c *cluster) answerNames(t *testing.T) {
	t.Helper()
	at, err := net.ListenPacket("udp", nodeIP+":53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = at.Close() })
	go func() {
		question := make([]byte, 512)
		for {
			n, from, err := at.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, err := c.answerName(question[:n]); err == nil {
				_, _ = at.WriteTo(answer, from)
			}
		}
	}()
}

func (c *cluster) answerName(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	q := m.Questions[0]
	m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
	if name, ok := strings.CutSuffix(q.Name.String(), ".svc.cluster.local."); ok {
		service, namespace, _ := strings.Cut(name, ".")
		var s corev1.Service
		if err := c.api("GET", "/api/v1/namespaces/"+namespace+"/services/"+service, nil, &s); err == nil {
			m.RCode = dnsmessage.RCodeSuccess
			if ip := net.ParseIP(s.Spec.ClusterIP).To4(); ip != nil && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
					Body:   &dnsmessage.AResource{A: [4]byte(ip)},
				}}
			}
		}
	}
	return m.Pack()
}
