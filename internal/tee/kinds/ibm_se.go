package kinds

import (
	"errors"

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
	if !c.checkFile("/sys/firmware/uv") {
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
