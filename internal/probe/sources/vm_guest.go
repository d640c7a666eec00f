package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var guestInfo = gauge("tee_guest_info",
	`Always 1 in a virtual machine, with its UUID in lower case, which is also in its host's tee_vm_info. To join the host's counters with the guest's: tee_vm_exits_total * on (vm) group_left (guest) label_replace(label_replace(tee_guest_info, "vm", "$1", "uuid", "(.*)"), "guest", "$1", "instance", "(.*)").`,
	"uuid")

// guestIDs are the files with the UUID given by the hypervisor: SMBIOS (root only),
// Xen, and the device tree of Power.
var guestIDs = []string{"/sys/class/dmi/id/product_uuid", "/sys/hypervisor/uuid", "/proc/device-tree/vm,uuid"}

var vmGuest = probe.Source{
	Name:    "vm_guest",
	Doc:     "The identity of this virtual machine, which identifies it among the machines of its host",
	Metrics: []*metric.Desc{guestInfo},
	Needs:   []probe.Need{{Capability: "cap_dac_read_search", For: "to read the UUID in /sys/class/dmi/id, which only root may read"}},
	Kernels: "Any, with CONFIG_DMIID on x86 and arm64.",
	Cost:    "One file, read once.",
	Blind:   "Machines whose monitor provides no SMBIOS tables, such as Firecracker.",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		uuid, err := guestUUID(h)
		if err != nil {
			return nil, err
		}
		return reading(func(_ context.Context, out emitter) error {
			out.send(guestInfo, 1, uuid)
			return nil
		}), nil
	},
}

func guestUUID(h *host.Host) (string, error) {
	if last, _, _, _ := h.CPUID(0, 0); last > 0 {
		if _, _, c, _ := h.CPUID(1, 0); c&(1<<31) == 0 {
			return "", probe.NotHere("the CPU has no hypervisor bit: not a virtual machine")
		}
	}
	for _, name := range guestIDs {
		s, err := h.ReadString(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, fs.ErrPermission):
			return "", &probe.Problem{Err: err, Remedy: "run as root, or grant CAP_DAC_READ_SEARCH"}
		case err != nil:
			return "", err
		}
		uuid := tidyUUID(cString([]byte(s)))
		if uuid == "" {
			return "", fmt.Errorf("parse %s: %q is not a UUID", name, s)
		}
		return uuid, nil
	}
	return "", probe.NotHere("the kernel shows no UUID from a hypervisor")
}
