package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/teescope/teescope/internal/host"
)

// wireGuardModule is WireGuard in user space, by its own authors.
const wireGuardModule = "golang.zx2c4.com/wireguard"

// wireGuard is one end of a tunnel, in the network namespace that it is started in.
var wireGuard = Command{
	Name: "wireguard",
	Doc:  "one end of a WireGuard tunnel in user space; its configuration (wg's cross-platform interface) comes from standard input",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		name := f.String("device", "wg", "name of the tunnel's device, which is made and goes with the program")
		mtu := f.Uint("mtu", 1420, "largest packet of the tunnel in bytes")
		netns := f.String("netns", "", "`PATH` of the network namespace for the device; without it, the program's own, in which the datagrams are sent")
		return func(ctx context.Context, s Streams) error { return serveWireGuard(ctx, s, *name, *netns, *mtu) }
	},
}

// mostConfig bounds the configuration: a key, a port and a few peers.
const mostConfig = 64 << 10

func serveWireGuard(ctx context.Context, s Streams, name, netns string, mtu uint) error {
	config, err := io.ReadAll(io.LimitReader(s.In, mostConfig))
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var link tun.Device
	var offload bool
	err = inNamespace(netns, func() error {
		if link, offload, err = openTunnel(name); err != nil {
			return err
		}
		if err := setMTU(ctx, name, mtu); err != nil {
			return errors.Join(err, link.Close())
		}
		return nil
	})
	if err != nil {
		return err
	}
	d := device.NewDevice(link, unrouted{conn.NewDefaultBind()}, &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf:   func(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) },
	})
	defer d.Close()
	if err := d.IpcSetOperation(bytes.NewReader(config)); err != nil {
		return fmt.Errorf("configure the tunnel: %w", err)
	}
	if err := d.Up(); err != nil {
		return fmt.Errorf("start the tunnel: %w", err)
	}
	if err := json.NewEncoder(s.Out).Encode(tunnelEnd{Version: moduleVersion(wireGuardModule), Offload: offload}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.Wait():
		return errors.New("the tunnel's device went away")
	}
}

// unrouted is a bind for which the library does not listen to route changes, as it does only for
// its own: there are none here, and gVisor's kernel does not report them.
type unrouted struct{ conn.Bind }

// tunnelEnd is what a tunnel reports when it works.
type tunnelEnd struct {
	Version string `json:"version"`
	// Offload: the kernel and the tunnel exchange segments of up to 64 KiB, which
	// multiplies the throughput (virtio headers, since 2023).
	Offload bool `json:"offload"`
}

// openTunnel makes a TUN device, with offloads if the kernel has them (gVisor has none). See
// Documentation/networking/tuntap.rst.
func openTunnel(name string) (t tun.Device, offload bool, err error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return nil, false, fmt.Errorf("name a device %q: %w", name, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, fmt.Errorf("open /dev/net/tun: %w (a tunnel needs it: the kernel's tun module, or the device in the container)", err)
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	if errors.Is(err, unix.EINVAL) {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	} else {
		offload = err == nil
	}
	if err == nil {
		t, _, err = tun.CreateUnmonitoredTUNFromFD(fd)
	} else {
		_ = unix.Close(fd)
	}
	if err != nil {
		return nil, false, fmt.Errorf("make a TUN device: %w (it needs CAP_NET_ADMIN)", err)
	}
	return t, offload, nil
}

// setMTU sets a device's largest packet by netlink, because not every kernel has the ioctl
// (gVisor lacks it).
func setMTU(ctx context.Context, name string, mtu uint) error {
	out, err := host.Local().Exec(ctx, host.Cmd{Argv: []string{"ip", "link", "set", "dev", name, "mtu", strconv.FormatUint(uint64(mtu), 10)}})
	if err != nil {
		return host.WithReason(fmt.Errorf("set the MTU of %s to %d bytes: %w", name, mtu, err), out)
	}
	return nil
}

// moduleVersion returns the version of a built-in module, or "unknown" if the build information
// lacks it.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}
