// Package cluster is a Kubernetes on this machine: etcd, containerd and runc of the machine, Kubernetes built from its Go module (folder
// components), and up to two nodes, each in namespaces of its own. The tests of package kubernetes start one, and `make cluster` one that
// stays up.
//
// A cluster lives in the namespaces of one process (Namespaces, Enter). When that ends, however it does, the kernel ends every other
// process in them, and their mounts and network devices are gone.
package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/internal/await"
)

const (
	serverIP   = "192.168.77.1" // of the first node, too
	serverPort = "6443"
	podRange   = "10.244.0.0/16"   // of all networks of pods
	services   = "10.96.0.0/16"    // of services
	nodes      = "192.168.77.0/24" // of nodes
)

// Ranges are the addresses of a cluster.
func Ranges() []string { return []string{nodes, podRange, services} }

// Barrier returns the command lines, for the network of a cluster's process, after which what arrives at an interface reaches nothing of
// the nodes but the API server. Kubelets and the other programs of the nodes listen on all their addresses. Pods and services are
// reached, also those that use a node's address (DNAT).
func Barrier(device string) []string {
	return []string{
		"iptables -w -A INPUT -i " + device + " -p tcp --dport " + serverPort + " -j ACCEPT",
		"iptables -w -A INPUT -i " + device + " -m conntrack --ctstate ESTABLISHED,RELATED,DNAT -j ACCEPT",
		"iptables -w -A INPUT -i " + device + " -j DROP",
		"iptables -w -A FORWARD -i " + device + " -d " + nodes + " -m conntrack ! --ctstate ESTABLISHED,RELATED,DNAT -j DROP",
	}
}

// Cluster is a running one.
type Cluster struct {
	// Files is a folder with components, helm, wireguard-go and the images to import (Prepare).
	Files string
	// State has keys, configurations, logs, and what pods store.
	State string
	// Log is where progress goes.
	Log func(format string, args ...any)
	// DiskLib: what nodes keep under /var/lib is on the disk of State, and not in memory.
	DiskLib bool
	// Client reaches the API server, and services and pods.
	Client *http.Client

	pool *x509.CertPool
	// tokens prove to the API server who asks: admin, or a node. Other users of this machine may reach the server (make cluster), so
	// only root can read them.
	tokens map[string]string

	mu       sync.Mutex
	programs []*await.Program
	nodes    []*Node
	closers  []io.Closer
}

// admin is the user who may do everything.
const admin = "admin"

// patience ends a wait whose event never comes. It is minutes, because the machine may do other things too.
const patience = 8 * time.Minute

// StartServer starts etcd and an API server, and waits until that is ready.
func (c *Cluster) StartServer(ctx context.Context) error {
	c.pool = x509.NewCertPool()
	if err := os.MkdirAll(filepath.Join(c.State, "logs"), 0o700); err != nil {
		return err
	}
	for _, line := range []string{ // a bridge, so that the address stays when a node leaves
		"link set lo up", "link add node0 type bridge", fmt.Sprintf("link set node0 mtu %d up", linkMTU),
		"addr add " + serverIP + "/24 dev node0", "route add default dev node0",
	} {
		if _, err := command(ctx, "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	c.tokens = map[string]string{admin: rand.Text(), First: rand.Text(), Second: rand.Text()}
	users := c.tokens[admin] + ",admin,admin,system:masters\n"
	for _, name := range []string{First, Second} {
		users += c.tokens[name] + ",system:node:" + name + "," + name + ",system:nodes\n"
	}
	if err := errors.Join(c.certify(), c.write("tokens.csv", users), c.kubeconfig("admin.conf", admin)); err != nil {
		return err
	}
	if err := c.start("etcd", exec.Command("etcd", "--data-dir", filepath.Join(c.State, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380")); err != nil {
		return err
	}
	if err := c.component("kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--advertise-address="+serverIP, "--bind-address=0.0.0.0", "--secure-port="+serverPort,
		"--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--anonymous-auth=false", "--token-auth-file=tokens.csv",
		"--kubelet-client-certificate=kubelet-client.crt", "--kubelet-client-key=kubelet-client.key", "--authorization-mode=Node,RBAC",
		"--service-account-key-file=accounts.pub", "--service-account-signing-key-file=accounts.key", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range="+services, "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true"); err != nil {
		return err
	}
	c.Client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.pool}}, Timeout: time.Minute}
	return c.Until(ctx, "the API server is ready", func() error { return c.API("GET", "/readyz", nil, nil) })
}

// StartControllers starts what a cluster needs besides an API server and nodes.
func (c *Cluster) StartControllers(ctx context.Context) error {
	if err := c.component("kube-controller-manager", "--kubeconfig=admin.conf", "--service-account-private-key-file=accounts.key", "--root-ca-file=ca.crt",
		"--use-service-account-credentials", "--allocate-node-cidrs", "--cluster-cidr="+podRange, "--leader-elect=false", "--flex-volume-plugin-dir="+filepath.Join(c.State, "plugins")); err != nil {
		return err
	}
	if err := c.component("kube-scheduler", "--kubeconfig=admin.conf", "--leader-elect=false"); err != nil {
		return err
	}
	if err := c.answerNames(); err != nil {
		return err
	}
	if err := c.nameNetworks(); err != nil {
		return err
	}
	return c.provideVolumes(ctx)
}

// Stop ends everything.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, closer := range c.closers {
		_ = closer.Close()
	}
	for _, n := range c.nodes { // with its first process the kernel ends the others, which nsenter awaits
		n.CutPower()
	}
	for i := len(c.programs) - 1; i >= 0; i-- {
		c.programs[i].Stop(syscall.SIGKILL)
	}
	c.closers, c.programs = nil, nil
}

// start runs a program until the cluster stops. Its output goes to a file.
func (c *Cluster) start(name string, cmd *exec.Cmd) error {
	log, err := os.OpenFile(filepath.Join(c.State, "logs", name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.State, log, log
	_, err = c.launch(cmd)
	return errors.Join(err, log.Close()) // the program has it
}

func (c *Cluster) launch(cmd *exec.Cmd) (*await.Program, error) {
	p, err := await.Launch(cmd)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.programs = append(c.programs, p)
	return p, nil
}

func (c *Cluster) component(name string, flags ...string) error {
	return c.start(name, exec.Command(filepath.Join(c.Files, "components"), append([]string{name}, flags...)...))
}

// Until repeats check until it returns nil. It fails with the last error of check when the context or patience is over, or as soon as a
// program of the cluster has ended.
func (c *Cluster) Until(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		ended := c.endedProgram() // before the check, which sees what the program did last
		err := check()
		switch {
		case err == nil:
			return nil
		case ended != "":
			return fmt.Errorf("wait until %s: %w; %s", what, err, ended)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, ctx.Err(), err)
		}
	}
}

// endedProgram returns how a program has ended that should run, and the end of its log.
func (c *Cluster) endedProgram() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.programs {
		select {
		case <-p.Done():
			name := filepath.Base(p.Cmd.Path)
			if log, ok := p.Stdout.(*os.File); ok {
				name = tail(log.Name(), 5)
			}
			return fmt.Sprintf("%s ended: %s; %s", strings.Join(p.Args[:min(2, len(p.Args))], " "), p.ProcessState, name)
		default:
		}
	}
	return ""
}

// tail is a file's name and last lines.
func tail(file string, most int) string {
	b, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return file + " ends with:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// Explain is what helps to understand a failure, while everything still runs.
func (c *Cluster) Explain() string {
	var out strings.Builder
	if c.Client != nil {
		var pods corev1.PodList
		if err := c.API("GET", "/api/v1/pods", nil, &pods); err == nil {
			for _, p := range pods.Items {
				status, _ := json.Marshal(p.Status.ContainerStatuses)
				fmt.Fprintf(&out, "pod %s/%s: %s %s\n", p.Namespace, p.Name, p.Status.Phase, status)
			}
		}
		var events corev1.EventList
		if err := c.API("GET", "/api/v1/events", nil, &events); err == nil {
			for _, e := range events.Items {
				if e.Type != corev1.EventTypeNormal {
					fmt.Fprintf(&out, "event %s/%s: %s\n", e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Message)
				}
			}
		}
	}
	logs, _ := filepath.Glob(filepath.Join(c.State, "logs", "*"))
	for _, n := range c.nodes {
		containers, _ := filepath.Glob(n.path("/var/log/pods/*/*/*.log"))
		logs = append(logs, containers...)
	}
	for _, name := range logs {
		fmt.Fprintln(&out, tail(name, 20))
	}
	return out.String()
}

// API asks the API server. A body is JSON; that of a PATCH is merged.
func (c *Cluster) API(method, path string, body, into any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequest(method, "https://"+serverIP+":"+serverPort+path, &content)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.tokens[admin])
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return c.RequestJSON(r, into)
}

// RequestJSON makes a request and decodes a JSON answer.
func (c *Cluster) RequestJSON(r *http.Request, into any) error {
	answer, err := c.Client.Do(r)
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

// Helm runs Helm against the cluster.
func (c *Cluster) Helm(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(c.Files, "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	for _, kind := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, "HELM_"+kind+"_HOME="+filepath.Join(c.State, "helm"))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Kubeconfig is the administrator's.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.State, "admin.conf") }

func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// write makes a file of State that only root can read.
func (c *Cluster) write(name, text string) error {
	name = filepath.Join(c.State, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// kubeconfig writes a file with which a program asks the API server as a user.
func (c *Cluster) kubeconfig(name, user string) error {
	return c.write(name, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://`+serverIP+`:`+serverPort+`", certificate-authority: "`+c.State+`/ca.crt"}}]
users: [{name: u, user: {token: "`+c.tokens[user]+`"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`)
}
