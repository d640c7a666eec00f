package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// linkEnd is one end of the network between two machines, as its kernel knows it.
type linkEnd struct {
	Interface string `json:"interface,omitempty"`
	MTU       int    `json:"mtu,omitempty"`
	// Driver is "none" for an interface without a device, such as the loopback.
	Driver string `json:"driver,omitempty"`
	// Mbit is the speed of the link; absent if the driver does not say.
	Mbit int `json:"mbit,omitempty"`
	// Offloads are what the kernel leaves to the interface, or gathers for it, as "on" or "off"
	// (ethtool --show-offload); one that the driver does not report is left out.
	Offloads map[string]string `json:"offloads,omitempty"`
	// PathMTU is the largest packet to the other end, in bytes; of a near end.
	PathMTU int `json:"path_mtu,omitempty"`
	// Problem is why the rest is unknown.
	Problem string `json:"problem,omitempty"`
}

// sayLink prints an end as a line, which the harness reads, or why it is unknown.
func sayLink(w io.Writer, e *linkEnd, err error) error {
	if err != nil {
		e = &linkEnd{Problem: err.Error()}
	}
	b, err := json.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintf(w, "link %s\n", b)
	}
	return err
}

// linkTo returns this machine's end of the network to an address. It sends nothing.
func linkTo(address string) (*linkEnd, error) {
	c, err := net.Dial("udp", address)
	if err != nil {
		return nil, fmt.Errorf("find the way to %s: %w", address, err)
	}
	defer func() { _ = c.Close() }()
	end, err := linkOf(c.LocalAddr().String())
	if err == nil {
		end.PathMTU, err = pathMTU(c.(*net.UDPConn))
	}
	return end, err
}

// linkOf returns the interface that has an address of this machine, HOST:PORT.
func linkOf(at string) (*linkEnd, error) {
	text, _, err := net.SplitHostPort(at)
	if err != nil {
		return nil, fmt.Errorf("find the interface of %s: %w", at, err)
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("find the interface of %s: %w", at, err)
	}
	want := net.ParseIP(text)
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addresses {
			// The loopback has all of 127.0.0.0/8.
			if n, ok := a.(*net.IPNet); ok && (n.IP.Equal(want) || i.Flags&net.FlagLoopback != 0 && n.Contains(want)) {
				return describeLink(i.Name, i.MTU)
			}
		}
	}
	return nil, fmt.Errorf("no interface has the address %s", text)
}

// describeLink asks the interface itself: /sys may show those of another network namespace.
func describeLink(name string, mtu int) (*linkEnd, error) {
	end := &linkEnd{Interface: name, MTU: mtu, Driver: "none", Offloads: map[string]string{}}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("ask for the offloads of %s: %w", name, err)
	}
	defer func() { _ = unix.Close(s) }()
	if d, err := unix.IoctlGetEthtoolDrvinfo(s, name); err == nil {
		end.Driver = unix.ByteSliceToString(d.Driver[:])
	}
	end.Mbit = linkSpeed(s, name)
	for _, o := range offloads {
		if v, err := ethtoolValue(s, name, o.command); err == nil {
			end.Offloads[o.name] = map[bool]string{false: "off", true: "on"}[v&o.mask != 0]
		}
	}
	return end, nil
}

// offloads are those that ethtool(8) shows, with the commands of include/uapi/linux/ethtool.h.
var offloads = []struct {
	name          string
	command, mask uint32
}{
	{"rx-checksum", unix.ETHTOOL_GRXCSUM, 1},
	{"tx-checksum", unix.ETHTOOL_GTXCSUM, 1},
	{"scatter-gather", unix.ETHTOOL_GSG, 1},
	{"tso", unix.ETHTOOL_GTSO, 1},
	{"gso", unix.ETHTOOL_GGSO, 1},
	{"gro", unix.ETHTOOL_GGRO, 1},
	{"lro", unix.ETHTOOL_GFLAGS, 1 << 15}, // ETH_FLAG_LRO
}

// linkSpeed returns the speed of a link in Mbit/s; 0 if the driver does not say.
func linkSpeed(socket int, name string) int {
	var settings struct { // struct ethtool_cmd
		command, supported, advertising uint32
		speed                           uint16
		_                               [6]byte
		_                               [2]uint32
		speedHigh                       uint16
		_                               [2]byte
		_                               [3]uint32
	}
	settings.command = unix.ETHTOOL_GSET
	speed := func() int32 { return int32(uint32(settings.speedHigh)<<16 | uint32(settings.speed)) }
	if ethtool(socket, name, unsafe.Pointer(&settings)) != nil || speed() <= 0 || speed() == 0xffff { // SPEED_UNKNOWN is -1
		return 0
	}
	return int(speed())
}

// ethtoolValue makes a request that returns a number (struct ethtool_value).
func ethtoolValue(socket int, name string, command uint32) (uint32, error) {
	value := struct{ command, data uint32 }{command: command}
	err := ethtool(socket, name, unsafe.Pointer(&value))
	return value.data, err
}

func ethtool(socket int, name string, data unsafe.Pointer) error {
	request := struct { // struct ifreq of netdevice(7)
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
		return e
	}
	return nil
}

// pathMTU returns the largest packet that the kernel sends to the peer of a connection, in bytes (IP_MTU of ip(7)).
func pathMTU(c *net.UDPConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("path MTU: %w", err)
	}
	mtu, bad := 0, error(nil)
	err = raw.Control(func(fd uintptr) { mtu, bad = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU) })
	if err == nil {
		err = bad
	}
	if err != nil {
		return 0, fmt.Errorf("path MTU: %w", err)
	}
	return mtu, nil
}

// reach connects to the far end, which may not listen yet.
func reach(ctx context.Context, address string) (net.Conn, error) {
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, unix.ECONNREFUSED):
			return nil, err // it names the address
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(poll):
		}
	}
}
