package kinds

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
)

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
	if !c.checkFile(svm) {
		// A guest asks its firmware for protection with this option.
		if line, _ := h.ReadString("/proc/cmdline"); slices.Contains(strings.Fields(line), "svm=on") {
			c.doubt("the kernel was started with svm=on but does not say in %s whether it became one", svm)
		}
		return c.absent("the kernel knows no secure VMs of POWER")
	}
	inside, err := c.yes(svm)
	switch {
	case err != nil:
		return tee.Facts{}, err
	case !inside:
		return c.absent(svm + " says that this is not a secure VM")
	}
	return tee.Facts{Role: tee.Guest, Active: true, Evidence: c.evidence}, nil
}
