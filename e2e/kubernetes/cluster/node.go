package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/internal/await"
)

// The names of the nodes.
const (
	First  = "node-1"
	Second = "node-2"
)

// Node is a set of namespaces in which a kubelet and what it needs run. The first node shares the network of the API server.
type Node struct {
	Name, IP string

	number int
	holder *await.Program // the first process of the node's PID namespace
}

// path is a file of the node as it is called outside of it.
func (n *Node) path(name string) string {
	return fmt.Sprintf("/proc/%d/root%s", n.holder.Process.Pid, name)
}

// enterCommand returns the command line that runs a program on the node.
func (n *Node) enterCommand(argv ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--target=%d", n.holder.Process.Pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}, argv...)
}

func (n *Node) output(ctx context.Context, argv ...string) (string, error) {
	argv = n.enterCommand(argv...)
	return command(ctx, argv[0], argv[1:]...)
}

func (n *Node) run(ctx context.Context, argv ...string) error {
	_, err := n.output(ctx, argv...)
	return err
}

// CutPower ends the node at once, as if its machine lost power.
func (n *Node) CutPower() { n.holder.Stop(syscall.SIGKILL) }

// startOn starts a program of a node.
func (c *Cluster) startOn(n *Node, name, program string, args ...string) error {
	argv := n.enterCommand(append([]string{program}, args...)...)
	return c.start(name+"-"+n.Name, exec.Command(argv[0], argv[1:]...))
}

// Join starts a node, imports the images, and waits until the node is ready. A second one is in a network namespace of its own, which
// is joined to the first one's by a pair of interfaces.
func (c *Cluster) Join(ctx context.Context) (*Node, error) {
	n := &Node{Name: First, IP: serverIP}
	flags := uintptr(Namespaces &^ syscall.CLONE_NEWNET)
	if len(c.nodes) > 0 {
		n, flags = &Node{Name: Second, IP: "192.168.77.2", number: 1}, Namespaces
	}
	if err := c.startHolder(ctx, n, flags); err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	if err := makeCgroups(n.Name); err != nil {
		return nil, err
	}
	if n.Name == Second {
		if err := c.joinNodes(ctx, c.nodes[0], n); err != nil {
			return nil, err
		}
	}
	for _, argv := range [][]string{
		// Packets between pods of one bridge pass iptables, where services are, only with the last setting.
		{"sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables || true"},
		// Outside of the cluster, nobody knows the way to pods.
		{"iptables", "-w", "-t", "nat", "-A", "POSTROUTING", "-s", podRange, "!", "-d", podRange, "-j", "MASQUERADE"},
	} {
		if err := n.run(ctx, argv...); err != nil {
			return nil, err
		}
	}
	if err := c.startContainerd(ctx, n); err != nil {
		return nil, err
	}
	return n, c.startKubelet(ctx, n)
}

// startHolder starts the process that holds the node's namespaces.
func (c *Cluster) startHolder(ctx context.Context, n *Node, namespaces uintptr) error {
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), holding+"="+n.Name)
	if c.DiskLib {
		lib := filepath.Join(c.State, n.Name, "lib")
		if err := os.MkdirAll(lib, 0o755); err != nil {
			return err
		}
		holder.Env = append(holder.Env, holdingLib+"="+lib)
	}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	p, err := c.launch(holder)
	if err != nil {
		return err
	}
	n.holder = p
	return p.Until(ctx, n.Name+" has its mounts", func() error {
		if p.Out.String() == "" {
			return errors.New("not yet")
		}
		return nil
	})
}

// socket is containerd's.
const socket = "/run/containerd/containerd.sock"

// startContainerd starts the node's containerd and imports the images.
func (c *Cluster) startContainerd(ctx context.Context, n *Node) error {
	runtimes, err := c.interfaces(n)
	if err != nil {
		return err
	}
	config := filepath.Join(n.Name, "containerd.toml")
	// A container may lack CAP_SYS_RESOURCE, without which nothing can lower a score for the OOM killer.
	if err := c.write(config, `version = 2
[grpc]
 address = "`+socket+`"
[plugins."io.containerd.internal.v1.opt"]
 path = "/run/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
 sandbox_image = "`+pauseImage+`"
 restrict_oom_score_adj = true
 disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
 bin_dir = "/usr/lib/cni"
 conf_dir = "`+filepath.Join(c.State, n.Name, "cni", Networks[0].Name)+`"
[plugins."io.containerd.grpc.v1.cri".containerd]
 snapshotter = "overlayfs"
 default_runtime_name = "`+Networks[0].Name+`"
`+runtimes); err != nil {
		return err
	}
	if err := c.startOn(n, "containerd", "containerd", "--config", filepath.Join(c.State, config)); err != nil {
		return err
	}
	if err := c.Until(ctx, "containerd answers", func() error { return n.run(ctx, "ctr", "--address", socket, "version") }); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(c.Files, "*.tar"))
	if err != nil || len(images) == 0 {
		return fmt.Errorf("no images in %s: %w", c.Files, err)
	}
	for _, image := range images {
		out, err := n.output(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", image)
		if err != nil {
			return err
		}
		c.Log("%s: %s", n.Name, out)
	}
	return nil
}

// startKubelet starts what makes a node of Kubernetes.
func (c *Cluster) startKubelet(ctx context.Context, n *Node) error {
	// Cgroup v1 and machines with swap are supported, if asked for; the disks may be in memory. Of the certificates of the authority, only the
	// API server's is a client's, so nobody else is let in.
	if err := errors.Join(c.kubeconfig(filepath.Join(n.Name, "kubelet.conf"), n.Name), c.write(filepath.Join(n.Name, "kubelet.yaml"), `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: "`+filepath.Join(c.State, "ca.crt")+`"}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /`+n.Name+`
containerRuntimeEndpoint: unix://`+socket+`
failSwapOn: false
failCgroupV1: false
localStorageCapacityIsolation: false
evictionHard: {nodefs.available: "1%", imagefs.available: "1%", memory.available: "50Mi"}
clusterDNS: ["`+serverIP+`"]
clusterDomain: cluster.local
oomScoreAdj: 0
resolvConf: ""
volumePluginDir: `+filepath.Join(c.State, n.Name, "plugins")+`
`)); err != nil {
		return err
	}
	components := filepath.Join(c.Files, "components")
	if err := c.startOn(n, "kubelet", components, "kubelet", "--config="+filepath.Join(c.State, n.Name, "kubelet.yaml"), "--kubeconfig="+filepath.Join(c.State, n.Name, "kubelet.conf"),
		"--hostname-override="+n.Name, "--node-ip="+n.IP, "--v=2"); err != nil {
		return err
	}
	if err := c.startOn(n, "kube-proxy", components, "kube-proxy", "--kubeconfig="+c.Kubeconfig(), "--hostname-override="+n.Name, "--cluster-cidr="+podRange, "--proxy-mode=iptables",
		"--iptables-localhost-nodeports=false", "--conntrack-max-per-core=0", "--oom-score-adj=0"); err != nil {
		return err
	}
	return c.Until(ctx, n.Name+" is ready", func() error {
		var node corev1.Node
		if err := c.API("GET", "/api/v1/nodes/"+n.Name, nil, &node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				info := node.Status.NodeInfo
				c.Log("node %s is ready: kubelet %s, %s, kernel %s", n.Name, info.KubeletVersion, info.ContainerRuntimeVersion, info.KernelVersion)
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", node.Status.Conditions)
	})
}

// Settle waits until pods can be made.
func (c *Cluster) Settle(ctx context.Context) error {
	return c.Until(ctx, "pods have an account", func() error {
		return c.API("GET", "/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
	})
}
