package kinds

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
)

// ibmSE is IBM Secure Execution on Z and LinuxONE (s390x, Linux 5.12 and later),
// from either side of the ultravisor.
var ibmSE = tee.Kind{
	Name:   "ibm-se",
	Doc:    "IBM Secure Execution (s390x), host or guest: what the ultravisor says in /sys/firmware/uv",
	Detect: detectIBMSE,
}

func detectIBMSE(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	if !c.sees("/sys/firmware/uv") {
		return c.absent("the firmware has no ultravisor")
	}
	guest, err := c.yes("/sys/firmware/uv/prot_virt_guest")
	if err != nil {
		return tee.Facts{}, err
	}
	owner, err := c.yes("/sys/firmware/uv/prot_virt_host")
	switch {
	case guest && owner:
		return tee.Facts{}, errors.New("/sys/firmware/uv says that this is both host and secure guest; no machine is both")
	case guest:
		return tee.Facts{Role: tee.Guest, Active: true, Evidence: c.evidence}, nil
	case err != nil:
		return tee.Facts{}, err
	}
	f := tee.Facts{Role: tee.Host, Active: owner, Evidence: c.evidence}
	if !owner {
		f.Why = "the machine has an ultravisor but this kernel does not run secure guests; boot with prot_virt=1"
	}
	return f, nil
}

// ibmPEF is the inside of a secure VM of IBM's Protected Execution Facility
// (POWER9 with ultravisor firmware).
var ibmPEF = tee.Kind{
	Name:   "ibm-pef",
	Doc:    "IBM Protected Execution Facility guest (ppc64le): /sys/devices/system/cpu/svm",
	Detect: detectIBMPEF,
}

func detectIBMPEF(h *host.Host) (tee.Facts, error) {
	const svm = "/sys/devices/system/cpu/svm"
	c := &clues{Host: h}
	if !c.sees(svm) {
		// A guest asks its firmware for protection with this option.
		if line, _ := h.ReadString("/proc/cmdline"); slices.Contains(strings.Fields(line), "svm=on") {
			c.doubt("the kernel was started with svm=on but does not say in %s what came of it", svm)
		}
		return c.absent("the kernel knows no secure VMs of POWER")
	}
	inside, err := c.yes(svm)
	switch {
	case err != nil:
		return tee.Facts{}, err
	case !inside:
		return c.absent(svm + " says that this is no secure VM")
	}
	return tee.Facts{Role: tee.Guest, Active: true, Evidence: c.evidence}, nil
}

// yes reads a file that answers 1 or 0.
func (c *clues) yes(name string) (bool, error) {
	s, err := c.ReadString(name)
	if err != nil {
		return false, err
	}
	if s != "0" && s != "1" {
		return false, fmt.Errorf("read %s: want 0 or 1, not %.20q", name, s)
	}
	c.saw(name, "%s", s)
	return s == "1", nil
}
