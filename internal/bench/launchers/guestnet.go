package launchers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// Networks of a guest.
const (
	netNone  = "none"
	netUser  = "user"
	netTap   = "tap"
	netVhost = "vhost"
)

// The guest's end of QEMU's network stack (qemu-system-x86_64(1), -netdev user): these
// are its defaults.
const (
	netName      = "net"
	guestAddress = "10.0.2.15"
	guestGateway = "10.0.2.2"
)

// settleNet gives a guest a network if a load comes from outside.
func settleNet(p bench.Params, jobs []bench.Job) bench.Params {
	if p["net"] != "auto" {
		return p
	}
	p = maps.Clone(p)
	p["net"] = netNone
	if slices.ContainsFunc(jobs, func(j bench.Job) bool { return j.Outside != nil }) {
		p["net"] = netUser
	}
	return p
}

// Reach implements bench.Reached: ports of this machine lead to the same ones of the guest.
func (e *qemuEnv) Reach(_ context.Context, offered bench.Place) (inside, outside bench.Place, way string, err error) {
	if onTap(e.params) {
		way = "virtio-net on a tap interface of this machine, packets moved by " + map[string]string{netTap: "QEMU", netVhost: "this machine's kernel (vhost-net)"}[e.params["net"]]
		at := bench.Place{Host: e.net.guest(), Ports: offered.Ports}
		return at, at, way, nil
	}
	if e.params["net"] != netUser {
		return inside, outside, "", errors.New("the guest has no network: use net=user")
	}
	e.using.Lock()
	defer e.using.Unlock()
	if e.vm != nil {
		err = e.vm.forward(offered)
	}
	if err == nil {
		e.forwards = offered
	}
	return bench.Place{Host: guestAddress, Ports: offered.Ports}, offered, "QEMU's user network: virtio-net, ports forwarded by QEMU itself", err
}

// forward makes ports of this machine lead to the guest.
func (v *vm) forward(at bench.Place) error {
	for _, port := range at.Ports {
		if err := v.qmp.human(fmt.Sprintf("hostfwd_add %s tcp:%s:%d-%s:%d", netName, at.Host, port, guestAddress, port)); err != nil {
			return fmt.Errorf("forward port %d of %s to the guest: %w (another program may use the port: run again)", port, at.Host, err)
		}
	}
	return nil
}

// errNetwork says that no later run in this guest reaches its network.
var errNetwork = errors.New("the guest has lost its network")

// carrier is whether the guest's card has a link; reading it fails while the card is down (Documentation/ABI/testing/sysfs-class-net).
const carrier = "/sys/class/net/eth0/carrier"

// connected adds to the error of a served run that the guest's network was lost in it. The guest is asked over the serial
// line, which needs no network.
func (v *vm) connected(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errLost) {
		return err
	}
	why := ""
	if onTap(v.params) {
		if _, terr := v.h.ReadString("/sys/class/net/" + v.net.name() + "/carrier"); terr != nil {
			why = "this machine's interface " + v.net.name() + " is gone or down"
		}
	}
	if why == "" {
		out, aerr := v.run(ctx, host.Cmd{Argv: []string{path.Join(guestWork, "micro"), "capture", carrier}}, v.h.Now())
		if aerr != nil { // then the state of the card is unknown
			return err
		}
		why = cardLost(string(out.Stdout))
	}
	if why == "" {
		return err
	}
	return withCause(fmt.Errorf("%w: %s", errNetwork, why), err)
}

// cardLost reads from a capture of carrier why the card has no network; "" if it has, or if that is unknown.
func cardLost(capture string) string {
	for line := range strings.Lines(capture) {
		switch kind, rest, _ := strings.Cut(line, " "+carrier+" "); {
		case kind == "file" && strings.HasPrefix(rest, "1"):
			return ""
		case kind == "file":
			return "the guest's card eth0 has no link"
		case kind == "error":
			return "the guest's card eth0 is down"
		case strings.HasPrefix(line, "end "):
			return "the guest's card eth0 is gone"
		}
	}
	return ""
}

// killed is the kernel's message when it kills a program because memory ran out.
var killed = regexp.MustCompile(`Out of memory: Killed process \d+ \(([^)]*)\)`)

// exhausted adds to a failed run's error that the guest ran out of memory, if its console says
// so.
func exhausted(err error, console []byte) error {
	if m := killed.FindSubmatch(console); err != nil && m != nil {
		return fmt.Errorf("the guest ran out of memory and its kernel killed %s: give the guest more memory with memory=: %w", m[1], err)
	}
	return err
}
