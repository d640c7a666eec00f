package machine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// standing is how a network device gets its packets; a sum counts the devices of the lowest one that a machine has. On a
// machine with network cards all other traffic passes these too, or stays inside; but a link with the default route leads out
// beside them, as that of a pod that was also given a card. A container without cards has a link to another namespace as its
// outermost device, without such a link a tap, and without that a tunnel.
type standing int

const (
	card   standing = iota
	link            // its other end is in another namespace
	tap             // a program's, or of a driver that says nothing about itself
	tunnel          // of anything but Ethernet frames, or through other devices
	never           // it stands on listed devices, joins them, or is the loopback
)

// CountedNetworks are the network devices among the listed names that sums count, so that each byte counts once: bonds, VLANs,
// bridges, tunnels and the host's ends of containers' links carry what network cards carry too. sysfs says what a device is;
// where it lacks half of those listed, it is that of another namespace, and there are only names. process is the folder in
// /proc of a process in the namespace. With the error, which says what could not be read, it returns what it could tell: a
// device that is not in the map is one of which nothing is known.
func CountedNetworks(h *host.Host, process string, listed []string) (map[string]bool, error) {
	var bad Faults
	all, err := readFolder(h, "/sys/class/net")
	bad.Add(err)
	known, unknown := 0, 0
	for _, name := range listed {
		switch {
		case name == "lo":
		case all[name]:
			known++
		default:
			unknown++
		}
	}
	virtual, err := readFolder(h, "/sys/devices/virtual/net")
	bad.Add(err)
	if !virtual["lo"] || unknown > 0 && unknown >= known { // every namespace has lo
		return CountedNames(listed), bad.Err()
	}
	of := map[string]standing{}
	low := never // the lowest standing, also that which a device may have of which it is not known
	add := func(name string, s standing, err error) {
		low = min(low, s)
		bad.Add(err)
		if err == nil {
			of[name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !virtual[name] && name != "bonding_masters" && name != "lo" {
			s, err := cardStanding(h, name, virtual)
			add(name, s, err)
		}
	}
	cards := low == card
	var out map[string]bool // beside cards, the devices with the default route, once a link asks for it
	for _, name := range slices.Sorted(maps.Keys(virtual)) {
		if name == "lo" || out != nil && !out[name] {
			of[name] = never
			continue
		}
		s, err := virtualStanding(h, name)
		if cards && s == link && err == nil {
			if out == nil {
				_, out, err = routedDevices(h, process)
			}
			if out[name] { // a pod's link beside a card of its own
				s = card
			}
		}
		add(name, s, err)
	}
	counted := countLowest(low, of, listed)
	if !cards {
		bad.Add(keepRouted(h, process, of, counted))
	}
	return counted, bad.Err()
}

// readFolder lists a folder; one that is not there is empty.
func readFolder(h *host.Host, dir string) (map[string]bool, error) {
	entries, err := h.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, err
}

// countLowest says of each listed device with a standing whether that is the lowest.
func countLowest(low standing, of map[string]standing, listed []string) map[string]bool {
	counted := map[string]bool{}
	for _, name := range listed {
		if s, known := of[name]; known {
			counted[name] = s == low && s != never
		}
	}
	return counted
}

// representor is the name of a switch's port for a function that a virtual machine has (Documentation/networking/switchdev.rst).
var representor = regexp.MustCompile(`^(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+$`)

// cardStanding is that of a device with hardware, or with a driver of a bus. Another such device that stands on it has its
// numbers: the card that Hyper-V and virtio put behind theirs, the way from a switch to its CPU.
func cardStanding(h *host.Host, name string, virtual map[string]bool) (standing, error) {
	dir := "/sys/class/net/" + name
	files, err := readFolder(h, dir)
	if err != nil {
		return card, err
	}
	for f := range files {
		if upper, ok := strings.CutPrefix(f, "upper_"); ok && !virtual[upper] {
			return never, nil
		}
	}
	if port, err := h.ReadString(dir + "/phys_port_name"); err == nil && representor.MatchString(port) { // most drivers answer EOPNOTSUPP
		return never, nil
	}
	if bus, err := h.Readlink(dir + "/device/subsystem"); err == nil && path.Base(bus) == "xen-backend" { // the host's end of a guest's link
		return link, nil
	}
	return card, nil
}

// ethernet is a type of link layers in /sys/class/net/NAME/type (linux/if_arp.h).
const ethernet = "1"

// noARP is the flag IFF_NOARP of an interface (netdevice(7)).
const noARP = 0x80

// virtualStanding is that of a device without hardware; with an error, the lowest that it may have.
func virtualStanding(h *host.Host, name string) (standing, error) {
	dir := "/sys/class/net/" + name
	files, err := readFolder(h, dir)
	switch {
	case err != nil:
		return link, err
	case len(files) == 0: // it went away
		return never, nil
	}
	for f := range files {
		// A link to a device below, or above as the master of this one; a bridge or bond.
		if strings.HasPrefix(f, "lower_") || f == "master" || f == "bridge" || f == "bonding" {
			return never, nil
		}
	}
	kind, err := h.ReadString(dir + "/type")
	if err != nil {
		return link, err
	}
	switch {
	case kind != ethernet:
		return tunnel, nil
	case files["tun_flags"]:
		return tap, nil
	}
	event, err := h.ReadString(dir + "/uevent")
	if err != nil {
		return link, err
	}
	for line := range strings.Lines(event) {
		kind, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVTYPE=")
		switch {
		case !ok: // a veth has none
		case slices.Contains([]string{"vlan", "macvlan", "ipvlan"}, kind): // its card is in another namespace, or it would have a link to it
			return link, nil
		default:
			return tunnel, nil
		}
	}
	text, err := h.ReadString(dir + "/flags")
	if err != nil {
		return link, err
	}
	flags, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		return link, fmt.Errorf("parse %s/flags: %.40q is not a number", dir, text)
	}
	if flags&noARP != 0 { // dummy and ifb
		return tap, nil
	}
	return link, nil
}

// keepRouted leaves of several counted links those that lead out, by their route to more than one address; the others lead to
// containers inside this one. Where none has such a route, all count.
func keepRouted(h *host.Host, process string, of map[string]standing, counted map[string]bool) error {
	var links []string
	for name, c := range counted {
		if c && of[name] == link {
			links = append(links, name)
		}
	}
	if len(links) < 2 {
		return nil
	}
	routed, _, err := routedDevices(h, process)
	if err != nil { // which lead out is not known
		for _, name := range links {
			delete(counted, name)
		}
		return err
	}
	if slices.ContainsFunc(links, func(name string) bool { return routed[name] }) {
		for _, name := range links {
			counted[name] = routed[name]
		}
	}
	return nil
}

// routedDevices are those with a route to more than one address, except the ones that every device has, and of these the ones
// with the default route (proc_pid_net(5); net/ipv6/route.c, rt6_info_route). With an error there are none.
func routedDevices(h *host.Host, process string) (routed, byDefault map[string]bool, err error) {
	routed, byDefault = map[string]bool{}, map[string]bool{}
	var bad Faults
	b, err := h.ReadFile(process + "/net/route")
	bad.Add(err)
	t := Text{File: process + "/net/route", MayBeEmpty: true}
	for line := range t.Lines(b) {
		f := strings.Fields(line)
		if t.line == 1 { // the header
			continue
		}
		if len(f) < 8 {
			t.Bad("%.40q has no mask", line)
			continue
		}
		switch f[7] {
		case "FFFFFFFF":
			continue
		case "00000000":
			byDefault[f[0]] = true
		}
		routed[f[0]] = true
	}
	bad.Add(t.Err())
	b, err = h.ReadFile(process + "/net/ipv6_route")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
		err = nil
	}
	bad.Add(err)
	t = Text{File: process + "/net/ipv6_route", MayBeEmpty: true}
	for line := range t.Lines(b) {
		f := strings.Fields(line)
		if len(f) < 10 {
			t.Bad("%.40q has no device", line)
			continue
		}
		to, err1 := hex.DecodeString(f[0])
		length, err2 := strconv.ParseUint(f[1], 16, 8)
		if err1 != nil || err2 != nil || len(to) != 16 {
			t.Bad("%.40q is not a prefix and its length", line)
			continue
		}
		local := to[0] == 0xff || to[0] == 0xfe && to[1]&0xc0 == 0x80 // multicast, link-local
		if length < 128 && !local {
			routed[f[9]] = true
		}
		if length == 0 {
			byDefault[f[9]] = true
		}
	}
	bad.Add(t.Err())
	if err := bad.Err(); err != nil {
		return nil, nil, err
	}
	return routed, byDefault, nil
}

// Names by which the kernel and the usual programs call devices that stand on or join others, and the ends of links and tunnels.
var (
	joined = regexp.MustCompile(`^(lo|(bond|team|br|virbr|vmbr|docker|podman|cni|cbr|lxcbr|lxdbr|vlan|macvlan|ipvlan|vxlan|flannel|geneve|gre|gretap|erspan|sit|tunl|ip6tnl|ip6gre|ip6_vti|ip_vti|dummy|ifb|nlmon|kube-ipvs|cilium|ovs|ovn-k8s|genev_sys|vxlan_sys|weave|antrea-gw|nodelocaldns|wireguard)([-_.0-9].*)?)$`)
	ends   = regexp.MustCompile(`^(veth|tap|tun|vnet|wg|ppp|cali|lxc|vif|tailscale|zt|ve-|vb-|eni[0-9a-f]|azv|gke|nk)`)
)

// CountedNames is CountedNetworks where there are only names.
func CountedNames(listed []string) map[string]bool {
	of, low := map[string]standing{}, never
	for _, name := range listed {
		parent, _, vlan := strings.Cut(name, ".")
		switch {
		case joined.MatchString(name), vlan && slices.Contains(listed, parent):
			of[name] = never
		case ends.MatchString(name):
			of[name] = tap
		default:
			of[name] = card
		}
		low = min(low, of[name])
	}
	return countLowest(low, of, listed)
}
