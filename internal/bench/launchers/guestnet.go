package launchers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/teescope/teescope/internal/bench"
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
			return fmt.Errorf("forward port %d of %s to the guest: %w (another program may have taken the port: run again)", port, at.Host, err)
		}
	}
	return nil
}

// killed is the kernel's message when it kills a program because memory ran out.
var killed = regexp.MustCompile(`Out of memory: Killed process \d+ \(([^)]*)\)`)

// exhausted adds to a failed run's error that the guest ran out of memory, if its console says
// so.
func exhausted(err error, console []byte) error {
	if m := killed.FindSubmatch(console); err != nil && m != nil {
		return fmt.Errorf("the guest ran out of memory and its kernel killed %s: give it more with memory=: %w", m[1], err)
	}
	return err
}
