package cluster

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Network is one of the cluster's networks of pods. A pod is in the network that its runtime class names, and in the first one without
// a runtime class. Networks differ in nothing but these two things: pods of each have a bridge on their node, and a route to the other
// node's pods.
type Network struct {
	Name string
	// Encrypted: between the nodes, packets go through WireGuard.
	Encrypted bool
	// MTU of the pods' interfaces, in bytes.
	MTU int

	number int
}

// Networks has the MTUs of Constellation's published comparison, each plain and encrypted.
var Networks = []Network{
	{Name: "plain-1450", MTU: 1450, number: 0},
	{Name: "wireguard-1450", MTU: 1450, Encrypted: true, number: 1},
	{Name: "plain-8896", MTU: 8896, number: 2},
	{Name: "wireguard-8896", MTU: 8896, Encrypted: true, number: 3},
}

// tunnelMTU is that of WireGuard's device, the largest of the networks'; linkMTU is that of the link between the nodes. WireGuard adds
// 80 bytes to a packet at most, so it never makes two of one.
const (
	tunnelMTU = 8896
	linkMTU   = tunnelMTU + 80
)

// pods are the addresses of a node's pods in a network. Those of the first network are what the controller manager gives the node.
func (n *Node) pods(net Network) string { return fmt.Sprintf("10.244.%d.0/24", 16*net.number+n.number) }

// nameNetworks makes the networks' runtime classes.
func (c *Cluster) nameNetworks() error {
	for _, n := range Networks {
		if err := c.API("POST", "/apis/node.k8s.io/v1/runtimeclasses", map[string]any{"metadata": map[string]any{"name": n.Name}, "handler": n.Name}, nil); err != nil {
			return err
		}
	}
	return nil
}

// interfaces writes how a node's pods get their interfaces, and returns containerd's section of runtimes.
func (c *Cluster) interfaces(n *Node) (runtimes string, err error) {
	for _, net := range Networks {
		dir := filepath.Join(n.Name, "cni", net.Name)
		runtimes += fmt.Sprintf(`[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%q]
 runtime_type = "io.containerd.runc.v2"
 cni_conf_dir = %q
`, net.Name, filepath.Join(c.State, dir))
		if err := c.write(filepath.Join(dir, "10-bridge.conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [
 {"type": "bridge", "bridge": "cni%d", "isGateway": true, "hairpinMode": true, "mtu": %d,
  "ipam": {"type": "host-local", "dataDir": "/run/ipam", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}`, net.Name, net.number, net.MTU, n.pods(net))); err != nil {
			return "", err
		}
	}
	return runtimes, nil
}

// joinNodes joins the second node to the first one, and routes the networks of pods.
func (c *Cluster) joinNodes(ctx context.Context, first, second *Node) error {
	pair := fmt.Sprintf("link add link0 mtu %[1]d master node0 up type veth peer name node0 mtu %[1]d netns %[2]d", linkMTU, second.holder.Process.Pid)
	if _, err := command(ctx, "ip", strings.Fields(pair)...); err != nil {
		return err
	}
	for _, line := range []string{
		"ip link set lo up", "ip addr add " + second.IP + "/24 dev node0", "ip link set node0 up", "ip route add default via " + first.IP,
	} {
		if err := second.run(ctx, strings.Fields(line)...); err != nil {
			return err
		}
	}
	return errors.Join(c.routePods(ctx, first, second), c.routePods(ctx, second, first), c.makeTunnel(ctx, first, second))
}

// routePods makes the routes from a node to the other's pods that are not encrypted.
func (c *Cluster) routePods(ctx context.Context, from, to *Node) error {
	for _, net := range Networks {
		if net.Encrypted {
			continue
		}
		if err := from.run(ctx, "ip", "route", "add", to.pods(net), "via", to.IP); err != nil {
			return err
		}
	}
	return nil
}

// makeTunnel makes a WireGuard tunnel between the nodes, and the routes into it. WireGuard is the kernel's, or without that wireguard-go,
// a program on each node.
func (c *Cluster) makeTunnel(ctx context.Context, a, b *Node) error {
	keys := map[*Node]*ecdh.PrivateKey{}
	for _, n := range []*Node{a, b} {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		keys[n] = key
		if err := c.write(filepath.Join(n.Name, "wireguard.key"), base64.StdEncoding.EncodeToString(key.Bytes())); err != nil {
			return err
		}
		if n.run(ctx, "ip", "link", "add", "wg0", "type", "wireguard") != nil {
			// Both nodes have one kernel, whose counters of programs have their names: so each node's has a name of its own.
			program := filepath.Join(c.State, n.Name, fmt.Sprintf("wireguard-go-%d", n.number+1))
			if err := os.Symlink(filepath.Join(c.Files, "wireguard-go"), program); err != nil {
				return err
			}
			if err := c.startOn(n, "wireguard-go", program, "--foreground", "wg0"); err != nil {
				return err
			}
			if err := c.Until(ctx, "wireguard-go on "+n.Name+" has its device", func() error { return n.run(ctx, "wg", "show", "wg0") }); err != nil {
				return err
			}
		}
	}
	for n, peer := range map[*Node]*Node{a: b, b: a} {
		var allowed []string
		for _, net := range Networks {
			if net.Encrypted {
				allowed = append(allowed, peer.pods(net))
			}
		}
		public := base64.StdEncoding.EncodeToString(keys[peer].PublicKey().Bytes())
		if err := errors.Join(
			n.run(ctx, "wg", "set", "wg0", "listen-port", "51820", "private-key", filepath.Join(c.State, n.Name, "wireguard.key"),
				"peer", public, "endpoint", peer.IP+":51820", "allowed-ips", strings.Join(allowed, ",")),
			n.run(ctx, "ip", "link", "set", "wg0", "mtu", fmt.Sprint(tunnelMTU), "up"),
		); err != nil {
			return err
		}
		for _, pods := range allowed {
			if err := n.run(ctx, "ip", "route", "add", pods, "dev", "wg0"); err != nil {
				return err
			}
		}
	}
	return nil
}

// Encrypted is how many bytes the node's end of the tunnel has sent and received.
func (n *Node) Encrypted(ctx context.Context) (bytes int64, err error) {
	out, err := n.output(ctx, "wg", "show", "wg0", "transfer")
	if err != nil {
		return 0, err
	}
	var peer string
	var received, sent int64
	if _, err := fmt.Sscan(out, &peer, &received, &sent); err != nil {
		return 0, fmt.Errorf("wg show wg0 transfer: %q: %w", out, err)
	}
	return received + sent, nil
}
