package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/machine"
)

// TestCountedNetworks: of the listed devices of each machine those count that carry all the others' bytes, and each of the
// others is known not to.
func TestCountedNetworks(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/networks/*.txtar")
	if err != nil || len(fixtures) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range fixtures {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			f := hosttest.Open(t, path)
			listed := strings.Fields(f.Meta["listed"])
			got, err := machine.CountedNetworks(f.Host, "/proc/1", listed)
			if err != nil {
				t.Error(err)
			}
			if len(got) != len(listed) {
				t.Errorf("of %q these are known: %v", listed, got)
			}
			if counted := named(got); !slices.Equal(counted, strings.Fields(f.Meta["counted"])) {
				t.Errorf("%q count, want %q", counted, f.Meta["counted"])
			}
		})
	}
}

// named are the names that count.
func named(counted map[string]bool) (names []string) {
	for name, c := range counted {
		if c {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestCountedNetworksUnknown: what a device is that cannot be read is not known, with the reason, and no other device counts in
// its place.
func TestCountedNetworksUnknown(t *testing.T) {
	for _, c := range []struct{ fixture, without, counted, unknown string }{
		{"container", "sys/devices/virtual/net/eth0/type", "", "eth0"},
		{"container", "sys/devices/virtual/net/eth0/flags", "", "eth0"},
		{"container", "sys/devices/virtual/net/eth0/uevent", "", "eth0"},
		{"vpn-in-container", "sys/devices/virtual/net/eth0/type", "", "eth0"}, // the tunnel does not count in its place
		{"containers-inside", "proc/1/net/route", "", "eth0 veth1 veth2"},
		{"containers-inside", "proc/1/net/ipv6_route", "eth0", ""}, // a kernel without IPv6
		{"two-links", "sys/devices/virtual/net/net1/uevent", "eth0", "net1"},
		{"pod-with-card", "proc/1/net/route", "net1", "eth0 veth1"},
		{"pod-with-card", "sys/devices/virtual/net/eth0/type", "net1", "eth0"},
	} {
		t.Run(c.fixture+" without "+c.without, func(t *testing.T) {
			f := hosttest.Open(t, "testdata/networks/"+c.fixture+".txtar")
			listed := strings.Fields(f.Meta["listed"])
			f.RemoveDuring(t, c.without, func() {
				got, err := machine.CountedNetworks(f.Host, "/proc/1", listed)
				var unknown []string
				for _, name := range listed {
					if _, known := got[name]; !known {
						unknown = append(unknown, name)
					}
				}
				if counted := named(got); strings.Join(counted, " ") != c.counted || strings.Join(unknown, " ") != c.unknown || (err == nil) != (c.unknown == "") {
					t.Errorf("%q count, %q are unknown, error %v", counted, unknown, err)
				}
			})
		})
	}
}

// layers makes, in a namespace without cards, a link that leads out, devices on it, and links that stay inside.
const layers = `set -e
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
ip netns add far
ip netns add pod
ip link add out type veth peer name in netns far
ip link add toward type veth peer name in netns pod
ip link add port type veth peer name guest netns pod
ip link add br0 type bridge
ip link set port master br0
ip link add five type vxlan id 5 dev out dstport 4789
ip tuntap add tap0 mode tap
ip tuntap add tun0 mode tun
ip link set lo up
ip link set out up
ip link set toward up
ip -n far link set in up
ip -n pod link set in up
ip addr add 10.9.0.2/24 dev out
ip route add 10.8.0.3/32 dev toward
`

// TestCountedLayers: of devices that this kernel makes, those count that lead out of the namespace.
func TestCountedLayers(t *testing.T) {
	const inside = "TEESCOPE_TEST_LAYERS"
	if os.Getenv(inside) == "" {
		setUp := "ip link add one type veth peer name two && ip link add three type bridge && ip tuntap add four mode tap && ip link add five type vxlan id 5 dev one dstport 4789"
		if out, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", setUp).CombinedOutput(); err != nil {
			t.Skipf("network devices cannot be made here: %v: %s", err, out)
		}
		c := exec.Command("unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", layers+`exec "$0" -test.run='^TestCountedLayers$' -test.v`, os.Args[0])
		c.Env = append(os.Environ(), inside+"=1")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestCountedLayers") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	b, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	if err := machine.ParseNetDev("dev", b, func(d machine.NetDevice) { listed = append(listed, d.Name) }); err != nil {
		t.Fatal(err)
	}
	got, err := machine.CountedNetworks(host.Local(), "/proc/self", listed)
	if err != nil {
		t.Fatal(err)
	}
	// Modules may add tunnels to each new namespace, as sit0.
	if counted := named(got); !slices.Equal(counted, []string{"out"}) || len(listed) < 8 || len(got) != len(listed) {
		t.Errorf("of %q these count: %q", listed, counted)
	}
}
